"""The writer's rest between two commits: it ends for whoever waits for it, and for nobody else."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from indoubt.collector.history.write_queue import Task, Write, WriteQueue
from indoubt.collector.records.observations import Observed, Position, Quarantined

LIMIT_S = 10.0


def write(rows: int) -> Write:
    aside = Quarantined(error="event is not JSON", value="{", at_ms=0)
    one = Observed(position=Position(source="s", partition=0, offset=0), observation=aside)
    return Write(observed=[one] * rows, offsets={})


def task() -> Task:
    return Task(order=lambda connection: None, answer=Future())


def test_writes_that_have_room_leave_the_writer_its_rest() -> None:
    queue = WriteQueue(max_rows=100)
    for _ in range(10):
        queue.put(write(1))
    assert not queue.rest(0)


def test_a_task_ends_it_until_it_is_taken() -> None:
    queue = WriteQueue()
    for one in (write(1), task(), write(1), task()):
        queue.put(one)
    for rows in (1, 1):
        assert queue.rest(0)
        writes, last = queue.take(100, LIMIT_S)
        assert (sum(one.rows for one in writes), last is not None) == (rows, True)
    queue.put(write(1))
    queue.take(100, LIMIT_S)
    assert not queue.rest(0)


def test_a_write_without_room_ends_it() -> None:
    queue = WriteQueue(max_rows=5)
    queue.put(write(1))
    waiting = threading.Thread(target=queue.put, args=(write(5),), daemon=True)
    waiting.start()
    assert queue.rest(LIMIT_S)
    writes, _ = queue.take(100, LIMIT_S)
    queue.done(writes)
    waiting.join(LIMIT_S)
    assert queue.rows == 5


def test_the_end_ends_it() -> None:
    queue = WriteQueue()
    queue.close()
    assert queue.rest(LIMIT_S)
