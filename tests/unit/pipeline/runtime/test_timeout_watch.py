"""The warning that a timeout is near while a slot still writes: once for each transaction, none when it ended in time."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.runtime.timeout_watch import TimeoutWatch
from tests.unit.lifecycle.test_identity import HANDLE

LIMIT_S = 20.0


def handle(timeout_ms: int, slot: int = 0, age_ms: int = 0) -> Handle:
    opened_at_ms = time.time_ns() // 1_000_000 - age_ms
    return replace(HANDLE, transaction=f"p-{slot}-0", slot=slot, opened_at_ms=opened_at_ms, timeout_ms=timeout_ms)


def test_each_transaction_is_reported_once_with_its_age():
    told: list[tuple[Handle, int]] = []
    both = threading.Event()

    def tell(one: Handle, age_ms: int) -> None:
        told.append((one, age_ms))
        if len(told) == 2:
            both.set()

    watch = TimeoutWatch(tell)
    soon, late = handle(200), handle(60_000, slot=1, age_ms=45_000)
    watch.start([soon, late, handle(0, slot=2)])
    assert both.wait(LIMIT_S)
    watch.stop()
    assert {one.slot: age_ms >= one.timeout_ms * 0.5 for one, age_ms in told} == {0: True, 1: True}
    assert watch.reported == {soon.key, late.key}


def test_a_transaction_that_ends_in_time_is_not_reported():
    told: list[Handle] = []
    near, stopped = threading.Event(), TimeoutWatch(lambda one, _: told.append(one))
    stopped.start([handle(400)])
    stopped.stop()
    other = TimeoutWatch(lambda *_: near.set())
    other.start([handle(800)])
    assert near.wait(LIMIT_S), "a watch that began later and goes on has told"
    assert told == []
    assert stopped.reported == frozenset()
