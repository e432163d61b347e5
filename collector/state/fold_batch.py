"""Folds observations that come in columns: the same state as one by one, one step per transaction instead of one per record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector import broker_records
from collector.broker_records import BrokerRecords
from collector.facts import KAFKA, HandleIdentity, PipelineFacts, ToldTransaction
from collector.fold import put_checkpoint_event, put_init, put_transaction, with_sign
from collector.lifecycle_batch import TRANSACTION_TYPES, TYPES, EventColumns
from collector.state import State
from collector.state_trimming import trim_when_needed
from collector.transaction_state_batch import Integers
from lifecycle.decisions import BatchAttempt
from lifecycle.events import EventType
from lifecycle.identity import HANDLE_FIELDS, Handle

_BY_RANK = sorted(type_.value for type_ in TYPES)
_RANKS = np.array([_BY_RANK.index(type_.value) for type_ in TYPES])
_MIXING = np.uint64(0x9E3779B97F4A7C15)


def put_records(state: State, records: BrokerRecords) -> None:
    """Fold states of the coordinator's log."""
    for transaction, first_ms, last_ms in broker_records.uses(records):
        state.ids.see(transaction, first_ms)
        state.ids.see(transaction, last_ms)
    for transaction, init in broker_records.inits(records):
        put_init(state, transaction, init)
    for new in broker_records.transactions(records):
        put_transaction(state, new)
    state.events += len(records)
    trim_when_needed(state)


def put_events(state: State, events: EventColumns) -> None:
    """Fold lifecycle events of transactions and of checkpoints."""
    for group in _groups(events):
        _put_group(state, group)
    for event in _checkpoint_events(events):
        put_checkpoint_event(state, *event)
    for pipeline, at_ms, sign in _signs(events):
        facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
        state.pipelines[pipeline] = with_sign(facts, at_ms, sign)
    state.events += len(events)
    trim_when_needed(state)


class _Group(NamedTuple):
    """What some events tell of one transaction in one attempt at its batch."""

    identity: HandleIdentity
    pipeline: str
    about: BatchAttempt
    slot: int
    told: dict[EventType, int]
    """The first time of each kind of event."""
    lost_reason: str
    handle: Handle | None
    """The first one that was told."""
    last_handle: Handle | None


def _put_group(state: State, group: _Group) -> None:
    identity, pipeline, about, slot, told, lost_reason, handle, last = group
    known = state.told.get(identity)
    resource_manager = "" if last is None else last.resource_manager
    if last is not None:
        slot = last.slot
    elif known is not None and known.slot is not None:
        slot = known.slot
    if known is not None:
        resource_manager = resource_manager or known.resource_manager
        pipeline, about, handle = max(known.pipeline, pipeline), known.about or about, known.handle or handle
        lost_reason = max(known.lost_reason, lost_reason)
        told |= {type_: min(at_ms, told.get(type_, at_ms)) for type_, at_ms in known.told.items()}
    state.told[identity] = ToldTransaction(
        identity=identity,
        resource_manager=resource_manager or KAFKA,
        pipeline=pipeline,
        about=about,
        slot=slot,
        handle=handle,
        told=told,
        lost_reason=lost_reason,
    )


def _groups(events: EventColumns) -> Iterator[_Group]:
    """Yield the events of transactions by transaction and batch, in the order in which each is told of first."""
    rows = (events.type_code < TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    data = events.data
    texts = [_codes(data.field(name)) for name in ("transaction", "pipeline", "life")]
    fields = [_filled(data.field(name)) for name in ("producer_id", "producer_epoch", "batch", "attempt", "slot")]
    rows, firsts = _grouped([*(code for code, _ in texts), *fields], rows)
    ends = [*firsts[1:].tolist(), len(rows)]
    first_rows = rows[firsts]
    heads = [[names[code] for code in codes[first_rows].tolist()] for codes, names in texts]
    numbers = [field[first_rows].tolist() for field in fields]
    types = [TYPES[code] for code in events.type_code[rows].tolist()]
    at_ms, members = events.at_ms.to_numpy()[rows].tolist(), rows.tolist()
    handles, reasons = _handles(data.field("handle"), rows, firsts), _reasons(events)
    batches: dict[tuple[str, int, int], BatchAttempt] = {}
    columns = zip(firsts.tolist(), ends, *heads, *numbers, *handles, strict=True)
    for first, end, transaction, pipeline, life, producer_id, epoch, batch, attempt, slot, handle, last in columns:
        told = dict(zip(types[first:end], at_ms[first:end], strict=True))
        if len(told) < end - first:  # one type was told of several times
            told = _first_times(types[first:end], at_ms[first:end])
        about = batches.get((life, batch, attempt))
        if about is None:
            about = batches[life, batch, attempt] = BatchAttempt(life=life, batch=batch, attempt=attempt)
        reason = max((reasons.get(row, "") for row in members[first:end]), default="") if reasons else ""
        yield _Group(HandleIdentity(transaction, producer_id, epoch), pipeline, about, slot, told, reason, handle, last)


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
    """Return the place of each text in the list of different ones; -1 where there is none."""
    encoded = column.dictionary_encode()
    return pc.fill_null(encoded.indices, -1).to_numpy(), encoded.dictionary.to_pylist()


def _filled(numbers: pa.Array) -> Integers:
    found: Integers = pc.fill_null(numbers, 0).to_numpy()
    return found


def _handles(
    column: pa.StructArray, rows: Integers, firsts: Integers
) -> tuple[list[Handle | None], list[Handle | None]]:
    """Return the first and the last handle of each group."""
    has_one = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    places = has_one.nonzero()[0]
    if not places.size:
        none: list[Handle | None] = [None] * len(firsts)
        return none, none
    found = column.take(pa.array(rows[places]))
    values = (found.field(name).to_pylist() for name in HANDLE_FIELDS)
    handles: list[Handle | None] = [_handle(*one) for one in zip(*values, strict=True)]
    handles.append(None)
    number = np.cumsum(has_one) - 1
    count = np.add.reduceat(has_one, firsts, dtype=np.int64)
    last = number[np.append(firsts[1:], len(rows)) - 1]
    first = np.where(count > 0, last - count + 1, -1)
    return [handles[n] for n in first.tolist()], [handles[n] for n in np.where(count > 0, last, -1).tolist()]


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
    told = events.data.field("reason").take(pa.array(lost)).to_pylist()
    return {row: reason or "" for row, reason in zip(lost.tolist(), told, strict=True)}


def _checkpoint_events(
    events: EventColumns,
) -> Iterator[tuple[EventType, str, int, int, int | None, int | None, str]]:
    """Yield the events of checkpoints in their order, as ``put_checkpoint_event`` takes them."""
    rows = (events.type_code >= TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    types, at_ms = (TYPES[code] for code in events.type_code[rows].tolist()), events.at_ms.to_numpy()[rows].tolist()
    pipeline, number, told_rows, duration_ms, reason = (
        events.data.field(name).take(pa.array(rows)).to_pylist()
        for name in ("pipeline", "batch", "rows", "duration_ms", "reason")
    )
    for type_, name, batch, at, count, took_ms, why in zip(
        types, pipeline, number, at_ms, told_rows, duration_ms, reason, strict=True
    ):
        yield type_, name, batch, at, count, took_ms, why or ""


def _signs(events: EventColumns) -> Iterator[tuple[str, int, str]]:
    """Yield the newest sign of life of each pipeline: its name, epoch ms, what it was."""
    if not len(events):
        return
    codes, names = _codes(events.data.field("pipeline"))
    # Of signs at one moment the one with the last name stays.
    newest = np.full(len(names), -1)
    np.maximum.at(newest, codes, events.at_ms.to_numpy() * len(TYPES) + _RANKS[events.type_code])
    for name, sign in zip(names, newest.tolist(), strict=True):
        at_ms, rank = divmod(sign, len(TYPES))
        yield name, at_ms, f"event {_BY_RANK[rank]}"
