"""Writes a long history into the file before the collector starts, as the observers would have written it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BrokerRecord,
    DecisionSeen,
    EventSeen,
    Observation,
    Observed,
    Position,
)
from indoubt.lifecycle import decisions, events
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from indoubt.lifecycle.events import EventType, LifecycleEvent
from indoubt.lifecycle.identity import Handle, TransactionalId

DAY_MS = 24 * 3_600_000
FIRST_OFFSET = 1_000_000_000
"""The offsets of the log that the collector reads during the benchmark are smaller."""
SOURCE = "earlier"
PIPELINE, CHECKPOINT_ID, RUN = "word-count", "0a1b2c3d4e5f", "run-1"
SLOTS, TIMEOUT_MS, BATCH_MS = 4, 60_000, 1_000
ROWS_AT_ONCE = 5_000
UNDECIDED = 2
"""Undecided batches after the others."""

# Nine tenths are transaction states of the last day, four each, one abort in 50; the rest are checkpoint events.
MAKE_STATES = """
insert into transaction_records
select '__transaction_state', (n // 4) % $ids % 8, n + $offset, 'orders-' || (n // 4) % $ids || '-17', (n // 4) % $ids,
       n // 4 // $ids, case when n % 4 < 2 then 'ONGOING' when n % 4 = 2 then 'PREPARE_' || e.what else 'COMPLETE_' || e.what end,
       $first + n // 4 * $step, $first + n // 4 * $step + 300 * (n % 4), 60000, ['ip_count_sink-' || (n // 4) % 4], 2
from range($states) r(n), lateral (select if(n // 4 % 50 = 0, 'ABORT', 'COMMIT') as what) e"""
MAKE_EVENTS = """
insert into lifecycle_events
select 'earlier', 0, n, 'checkpoint.completed', $first + n * $step, 'ip-count',
       '{"specversion":"1.0","id":"' || md5(n::varchar) || '","source":"/pipeline/ip-count",'
       || '"type":"io.indoubt.checkpoint.completed","subject":"checkpoint","time":"2026-11-21T12:00:00.000+00:00",'
       || '"data":{"pipeline":"ip-count","checkpoint_id":"l","attempt":0,"batch":' || n
       || ',"rows":1000,"bytes":100000,"duration_ms":' || 200 + n % 800 || '}}'
from range($events) r(n)"""
COUNT_STATES = """
insert into transaction_counts
select update_ms // 60000 * 60000, 60000, 'orders-0-2', if(status = 'COMPLETE_COMMIT', 'committed', 'aborted'), count(*)
from transaction_records where status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') group by all"""

# A hundred applications, each with transactions of sixteen lengths (350 ms to 1.4 s) in each hour of the last day.
MAKE_LENGTHS = """
insert into transaction_lengths
select $first // 3600000 * 3600000 + hour * 3600000, 3600000, 'orders-' || application || '-0-0', 60000, false, 68 + step, 60,
       floor(2 ** ((69 + step) / 8.0))::bigint, 'orders-' || application || '-0-1'
from range(24) h(hour), range(100) a(application), range(16) s(step)"""


def write_history(path: Path, records: int, ids: int, *, batches: int = 500, open_transactions: int = 200) -> None:
    """Write ``records`` events of the last day, including ``batches`` of an indoubt pipeline and open transactions."""
    now_ms = time.time_ns() // 1_000_000
    store = Store(path)
    observed = _observed(_story(now_ms, batches, open_transactions))
    while part := list(itertools.islice(observed, ROWS_AT_ONCE)):
        store.append(part)
    store.close()
    states, first = records * 9 // 10 // 4 * 4, now_ms - DAY_MS
    with duckdb.connect(str(path)) as file:
        step = DAY_MS // (states // 4 + 1)
        file.execute(MAKE_STATES, {"ids": ids, "states": states, "first": first, "step": step, "offset": FIRST_OFFSET})
        file.execute(
            MAKE_EVENTS, {"events": records - states, "first": first, "step": DAY_MS // (records - states + 1)}
        )
        file.execute(COUNT_STATES)
        file.execute(MAKE_LENGTHS, {"first": first})
        file.execute("checkpoint")


def _observed(story: Iterator[Observation]) -> Iterator[Observed]:
    for number, observation in enumerate(story):
        raw = b""
        if isinstance(observation, EventSeen):
            raw = events.encode(observation.event)
        elif isinstance(observation, DecisionSeen):
            raw = decisions.encode(observation.record)
        offset = observation.offset if isinstance(observation, DecisionSeen) else number
        yield Observed(
            position=Position(source=SOURCE, partition=0, offset=offset), observation=observation, raw=raw.decode()
        )


def _story(now_ms: int, batches: int, open_transactions: int) -> Iterator[Observation]:
    first_ms, offset = now_ms - batches * BATCH_MS - 60_000, itertools.count(1)
    yield DecisionSeen(
        offset=0,
        record=RunStarted(prefix=PIPELINE, checkpoint_id=CHECKPOINT_ID, run=RUN, at_ms=first_ms),
        counts=True,
    )
    for batch in range(batches):
        yield from _batch(batch, first_ms + batch * BATCH_MS, offset)
    for batch in range(batches, batches + UNDECIDED):
        at_ms = first_ms + batch * BATCH_MS
        yield from _prepared(batch, at_ms)
        for handle in _handles(batch, at_ms):
            yield _record(
                handle.transaction,
                handle.producer_id or 0,
                handle.producer_epoch or 0,
                BrokerStatus.ONGOING,
                at_ms,
                at_ms,
            )
    for number in range(open_transactions):
        at_ms = now_ms - 30_000 + number
        yield _record(f"payments-{number}", 10_000 + number, 3, BrokerStatus.ONGOING, at_ms, at_ms)


def _batch(batch: int, at_ms: int, offset: Iterator[int]) -> Iterator[Observation]:
    """Yield a batch's observations: its transactions at their coordinator, their events, its decision, their outcomes."""
    batch_attempt = BatchAttempt(checkpoint_id=CHECKPOINT_ID, batch=batch, attempt=0)
    handles = _handles(batch, at_ms)
    yield from _prepared(batch, at_ms)
    for handle in handles:
        yield _event(EventType.TRANSACTION_COMMITTED, at_ms + 700, batch, **_named(handle))
    decision = Decision(
        prefix=PIPELINE, batch_attempt=batch_attempt, ruling=Ruling.COMMIT, handles=handles, who=RUN, at_ms=at_ms + 600
    )
    yield DecisionSeen(offset=next(offset), record=decision, counts=True)
    for handle in handles:
        name, producer_id, epoch = handle.transaction, handle.producer_id or 0, handle.producer_epoch or 0
        yield _record(name, producer_id, epoch, BrokerStatus.ONGOING, at_ms, at_ms)
        yield _record(name, producer_id, epoch + 1, BrokerStatus.PREPARE_COMMIT, at_ms, at_ms + 700)
        yield _record(name, producer_id, epoch + 1, BrokerStatus.COMPLETE_COMMIT, at_ms, at_ms + 705)
        record = Outcome(
            prefix=PIPELINE,
            batch_attempt=batch_attempt,
            handle_keys=(handle.key,),
            settled=Settled.COMMITTED,
            who=RUN,
            at_ms=at_ms + 720,
        )
        yield DecisionSeen(offset=next(offset), record=record, counts=True)
    yield _event(EventType.CHECKPOINT_COMPLETED, at_ms + 800, batch, rows=4_000, bytes=400_000, duration_ms=800)


def _prepared(batch: int, at_ms: int) -> Iterator[Observation]:
    for handle in _handles(batch, at_ms):
        yield _event(EventType.TRANSACTION_OPENED, at_ms, batch, **_named(handle))
        yield _event(EventType.TRANSACTION_PREPARED, at_ms + 500, batch, **_named(handle), handle=handle.to_json())


def _named(handle: Handle) -> dict[str, object]:
    named = {"transaction": handle.transaction, "producer_id": handle.producer_id}
    return {**named, "producer_epoch": handle.producer_epoch, "slot": handle.slot, "resource_manager": "kafka"}


def _handles(batch: int, at_ms: int) -> tuple[Handle, ...]:
    return tuple(_handle(slot, batch, at_ms) for slot in range(SLOTS))


def _handle(slot: int, batch: int, at_ms: int) -> Handle:
    return Handle(
        resource_manager="kafka",
        transaction=str(TransactionalId.of(PIPELINE, slot, batch)),
        producer_id=20_000 + slot * 2 + batch % 2,
        producer_epoch=batch // 2,
        slot=slot,
        rows=1_000,
        bytes=100_000,
        fingerprint="1000:00aa11bb22cc33dd",
        opened_at_ms=at_ms,
        prepared_at_ms=at_ms + 500,
        timeout_ms=TIMEOUT_MS,
    )


def _event(type_: EventType, at_ms: int, batch: int, **data: object) -> EventSeen:
    batch_attempt = {"pipeline": PIPELINE, "checkpoint_id": CHECKPOINT_ID, "attempt": 0, "batch": batch}
    subject = str(data.get("transaction", f"checkpoint {batch}"))
    return EventSeen(
        event=LifecycleEvent(
            type=type_, source=f"/pipeline/{PIPELINE}", subject=subject, at_ms=at_ms, data=batch_attempt | data
        )
    )


def _record(
    transaction: str, producer_id: int, epoch: int, status: BrokerStatus, start_ms: int, at_ms: int
) -> BrokerRecord:
    return BrokerRecord(
        transaction=transaction,
        producer_id=producer_id,
        producer_epoch=epoch,
        status=status,
        start_ms=start_ms,
        update_ms=at_ms,
        timeout_ms=TIMEOUT_MS,
        partitions=("word_count_sink-0",),
        client_transaction_version=2,
        source="__transaction_state",
    )
