"""Folds observations that come in columns: the same state as one by one, one step per transaction instead of one per record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.records import broker_record_batch
from collector.records.broker_record_batch import BrokerRecords
from collector.records.facts import HandleIdentity, PipelineFacts, ReportedTransaction
from collector.records.formats.lifecycle_event_batch import TRANSACTION_TYPES, TYPES, EventColumns
from collector.records.formats.transaction_state_batch import Integers
from collector.state.eviction import trim_when_needed
from collector.state.fold import put_checkpoint_event, put_init, put_transaction, with_heartbeat
from collector.state.state import State
from lifecycle.decisions import BatchAttempt
from lifecycle.events import EventType
from lifecycle.identity import HANDLE_FIELDS, Handle

_BY_RANK = sorted(type_.value for type_ in TYPES)
_RANKS = np.array([_BY_RANK.index(type_.value) for type_ in TYPES])
_MIXING = np.uint64(0x9E3779B97F4A7C15)


def put_records(state: State, records: BrokerRecords) -> None:
    """Fold states of the coordinator's log."""
    for transaction, first_ms, last_ms in broker_record_batch.uses(records):
        state.ids.see(transaction, first_ms)
        state.ids.see(transaction, last_ms)
    for transaction, init in broker_record_batch.inits(records):
        put_init(state, transaction, init)
    for new in broker_record_batch.transactions(records):
        put_transaction(state, new)
    state.events += len(records)
    trim_when_needed(state)


def put_events(state: State, events: EventColumns) -> None:
    """Fold lifecycle events of transactions and of checkpoints."""
    for group in _groups(events):
        _put_group(state, group)
    for event in _checkpoint_events(events):
        put_checkpoint_event(state, *event)
    for pipeline, at_ms, last_heartbeat in _heartbeats(events):
        facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
        state.pipelines[pipeline] = with_heartbeat(facts, at_ms, last_heartbeat)
    state.events += len(events)
    trim_when_needed(state)


class _Group(NamedTuple):
    """What some events report of one transaction in one attempt at its batch."""

    identity: HandleIdentity
    batch_attempt: BatchAttempt
    event_times: dict[EventType, int]
    """The first time of each kind of event."""
    lost_reason: str
    handle: Handle | None
    """The first one that was reported."""


def _put_group(state: State, group: _Group) -> None:
    identity, batch_attempt, event_times, lost_reason, handle = group
    known, listed = state.reported.get(identity), None
    if known is not None:
        batch_attempt, handle, listed = (
            known.reported_batch_attempt or batch_attempt,
            known.reported_handle or handle,
            known.listed,
        )
        lost_reason = max(known.lost_reason, lost_reason)
        event_times |= {type_: min(at_ms, event_times.get(type_, at_ms)) for type_, at_ms in known.event_times.items()}
    state.reported[identity] = ReportedTransaction(
        identity=identity,
        reported_batch_attempt=batch_attempt,
        reported_handle=handle,
        event_times=event_times,
        lost_reason=lost_reason,
        listed=listed,
    )


def _groups(events: EventColumns) -> Iterator[_Group]:
    """Yield the events of transactions by transaction and batch, in the order in which each is reported first."""
    rows = (events.type_code < TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    data = events.data
    texts = [_codes(data.field(name)) for name in ("transaction", "checkpoint_id")]
    fields = [_filled(data.field(name)) for name in ("producer_id", "producer_epoch", "batch", "attempt")]
    rows, firsts = _grouped([*(code for code, _ in texts), *fields], rows)
    ends = [*firsts[1:].tolist(), len(rows)]
    first_rows = rows[firsts]
    heads = [[names[code] for code in codes[first_rows].tolist()] for codes, names in texts]
    numbers = [field[first_rows].tolist() for field in fields]
    types = [TYPES[code] for code in events.type_code[rows].tolist()]
    at_ms, members = events.at_ms.to_numpy()[rows].tolist(), rows.tolist()
    handles, reasons = _handles(data.field("handle"), rows, firsts), _reasons(events)
    batches: dict[tuple[str, int, int], BatchAttempt] = {}
    columns = zip(firsts.tolist(), ends, *heads, *numbers, handles, strict=True)
    for first, end, transaction, checkpoint_id, producer_id, epoch, batch, attempt, handle in columns:
        event_times = dict(zip(types[first:end], at_ms[first:end], strict=True))
        if len(event_times) < end - first:  # one type was reported several times
            event_times = _first_times(types[first:end], at_ms[first:end])
        batch_attempt = batches.get((checkpoint_id, batch, attempt))
        if batch_attempt is None:
            batch_attempt = batches[checkpoint_id, batch, attempt] = BatchAttempt(
                checkpoint_id=checkpoint_id, batch=batch, attempt=attempt
            )
        reason = max((reasons.get(row, "") for row in members[first:end]), default="") if reasons else ""
        yield _Group(HandleIdentity(transaction, producer_id, epoch), batch_attempt, event_times, reason, handle)


def _first_times(types: list[EventType], at_ms: list[int]) -> dict[EventType, int]:
    found: dict[EventType, int] = {}
    for type_, at in zip(types, at_ms, strict=True):
        found[type_] = min(at, found.get(type_, at))
    return found


def _grouped(keys: list[Integers], rows: Integers) -> tuple[Integers, Integers]:
    """Return rows put together by equal keys, and where each group begins; both in the order of the rows.

    Rows are brought together by a number that is made of their keys. Where two keys have the same one, a group may come in several
    parts, which fold to the same.
    """
    keys = [key[rows] for key in keys]
    mixed = np.zeros(len(rows), np.uint64)
    for key in keys:
        mixed = (mixed ^ key.astype(np.uint64)) * _MIXING
    order = np.argsort(mixed, kind="stable")
    is_first = np.ones(len(rows), bool)
    is_first[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    firsts = is_first.nonzero()[0]
    sizes = np.diff(firsts, append=len(rows))
    # Stable: the first row of each group is the first that tells of it.
    turn = np.argsort(order[firsts])
    sizes, firsts = sizes[turn], firsts[turn]
    begins = np.cumsum(sizes) - sizes
    return rows[order[np.repeat(firsts - begins, sizes) + np.arange(len(rows))]], begins


def _codes(column: pa.Array) -> tuple[Integers, list[str]]:
    """Return the index of each text in the list of different ones; -1 where there is none."""
    encoded = column.dictionary_encode()
    return pc.fill_null(encoded.indices, -1).to_numpy(), encoded.dictionary.to_pylist()


def _filled(numbers: pa.Array) -> Integers:
    found: Integers = pc.fill_null(numbers, 0).to_numpy()
    return found


def _handles(column: pa.StructArray, rows: Integers, firsts: Integers) -> list[Handle | None]:
    """Return the first handle of each group."""
    has_one = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    indexes = has_one.nonzero()[0]
    if not indexes.size:
        return [None] * len(firsts)
    found = column.take(pa.array(rows[indexes]))
    values = (found.field(name).to_pylist() for name in HANDLE_FIELDS)
    handles: list[Handle | None] = [_handle(*fields) for fields in zip(*values, strict=True)]
    handles.append(None)
    number = np.cumsum(has_one) - 1
    count = np.add.reduceat(has_one, firsts, dtype=np.int64)
    last = number[np.append(firsts[1:], len(rows)) - 1]
    return [handles[n] for n in np.where(count > 0, last - count + 1, -1).tolist()]


def _handle(
    resource_manager: str,
    transaction: str,
    producer_id: int,
    producer_epoch: int,
    slot: int,
    rows: int,
    bytes_: int,
    fingerprint: str,
    opened_at_ms: int,
    prepared_at_ms: int,
    timeout_ms: int,
) -> Handle:
    return Handle(
        resource_manager=resource_manager,
        transaction=transaction,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        slot=slot,
        rows=rows,
        bytes=bytes_,
        fingerprint=fingerprint,
        opened_at_ms=opened_at_ms,
        prepared_at_ms=prepared_at_ms,
        timeout_ms=timeout_ms,
    )


def _reasons(events: EventColumns) -> Mapping[int, str]:
    """Return why transactions were lost, by the rows that tell it."""
    lost = (events.type_code == TYPES.index(EventType.TRANSACTION_LOST)).nonzero()[0]
    reported = events.data.field("reason").take(pa.array(lost)).to_pylist()
    return {row: reason or "" for row, reason in zip(lost.tolist(), reported, strict=True)}


def _checkpoint_events(
    events: EventColumns,
) -> Iterator[tuple[EventType, str, int, int, int | None, int | None, str]]:
    """Yield the events of checkpoints in their order, as ``put_checkpoint_event`` takes them."""
    rows = (events.type_code >= TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    types, at_ms = (TYPES[code] for code in events.type_code[rows].tolist()), events.at_ms.to_numpy()[rows].tolist()
    pipeline, number, reported_rows, duration_ms, reason = (
        events.data.field(name).take(pa.array(rows)).to_pylist()
        for name in ("pipeline", "batch", "rows", "duration_ms", "reason")
    )
    for type_, name, batch, at, count, took_ms, why in zip(
        types, pipeline, number, at_ms, reported_rows, duration_ms, reason, strict=True
    ):
        yield type_, name, batch, at, count, took_ms, why or ""


def _heartbeats(events: EventColumns) -> Iterator[tuple[str, int, str]]:
    """Yield the newest heartbeat of each pipeline: its name, epoch ms, what it was."""
    if not len(events):
        return
    codes, names = _codes(events.data.field("pipeline"))
    # Of signs at one moment the one with the last name stays.
    newest = np.full(len(names), -1)
    np.maximum.at(newest, codes, events.at_ms.to_numpy() * len(TYPES) + _RANKS[events.type_code])
    for name, last_heartbeat in zip(names, newest.tolist(), strict=True):
        at_ms, rank = divmod(last_heartbeat, len(TYPES))
        yield name, at_ms, f"event {_BY_RANK[rank]}"
