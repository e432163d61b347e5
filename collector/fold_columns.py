"""Folds observations that come in columns: the same state as one by one, one step per transaction instead of one per record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from collector import broker_records
from collector.broker_records import BrokerRecords
from collector.facts import HandleIdentity, PipelineFacts, ToldTransaction, handle_identity
from collector.fold import State, put_init, put_transaction, trim_when_needed, with_sign
from collector.lifecycle_batch import EventColumns
from lifecycle.decisions import BatchAttempt
from lifecycle.events import EventType
from lifecycle.identity import HANDLE_FIELDS, Handle


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
    """Fold lifecycle events of transactions."""
    for group in _groups(events):
        handle, known = group.handle, state.told.get(group.identity) or ToldTransaction(identity=group.identity)
        times = dict(known.told)
        for type_, at_ms in group.told:
            times[type_] = min(at_ms, times.get(type_, at_ms))
        slot = handle.slot if handle is not None else known.slot
        state.told[group.identity] = ToldTransaction(
            identity=group.identity,
            resource_manager=handle.resource_manager if handle is not None else known.resource_manager,
            pipeline=max(known.pipeline, group.pipeline),
            about=known.about or group.about,
            slot=slot if slot is not None else group.slot,
            handle=known.handle or handle,
            told=times,
            lost_reason=max(known.lost_reason, group.lost_reason),
        )
    for pipeline, (at_ms, sign) in _signs(events).items():
        facts = state.pipelines.get(pipeline) or PipelineFacts(pipeline=pipeline)
        state.pipelines[pipeline] = with_sign(facts, at_ms, sign)
    state.events += len(events)
    trim_when_needed(state)


class _Group(NamedTuple):
    """What some events tell of one transaction in one attempt at its batch."""

    identity: HandleIdentity
    pipeline: str
    about: BatchAttempt
    handle: Handle | None
    slot: int
    told: list[tuple[EventType, int]]
    lost_reason: str


def _groups(events: EventColumns) -> Iterator[_Group]:
    """Yield the events by transaction, each group's in their order: what is known first stays, and only handles differ."""
    data = events.data
    codes = [_codes(data.field(name)) for name in ("transaction", "pipeline", "life")]
    numbers = [data.field(name).to_numpy() for name in ("producer_id", "producer_epoch", "batch", "attempt", "slot")]
    keys = [*(code for code, _ in codes), *numbers]
    order = np.lexsort(keys[::-1])
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    firsts = is_new.nonzero()[0]
    bounds = [*firsts.tolist(), len(order)]
    rows = order.tolist()
    types = [EventType(text) for text in events.type.dictionary_encode().dictionary.to_pylist()]
    type_of = events.type.dictionary_encode().indices.to_pylist()
    at_ms = events.at_ms.to_pylist()
    handles = _handles(data.field("handle"))
    reasons = _reasons(events)
    heads = [[names[code] for code in column[order[firsts]].tolist()] for column, names in codes]
    fields = [number[order[firsts]].tolist() for number in numbers]
    for n, (transaction, pipeline, life, producer_id, epoch, batch, attempt, slot) in enumerate(
        zip(*heads, *fields, strict=True)
    ):
        members = rows[bounds[n] : bounds[n + 1]]
        named = [handles[row] for row in members if row in handles]
        group = _Group(
            identity=HandleIdentity(transaction, producer_id, epoch),
            pipeline=pipeline,
            about=BatchAttempt(life=life, batch=batch, attempt=attempt),
            handle=None,
            slot=slot,
            told=[(types[type_of[row]], at_ms[row]) for row in members],
            lost_reason=max((reasons.get(row, "") for row in members), default="") if reasons else "",
        )
        if not named:
            yield group
        elif all(handle_identity(handle) == group.identity for handle in named):
            yield group._replace(handle=named[0])
        else:  # an event whose handle is another transaction's tells of that one
            for row in members:
                alone = group._replace(told=[(types[type_of[row]], at_ms[row])], lost_reason=reasons.get(row, ""))
                handle = handles.get(row)
                yield alone if handle is None else alone._replace(identity=handle_identity(handle), handle=handle)


def _codes(column: pa.Array) -> tuple[Any, list[str]]:
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _handles(column: pa.StructArray) -> dict[int, Handle]:
    """Return the handles by the rows that have one."""
    rows = column.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
    found = column.take(pa.array(rows))
    names = tuple(HANDLE_FIELDS)
    values = zip(*(found.field(name).to_pylist() for name in names), strict=True)
    handles: dict[int, Handle] = {}
    for row, one in zip(rows.tolist(), values, strict=True):
        handles[row] = Handle(**dict(zip(names, one, strict=True)))
    return handles


def _reasons(events: EventColumns) -> Mapping[int, str]:
    """Return why transactions were lost, by the rows that tell it."""
    lost = [n for n, type_ in enumerate(events.type.to_pylist()) if type_ == EventType.TRANSACTION_LOST.value]
    column = events.data.field("reason")
    return {row: column[row].as_py() or "" for row in lost}


def _signs(events: EventColumns) -> dict[str, tuple[int, str]]:
    """Return the newest sign of life of each pipeline: (epoch ms, what it was)."""
    newest: dict[str, tuple[int, str]] = {}
    pipelines = events.data.field("pipeline").to_pylist()
    for pipeline, at_ms, type_ in zip(pipelines, events.at_ms.to_pylist(), events.type.to_pylist(), strict=True):
        if at_ms >= newest.get(pipeline, (at_ms, ""))[0]:
            newest[pipeline] = max((at_ms, f"event {type_}"), newest.get(pipeline, (at_ms, "")))
    return newest
