"""What lifecycle events report: of one event, and of many in columns, of which those of one transaction come together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indoubt.collector.records.facts import HandleIdentity, ReportedTransaction, handle_identity
from indoubt.collector.records.formats.arrow_columns import Integers, filled, text_codes
from indoubt.collector.records.formats.lifecycle_event_batch import TRANSACTION_TYPES, TYPES, EventColumns
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.events import EventType, LifecycleEvent
from indoubt.lifecycle.identity import HANDLE_FIELDS, Handle

_BY_RANK = sorted(type_.value for type_ in TYPES)
_RANKS = np.array([_BY_RANK.index(type_.value) for type_ in TYPES])
_MIXING = np.uint64(0x9E3779B97F4A7C15)


class CheckpointReport(NamedTuple):
    """What one event reports of a checkpoint; rows and duration are those of a completed one, the reason a failed one's."""

    type: EventType
    pipeline: str
    attempt: int | None
    number: int
    at_ms: int
    rows: int | None
    duration_ms: int | None
    reason: str


def transaction_of(event: LifecycleEvent) -> ReportedTransaction:
    """Return what one event alone reports of its transaction. Raises MalformedRecord."""
    # Null means not reported.
    handle = Handle.from_json(event.data["handle"]) if event.data.get("handle") is not None else None
    identity = (
        handle_identity(handle)
        if handle is not None
        else HandleIdentity(
            text(event, "transaction"), whole_number(event, "producer_id"), whole_number(event, "producer_epoch")
        )
    )
    batch_attempt = None
    if (
        isinstance(event.data.get("checkpoint_id"), str)
        and event.data.get("attempt") is not None
        and "batch" in event.data
    ):
        batch, attempt = whole_number(event, "batch"), whole_number(event, "attempt")
        batch_attempt = BatchAttempt(checkpoint_id=event.data["checkpoint_id"], batch=batch or 0, attempt=attempt or 0)
    manager = ""
    if identity.producer_id is None:
        manager = handle.resource_manager if handle is not None else text(event, "resource_manager")
    whole_number(event, "slot")  # kept nowhere, but one that is no number makes the event malformed
    return ReportedTransaction(
        identity=identity,
        reported_manager=manager,
        reported_batch_attempt=batch_attempt,
        reported_handle=handle,
        event_times={event.type: event.at_ms},
        lost_reason=_reason(event) if event.type is EventType.TRANSACTION_LOST else "",
    )


def checkpoint_of(event: LifecycleEvent) -> CheckpointReport:
    """Return what an event reports of a checkpoint. Raises MalformedRecord."""
    pipeline, number = text(event, "pipeline"), whole_number(event, "batch")
    if number is None:
        raise MalformedRecord(f"event {event.type.value} has no 'batch'")
    rows = duration_ms = None
    if event.type is EventType.CHECKPOINT_COMPLETED:
        rows, duration_ms = whole_number(event, "rows"), whole_number(event, "duration_ms")
    attempt = whole_number(event, "attempt")
    return CheckpointReport(event.type, pipeline, attempt, number, event.at_ms, rows, duration_ms, _reason(event))


def text(event: LifecycleEvent, name: str) -> str:
    """Return a text that an event must have. Raises MalformedRecord."""
    value = event.data.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedRecord(f"event {event.type.value} field {name!r} is {value!r}, not text")
    return value


def _reason(event: LifecycleEvent) -> str:
    return str(event.data.get("reason") or "")


def whole_number(event: LifecycleEvent, name: str) -> int | None:
    """Return a number that an event may have. Raises MalformedRecord for anything else."""
    value = event.data.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise MalformedRecord(f"event {event.type.value} field {name!r} is {value!r}, not a whole number")
    return value


def transactions(events: EventColumns) -> Iterator[ReportedTransaction]:
    """Yield the events of transactions by transaction and batch, in the order in which each is reported first."""
    rows = (events.type_code < TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    data = events.data
    texts = [text_codes(data.field(name)) for name in ("transaction", "checkpoint_id")]
    fields = [filled(data.field(name), 0) for name in ("producer_id", "producer_epoch", "batch", "attempt")]
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
        yield ReportedTransaction(
            identity=HandleIdentity(transaction, producer_id, epoch),
            reported_batch_attempt=batch_attempt,
            reported_handle=handle,
            event_times=event_times,
            lost_reason=reason,
        )


def checkpoints(events: EventColumns) -> Iterator[CheckpointReport]:
    """Yield what events report of checkpoints, in their order."""
    rows = (events.type_code >= TRANSACTION_TYPES).nonzero()[0]
    if not rows.size:
        return
    types, at_ms = (TYPES[code] for code in events.type_code[rows].tolist()), events.at_ms.to_numpy()[rows].tolist()
    names = ("pipeline", "attempt", "batch", "rows", "duration_ms", "reason")
    found = (events.data.field(name).take(pa.array(rows)).to_pylist() for name in names)
    for type_, at, (pipeline, attempt, number, count, took_ms, reason) in zip(
        types, at_ms, zip(*found, strict=True), strict=True
    ):
        yield CheckpointReport(type_, pipeline, attempt, number, at, count, took_ms, reason or "")


def heartbeats(events: EventColumns) -> Iterator[tuple[str, int, str]]:
    """Yield the newest heartbeat of each pipeline: its name, epoch ms, what it was."""
    if not len(events):
        return
    codes, names = text_codes(events.data.field("pipeline"))
    # Of signs at one moment the one with the last name stays.
    newest = np.full(len(names), -1)
    np.maximum.at(newest, codes, events.at_ms.to_numpy() * len(TYPES) + _RANKS[events.type_code])
    for name, sign in zip(names, newest.tolist(), strict=True):
        at_ms, rank = divmod(sign, len(TYPES))
        yield name, at_ms, f"event {_BY_RANK[rank]}"


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


def _handles(column: pa.StructArray, rows: Integers, firsts: Integers) -> list[Handle | None]:
    """Return the first handle of each group."""
    has_one = column.is_valid().to_numpy(zero_copy_only=False)[rows]
    indexes = has_one.nonzero()[0]
    if not indexes.size:
        return [None] * len(firsts)
    found = column.take(pa.array(rows[indexes]))
    values = (found.field(name).to_pylist() for name in HANDLE_FIELDS)
    handles: list[Handle | None] = [
        Handle(**dict(zip(HANDLE_FIELDS, fields, strict=True))) for fields in zip(*values, strict=True)
    ]
    handles.append(None)
    number = np.cumsum(has_one) - 1
    count = np.add.reduceat(has_one, firsts, dtype=np.int64)
    last = number[np.append(firsts[1:], len(rows)) - 1]
    return [handles[n] for n in np.where(count > 0, last - count + 1, -1).tolist()]


def _reasons(events: EventColumns) -> Mapping[int, str]:
    """Return why transactions were lost, by the rows that tell it."""
    lost = (events.type_code == TYPES.index(EventType.TRANSACTION_LOST)).nonzero()[0]
    reported = events.data.field("reason").take(pa.array(lost)).to_pylist()
    return {row: reason or "" for row, reason in zip(lost.tolist(), reported, strict=True)}
