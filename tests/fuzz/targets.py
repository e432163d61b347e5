"""What is fuzzed: each decoder, and what becomes of a record that it lets pass. A target raises only when it found something.

A record that is let pass is folded, judged, shown and kept: one that could not would stop the observer, every page, or history,
each time it is read again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.history import row_coding
from indoubt.collector.observe.transaction_state_log import TOPIC, record_of
from indoubt.collector.records.formats import iceberg_events, lifecycle_event_batch
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_metadata import read_checkpoint_metadata
from indoubt.collector.records.formats.flink_metadata.jdbc_sink_states import read_function_state
from indoubt.collector.records.formats.flink_metadata.kafka_sink_states import read_writer_state
from indoubt.collector.records.formats.flink_metadata.operator_state import read_elements
from indoubt.collector.records.formats.flink_metadata.sink_states import read_branches, read_requests
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.collector.records.formats.pending_files import IcebergCommit, PendingFile
from indoubt.collector.records.formats.transaction_state import (
    BrokerStatus,
    TransactionStateValue,
    decode_key,
    decode_value,
)
from indoubt.collector.records.formats.transaction_state_batch import StateDecoder
from indoubt.collector.records.iceberg_connect import CoordinatorGroup, Place, TableSeen, Written, place_of
from indoubt.collector.records.iceberg_snapshots import TableHistory
from indoubt.collector.records.observations import DecisionSeen, EventSeen, Observation, Observed, Position
from indoubt.collector.records.xids import as_listed, owner_of, xid_owner
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_case import Case, DecisionLogStatus, Limits
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.pipeline_rows import checkpoint_row
from indoubt.collector.views.transaction_detail import detail_row
from indoubt.collector.views.transaction_rows import transaction_row
from indoubt.lifecycle import decisions, events
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.resource_manager_kinds import MYSQL
from indoubt.lifecycle.rows.row_json import row_to_json
from indoubt.resource_managers.mysql.xa_xid import XaXid

NOW_MS = 1_795_000_100_000
KEY = b"\0\0\0\x0cip-count-0-1"
ONGOING = TransactionStateValue(
    producer_id=7,
    producer_epoch=0,
    timeout_ms=60_000,
    status=BrokerStatus.ONGOING,
    partitions=(),
    update_ms=NOW_MS,
    start_ms=NOW_MS - 1000,
    client_transaction_version=2,
)
RUN = RunStarted(prefix="ip-count", checkpoint_id="checkpoint-1", run="r", at_ms=NOW_MS - 50_000)
"""The run that the corpus' decisions are of, so that they count."""


def transaction_state_key(data: bytes) -> None:
    """Decode a key of ``__transaction_state``."""
    try:
        transaction = decode_key(data)
    except MalformedRecord:
        return
    _is_taken(record_of(transaction, ONGOING, TOPIC), "")


def transaction_state_value(data: bytes) -> None:
    """Decode a value of ``__transaction_state``, by itself and in columns: what passes there passes here and says the same."""
    columns, ordinary = StateDecoder().decode([KEY], [data])
    if ordinary[0]:
        alone = decode_value(data)
        assert columns.partition_sets[columns.partition_set[0]] == alone.partitions
        for name in (
            "producer_id",
            "producer_epoch",
            "timeout_ms",
            "update_ms",
            "start_ms",
            "client_transaction_version",
        ):
            assert getattr(columns, name)[0] == getattr(alone, name), name
        assert columns.status[0] == alone.status.value
    try:
        value = decode_value(data)
    except MalformedRecord:
        return
    _is_taken(record_of("ip-count-0-1", value, TOPIC), "")


def lifecycle_event(data: bytes) -> None:
    """Decode a lifecycle event; what history keeps of it must decode to the same when the collector starts again."""
    _agrees_in_columns(data)
    try:
        event = events.decode(data)
    except MalformedRecord:
        return
    raw = data.decode(errors="replace")
    assert events.decode(raw.encode()) == event
    assert events.decode(events.encode(event)) == event
    _is_taken(EventSeen(event=event), raw)


def _agrees_in_columns(data: bytes) -> None:
    """Check that an event which passes in columns passes by itself, but for fields that columns leave out, and says the same."""
    columns, numbers = lifecycle_event_batch.decode([data] * lifecycle_event_batch.SMALLEST)
    if not len(numbers):
        return
    alone = events.decode(_without_unused_fields(data))
    assert (columns.type[0].as_py(), columns.at_ms[0].as_py()) == (alone.type.value, alone.at_ms)
    for name, value in columns.data[0].as_py().items():
        told = alone.data.get(name)
        if isinstance(value, dict):
            value, told = Handle.from_json(value), Handle.from_json(told)
        assert value == told, name


def _without_unused_fields(data: bytes) -> bytes:
    fields = json.loads(data)
    used = {field.name for field in lifecycle_event_batch.COLUMNS} - {"data"}
    of_data = {field.name for field in lifecycle_event_batch.COLUMNS.field("data").type}
    told = {name: value for name, value in fields["data"].items() if name in of_data}
    return json.dumps({**{name: fields[name] for name in used & set(fields)}, "data": told}).encode()


def decision_record(data: bytes) -> None:
    """Decode a record of the decision log; what history keeps of it must decode to the same when the collector starts again."""
    try:
        record = decisions.decode(data)
    except MalformedRecord:
        return
    raw = data.decode(errors="replace")
    assert decisions.decode(raw.encode()) == record
    assert decisions.decode(decisions.encode(record)) == record
    if isinstance(record, decisions.Part):
        return
    if isinstance(record, decisions.Snapshot):
        # It stands for the records that it repeats: these are what the collector takes.
        DecisionLedger.of_snapshot(record).kept()
        for kept in record.kept:
            seen = DecisionSeen(offset=kept.offset, record=kept.record, counts=kept.counts)
            _is_taken(seen, decisions.encode(kept.record).decode())
        return
    _is_taken(DecisionSeen(offset=1, record=record), raw)


def flink_metadata(data: bytes) -> None:
    """Read Flink's ``_metadata``, with no file beside it."""
    try:
        checkpoint = read_checkpoint_metadata(data, _no_file)
    except MalformedRecord:
        return
    for committable in checkpoint.committables:
        _is_committable(committable)
    for branch in checkpoint.branches:
        _is_branch(branch)
    for written in checkpoint.files:
        _is_file(written)


def _no_file(path: str) -> io.BytesIO:
    raise FileNotFoundError(path)


def flink_operator_state(data: bytes) -> None:
    """Read the element that begins at the offset in the first two bytes of the operator states behind them."""
    readers: tuple[tuple[Callable[[BigEndianReader], Iterable[object]], bool], ...] = (
        (lambda element: [each.found for each in read_requests(element)], True),
        (lambda element: [read_writer_state(element)], True),
        (lambda element: read_branches(element) or [], True),
        (read_function_state, False),
    )
    for read, have_lengths in readers:
        state = BigEndianReader(data, "a state", min(2, len(data)))
        try:
            for element in read_elements(state, [int.from_bytes(data[:2], "big")], have_lengths=have_lengths):
                for found in read(element):
                    if isinstance(found, Committable):
                        _is_committable(found)
                    elif isinstance(found, XaXid):
                        _is_branch(found)
                    elif isinstance(found, PendingFile):
                        _is_file(found)
        except MalformedRecord:
            continue


def iceberg_control_event(data: bytes) -> None:
    """An event of a sink for Kafka Connect, judged."""
    try:
        event = iceberg_events.decode(data)
    except MalformedRecord:
        return
    table = TableSeen(event.table_uuid, TableHistory(snapshots={}, branches={}), {})
    placed = place_of(Written("c", 0, 1, event), table, CoordinatorGroup(members=0, offsets={}))
    assert placed.place is Place.LEFT
    assert f"{event.at_ms + event.rows} {event.commit} {event.group} {event.table}".encode()


def _is_committable(committable: Committable) -> None:
    assert committable.transaction.encode()
    assert 0 <= committable.producer_id < 2**63
    assert 0 <= committable.producer_epoch < 2**15


def _is_file(file: PendingFile) -> None:
    assert file.target.encode("utf-8", "surrogatepass")
    assert file.size is None or file.size >= 0
    assert not (file.temporary and file.upload)
    assert not isinstance(file.commit, IcebergCommit) or file.commit.manifests


def _is_branch(xid: XaXid) -> None:
    assert XaXid.parse(xid.literal) == xid
    assert as_listed(as_listed(xid)) == as_listed(xid)
    assert owner_of(MYSQL.name, str(xid)) == xid_owner(xid.format_id, xid.gtrid, xid.bqual)


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        transaction_state_key,
        transaction_state_value,
        lifecycle_event,
        decision_record,
        flink_metadata,
        flink_operator_state,
        iceberg_control_event,
    )
}
JSON_TARGETS = {lifecycle_event.__name__, decision_record.__name__}


def _is_taken(observation: Observation, raw: str) -> None:
    """Fold, keep and show one observation."""
    state = State()
    apply(state, DecisionSeen(offset=0, record=RUN))
    try:
        apply(state, observation)
    except MalformedRecord:
        return  # the collector keeps such an event aside
    observed = Observed(position=Position(source="s", partition=0, offset=0), observation=observation, raw=raw)
    name, row = row_coding.row(observed)
    row_coding.arrow_table(name, [row])
    judged = [_judged(view) for view in views(state, settled=True)]
    rows = [transaction_row(one) for one in judged]
    checkpoints = [checkpoint_row(one, None) for one in state.checkpoints.values()]
    details = [detail_row(one, [], [], None) for one in judged]
    json.dumps(
        [row_to_json(row) for row in (*rows, *checkpoints, *details)], ensure_ascii=False, allow_nan=False
    ).encode()
    for one in judged:
        find(state, one.view.key)


def _judged(view: object) -> Judged:
    case = Case(
        transaction=view,  # type: ignore[arg-type]
        pipeline=None,
        log_status=DecisionLogStatus.READABLE,
        log_error="",
        later_batch_decided=False,
        rulable=None,
        limits=Limits(),
        now_ms=NOW_MS,
    )
    return Judged(view=case.transaction, judgement=judge(case), pipeline=None)
