"""One commit by its number of handles: check, decision and commit of one batch, with the resource manager alone, without Spark.

The transactions are prepared by processes that die, as in benchmarks/recovery.py: what is measured is the process beside the
driver, with new transactions of N slots, one record each. A first batch is not counted.
An independent read_committed reader counts the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.cpu import used_s
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.prepared import BATCH, TIMEOUT_MS, leave_prepared
from benchmarks.topics import count_committed, make_topic
from demo.broker import Broker
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.topics.decision_log import DecisionLog

COMMIT_LIMIT_S = 300.0
WARM_UP = 300
"""Handles of a batch that is not counted: a broker that has just started would compile its code in the first ones."""
CHECKPOINT_ID = "0a1b2c3d4e5f"
HANDLE_DISK_BYTES = 20_000
STEPS = ("check", "decision", "commit")
T = TypeVar("T")


@dataclass(slots=True)
class Clock:
    """Adds up the time of steps: wall clock, this process and the broker, in ms."""

    broker_pid: int
    wall_ms: dict[str, float]
    own_ms: float = 0.0
    broker_ms: float = 0.0

    def step(self, name: str, call: Callable[[], T]) -> T:
        """Call it, and keep what it took."""
        own_s, broker_s, started = time.process_time(), used_s(self.broker_pid), time.monotonic()
        answer = call()
        self.wall_ms[name] = 1000 * (time.monotonic() - started)
        self.own_ms += 1000 * (time.process_time() - own_s)
        self.broker_ms += 1000 * (used_s(self.broker_pid) - broker_s)
        return answer


def commit_batch(connection: KafkaConnection, log: DecisionLog, broker_pid: int, name: str, count: int) -> Clock:
    """Prepare a batch of so many handles and commit it. Raises AssertionError unless all of it is committed."""
    topic = f"sink-{name}"
    make_topic(connection, topic)
    started = RunStarted(prefix=name, checkpoint_id=CHECKPOINT_ID, run=name, at_ms=_now_ms())
    attempt = log.start_run(started)
    handles = leave_prepared(connection, topic, prefix=name, checkpoint_id=CHECKPOINT_ID, attempt=attempt, count=count)
    manager = KafkaResourceManager(connection, topic=topic, transaction_timeout_ms=TIMEOUT_MS)
    markers = [Marker(batch=BATCH, attempt=attempt, checkpoint_id=CHECKPOINT_ID)] * count
    clock = Clock(broker_pid, {})
    ready = clock.step("check", lambda: manager.check(handles))
    if not all(one.ready for one in ready):
        raise AssertionError(f"{sum(not one.ready for one in ready)} of {count} transactions are not ready")
    clock.step("decision", lambda: log.decide(_decision(name, attempt, handles)))
    outcomes = clock.step("commit", lambda: manager.commit(handles, markers, COMMIT_LIMIT_S))
    if not all(isinstance(outcome, Committed) for outcome in outcomes):
        raise AssertionError(f"not all of {count} transactions were committed")
    count_committed(connection, topic, count).require(count, name)
    return clock


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Commit one batch of each size."""
    with Broker(work / "broker") as broker:
        connection, pid = KafkaConnection(broker.bootstrap_servers), broker.pid or 0
        log = DecisionLog(connection)
        log.ensure_topic()
        commit_batch(connection, log, pid, "warm-up", WARM_UP)
        for size in sizes:
            clock = commit_batch(connection, log, pid, f"handles-{size}", size)
            whole = sum(clock.wall_ms.values())
            processor = {"driver cpu ms": clock.own_ms, "broker cpu ms": clock.broker_ms}
            yield Point(
                size=size,
                figures={**clock.wall_ms, "whole ms": whole, "ms a handle": whole / size, **processor},
            )
        log.close()


def _decision(prefix: str, attempt: int, handles: Sequence[Handle]) -> Decision:
    return Decision(
        prefix=prefix,
        batch_attempt=BatchAttempt(checkpoint_id=CHECKPOINT_ID, batch=BATCH, attempt=attempt),
        ruling=Ruling.COMMIT,
        handles=tuple(handles),
        who=f"run {attempt}",
        at_ms=_now_ms(),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


CURVE = Curve(
    name="handles",
    title="check, decision and commit of one batch, wall time in ms; processor time of driver and broker",
    sizes=(1, 10, 100, 1_000, 10_000),
    cost="whole ms",
    columns={
        **dict.fromkeys(STEPS, ",.0f"),
        "whole ms": ",.0f",
        "ms a handle": ".2f",
        "driver cpu ms": ",.0f",
        "broker cpu ms": ",.0f",
    },
    parts="steps",
    measure=measure,
    disk_bytes=lambda size, _: size * HANDLE_DISK_BYTES,
)
