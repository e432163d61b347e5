"""How observations stand in history: which table, which columns, and back again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from collector import lifecycle_batch
from collector.broker_records import BrokerRecords, history_columns
from collector.clock import now_ms
from collector.facts import BrokerIdentity, BrokerTransaction, Init
from collector.flink_records import FlinkCheckpoint, FlinkJob, FlinkKind, FlinkStatus
from collector.lifecycle_batch import EventColumns
from collector.observations import (
    BranchGone,
    BranchListed,
    BranchProof,
    BrokerRecord,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    EventSeen,
    IdExpired,
    Malformed,
    Observed,
    OffsetsSeen,
    OperatorOrder,
)
from collector.orders import Action, StepOutcome
from collector.transaction_state_batch import Integers
from collector.transaction_state_records import BrokerStatus
from lifecycle import decisions
from lifecycle import events as lifecycle_json
from lifecycle.decisions import Outcome, RunStarted
from lifecycle.errors import MalformedRecord

EXPIRED = "EXPIRED"
SHOWN_CHARACTERS = 200
_NO_COLUMN_TAKES_IT = (pa.ArrowException, ValueError, OverflowError, TypeError)
"""A number too large for its column, half of a surrogate pair in a text: UnicodeEncodeError is a ValueError."""
log = logging.getLogger(__name__)
LISTED, GONE = "listed", "gone"
_PLACE = [pa.field("source", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*_PLACE, *(pa.field(name, kind) for name, kind in columns)])


TABLES: dict[str, pa.Schema] = {
    "transaction_records": _schema(
        ("transaction_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("status", pa.string()),
        ("start_ms", pa.int64()),
        ("update_ms", pa.int64()),
        ("timeout_ms", pa.int32()),
        ("partitions", pa.list_(pa.string())),
        ("client_version", pa.int32()),
    ),
    "lifecycle_events": _schema(
        ("type", pa.string()), ("at_ms", pa.int64()), ("pipeline", pa.string()), ("event", pa.string())
    ),
    "decision_records": _schema(
        ("type", pa.string()), ("at_ms", pa.int64()), ("prefix", pa.string()), ("record", pa.string())
    ),
    "checkpoint_files": _schema(
        ("pipeline", pa.string()),
        ("kind", pa.string()),
        ("number", pa.int64()),
        ("at_ms", pa.int64()),
        ("modified_ns", pa.int64()),
        ("watermark_ms", pa.int64()),
    ),
    "flink_checkpoints": _schema(
        ("cluster", pa.string()),
        ("job", pa.string()),
        ("job_name", pa.string()),
        ("number", pa.int64()),
        ("status", pa.string()),
        ("kind", pa.string()),
        ("triggered_ms", pa.int64()),
        ("ended_ms", pa.int64()),
        ("state_bytes", pa.int64()),
        ("reason", pa.string()),
        ("path", pa.string()),
    ),
    "flink_jobs": _schema(
        ("cluster", pa.string()),
        ("job", pa.string()),
        ("name", pa.string()),
        ("state", pa.string()),
        ("started_ms", pa.int64()),
        ("changed_ms", pa.int64()),
        ("ended_ms", pa.int64()),
        ("restarts", pa.int64()),
        ("restored_number", pa.int64()),
        ("restored_ms", pa.int64()),
        ("restored_path", pa.string()),
        ("seen_ms", pa.int64()),
    ),
    "prepared_branches": _schema(
        ("place", pa.string()),
        ("resource_manager", pa.string()),
        ("transaction_id", pa.string()),
        ("what", pa.string()),
        ("at_ms", pa.int64()),
        ("proof", pa.string()),
        ("prepared_ms", pa.int64()),
        ("owner", pa.string()),
        ("database", pa.string()),
    ),
    "transaction_offsets": _schema(
        ("transaction_id", pa.string()),
        ("producer_id", pa.int64()),
        ("start_ms", pa.int64()),
        ("topic_partition", pa.string()),
        ("first_offset", pa.int64()),
        ("first_is_exact", pa.bool_()),
        ("next_offset", pa.int64()),
        ("how", pa.string()),
        ("at_ms", pa.int64()),
    ),
    "malformed": _schema(("at_ms", pa.int64()), ("error", pa.string()), ("value", pa.string())),
}


def row(observed: Observed) -> tuple[str, tuple[Any, ...]]:
    """Return the table and the row of an observation, columns in the order of TABLES."""
    place = (observed.position.source, observed.position.partition, observed.position.offset)
    match observed.observation:
        case BrokerRecord() as r:
            ends = (r.status.name, r.start_ms, r.update_ms, r.timeout_ms, list(r.partitions), r.client_version)
            return "transaction_records", (*place, r.transaction, r.producer_id, r.producer_epoch, *ends)
        case IdExpired() as e:
            return "transaction_records", (*place, e.transaction, None, None, EXPIRED, None, None, None, [], None)
        case EventSeen(event=event):
            pipeline = str(event.data.get("pipeline", ""))
            return "lifecycle_events", (*place, event.type.value, event.at_ms, pipeline, observed.raw)
        case DecisionSeen(record=record):
            kind = (
                "run_started"
                if isinstance(record, RunStarted)
                else "outcome"
                if isinstance(record, Outcome)
                else "decision"
            )
            return "decision_records", (*place, kind, record.at_ms, record.prefix, observed.raw)
        case CheckpointFile() as f:
            values = (f.pipeline, f.kind.value, f.number, f.at_ms, f.modified_ns, f.watermark_ms)
            return "checkpoint_files", (*place, *values)
        case FlinkCheckpoint() as c:
            what = (c.cluster, c.job, c.job_name, c.number, c.status.value, c.kind.value)
            return "flink_checkpoints", (*place, *what, c.triggered_ms, c.ended_ms, c.state_bytes, c.reason, c.path)
        case FlinkJob() as j:
            life = (j.cluster, j.job, j.name, j.state, j.started_ms, j.changed_ms, j.ended_ms, j.restarts)
            return "flink_jobs", (*place, *life, j.restored_number, j.restored_ms, j.restored_path, j.seen_ms)
        case BranchListed() as b:
            named = (*place, b.place, b.resource_manager, b.transaction)
            return "prepared_branches", (*named, LISTED, b.at_ms, None, b.prepared_ms, b.owner, b.database)
        case BranchGone() as b:
            named = (*place, b.place, b.resource_manager, b.transaction)
            proof = b.proof.value if b.proof is not None else None
            return "prepared_branches", (*named, GONE, b.at_ms, proof, None, None, None)
        case OffsetsSeen() as o:
            where = (o.transaction, o.producer_id, o.start_ms, o.partition)
            return "transaction_offsets", (*place, *where, o.first, o.first_is_exact, o.next_offset, o.how, o.at_ms)
        case Malformed() as m:
            return "malformed", (*place, m.at_ms, m.error, m.value)
        case OperatorOrder():
            raise TypeError("an operator's order stands in the audit table, which is written by itself")


def records_table(records: BrokerRecords) -> pa.Table:
    """Return states of the coordinator's log as an Arrow table of transaction_records."""
    schema = TABLES["transaction_records"]
    return pa.table(history_columns(records), schema=schema)


def events_table(source: str, partition: Integers, offset: Integers, events: EventColumns) -> pa.Table:
    """Return lifecycle events in columns, and their places, as an Arrow table of lifecycle_events."""
    schema = TABLES["lifecycle_events"]
    named = pa.DictionaryArray.from_arrays(np.zeros(len(events), np.int8), [source]).cast(pa.string())
    places = [named, pa.array(partition.astype(np.int32)), pa.array(offset)]
    return pa.table([*places, events.type, events.at_ms, events.data.field("pipeline"), events.raw], schema=schema)


def tables_of(observed: Iterable[Observed]) -> dict[str, pa.Table]:
    """Return observations as Arrow tables by the name of their history table; one that no column takes is kept aside."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for one in observed:
        name, values = row(one)
        rows.setdefault(name, []).append(values)
    found: dict[str, pa.Table] = {}
    for name, several in list(rows.items()):
        try:
            found[name] = arrow_table(name, several)
        except _NO_COLUMN_TAKES_IT:
            fits, aside = _sorted_out(name, several)
            rows.setdefault("malformed", []).extend(aside)
            if fits:
                found[name] = arrow_table(name, fits)
    if "malformed" in rows:
        found["malformed"] = arrow_table("malformed", rows["malformed"])
    return found


def _sorted_out(name: str, rows: Sequence[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows that the named table takes, and rows of malformed that stand for the others."""
    fits, aside = [], []
    for values in rows:
        try:
            arrow_table(name, [values])
            fits.append(values)
        except _NO_COLUMN_TAKES_IT as error:
            shown = repr(values[3:])[:SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
            aside.append(
                (
                    *values[:3],
                    now_ms(),
                    f"{name} has no place for it: {error!r}"[:SHOWN_CHARACTERS],
                    shown,
                )
            )
    return fits, aside


def arrow_table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows as an Arrow table of the named history table."""
    schema = TABLES[name]
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def broker_records(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerRecord | IdExpired]:
    """Yield the observations of rows of transaction_records."""
    for (
        source,
        _,
        _,
        transaction,
        producer_id,
        epoch,
        status,
        start_ms,
        update_ms,
        timeout_ms,
        partitions,
        version,
    ) in rows:
        if status == EXPIRED:
            yield IdExpired(transaction=transaction)
            continue
        yield BrokerRecord(
            transaction=transaction,
            producer_id=producer_id,
            producer_epoch=epoch,
            status=BrokerStatus[status],
            start_ms=start_ms,
            update_ms=update_ms,
            timeout_ms=timeout_ms,
            partitions=tuple(partitions),
            client_version=version,
            source=source,
        )


def transactions(rows: Iterable[Sequence[Any]]) -> Iterator[BrokerTransaction]:
    """Yield the transactions of rows of TRANSACTIONS_OF_CURRENT_STATE."""
    names = [field.name for field in fields(BrokerTransaction)][1:]
    for id_, producer_id, start_ms, timeout_ms, partitions, *rest in rows:
        known = dict(zip(names, (timeout_ms, frozenset(partitions or ()), *rest), strict=True))
        yield BrokerTransaction(identity=BrokerIdentity(id_, producer_id, start_ms), **known)


def inits(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Init]]:
    """Yield (transactional id, init) of (id, update time, producer id, epoch) rows."""
    for id_, at_ms, producer_id, epoch in rows:
        yield id_, Init(at_ms=at_ms, producer_id=producer_id, producer_epoch=epoch)


def events_in_columns(values: Sequence[bytes]) -> tuple[EventColumns, Iterator[EventSeen]]:
    """Return lifecycle events as they were told: the ordinary ones in columns, and the observations of the others."""
    columns, numbers = lifecycle_batch.decode(values)
    odd = sorted(set(range(len(values))) - set(numbers.tolist()))
    return columns, lifecycle_events((0, number, values[number].decode()) for number in odd)


def lifecycle_events(rows: Iterable[Sequence[Any]]) -> Iterator[EventSeen]:
    """Yield the observations of (partition, offset, event) rows, but those that this version does not understand any more."""
    for partition, offset, text in rows:
        try:
            yield EventSeen(event=lifecycle_json.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("lifecycle event %d of partition %d in history is left out: %s", offset, partition, error)


def decision_records(rows: Iterable[Sequence[Any]]) -> Iterator[DecisionSeen]:
    """Yield the observations of (partition, offset, record) rows, but those that this version does not understand any more."""
    for partition, offset, text in rows:
        try:
            yield DecisionSeen(offset=offset, record=decisions.decode(text.encode()))
        except MalformedRecord as error:
            log.warning("decision record %d of partition %d in history is left out: %s", offset, partition, error)


def checkpoint_files(rows: Iterable[Sequence[Any]]) -> Iterator[CheckpointFile]:
    """Yield the observations of rows of checkpoint_files."""
    for _, _, _, pipeline, kind, number, at_ms, modified_ns, watermark_ms in rows:
        yield CheckpointFile(
            pipeline=pipeline,
            kind=CheckpointFileKind(kind),
            number=number,
            at_ms=at_ms,
            modified_ns=modified_ns,
            watermark_ms=watermark_ms,
        )


def flink_checkpoints(rows: Iterable[Sequence[Any]]) -> Iterator[FlinkCheckpoint]:
    """Yield the observations of rows of flink_checkpoints."""
    for (
        _,
        _,
        _,
        cluster,
        job,
        job_name,
        number,
        status,
        kind,
        triggered_ms,
        ended_ms,
        state_bytes,
        reason,
        path,
    ) in rows:
        yield FlinkCheckpoint(
            cluster=cluster,
            job=job,
            job_name=job_name,
            number=number,
            status=FlinkStatus(status),
            kind=FlinkKind(kind),
            triggered_ms=triggered_ms,
            ended_ms=ended_ms,
            state_bytes=state_bytes,
            reason=reason,
            path=path,
        )


def flink_jobs(rows: Iterable[Sequence[Any]]) -> Iterator[FlinkJob]:
    """Yield the observations of rows of flink_jobs."""
    names = [field.name for field in TABLES["flink_jobs"]][len(_PLACE) :]
    return (FlinkJob(**dict(zip(names, row[len(_PLACE) :], strict=True))) for row in rows)


def branches(rows: Iterable[Sequence[Any]]) -> Iterator[BranchListed | BranchGone]:
    """Yield the observations of rows of prepared_branches."""
    for _, _, _, place, resource_manager, transaction, what, at_ms, proof, prepared_ms, owner, database in rows:
        if what == LISTED:
            yield BranchListed(
                place=place,
                resource_manager=resource_manager,
                transaction=transaction,
                at_ms=at_ms,
                prepared_ms=prepared_ms,
                owner=owner,
                database=database,
            )
        else:
            yield BranchGone(
                place=place,
                resource_manager=resource_manager,
                transaction=transaction,
                at_ms=at_ms,
                proof=BranchProof(proof) if proof is not None else None,
            )


def transaction_offsets(rows: Iterable[Sequence[Any]]) -> Iterator[OffsetsSeen]:
    """Yield the observations of rows of transaction_offsets."""
    for _, _, _, transaction, producer_id, start_ms, partition, first, first_is_exact, next_offset, how, at_ms in rows:
        yield OffsetsSeen(
            transaction=transaction,
            producer_id=producer_id,
            start_ms=start_ms,
            partition=partition,
            first=first,
            first_is_exact=first_is_exact,
            next_offset=next_offset,
            how=how,
            at_ms=at_ms,
        )


def operator_orders(rows: Iterable[Sequence[Any]]) -> Iterator[OperatorOrder]:
    """Yield one observation per transaction that ended as ordered, of (audit, at_ms, who, action, detail) rows."""
    for audit, at_ms, who, action, detail in rows:
        for key in _ended_as_ordered(action, detail):
            yield OperatorOrder(key=key, action=action, who=who, at_ms=at_ms, audit=audit)


def _ended_as_ordered(action: str, detail: str) -> list[str]:
    try:
        ordered = Action(action)
        return [step["key"] for step in json.loads(detail) if StepOutcome(step["outcome"]).fulfils(ordered)]
    except (ValueError, TypeError, KeyError):
        return []  # a row about something else than an order, or of one that failed before its first step
