"""A disk without room under history: nothing ends, nothing is lost or doubled, and writing goes on once there is room."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.observations import EventSeen, Observed, Position
from indoubt.lifecycle.events import EventType, encode
from tests.crash.full_disk import small_disk
from tests.integration.kafka_fixtures import wait_until
from tests.unit.collector.observations import event

pytestmark = pytest.mark.integration
LIMIT_S = 60.0
AT_ONCE = 500
MAX_WAITING = 10_000
AUDIT = (1, "anna", "abort", "[]", "it hangs", "refused", "", "[]")


def told(first: int, count: int) -> list[Observed]:
    """Return events whose text does not compress."""
    found = []
    for number in range(first, first + count):
        noise = f"{number * 2_654_435_761 % 2**64:016x}" * 4 + f"{hash((number, 7)) % 2**64:x}"
        seen = event(EventType.CHECKPOINT_STARTED, number, batch=number, noise=noise)
        place = Position(source="topic", partition=0, offset=number)
        found.append(Observed(position=place, observation=EventSeen(event=seen.event), raw=encode(seen.event).decode()))
    return found


def test_a_full_disk_stops_nothing_for_good(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk) as is_mounted:
        if not is_mounted:
            pytest.skip("no right to mount a tmpfs")
        store = Store(disk / "history.duckdb", MAX_WAITING)
        store.append(told(0, AT_ONCE))
        assert store.append_audit(AUDIT) == 1
        ballast = disk / "ballast"
        fill(ballast)
        handed_over = AT_ONCE
        feeding = threading.Event()

        def feed() -> None:
            nonlocal handed_over
            while not feeding.is_set() and handed_over < 2 * MAX_WAITING:
                store.append(told(handed_over, AT_ONCE))
                handed_over += AT_ONCE

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        wait_until("writes fail", lambda: store.error, LIMIT_S)
        wait_until("the queue is full", lambda: store.waiting >= MAX_WAITING - AT_ONCE, LIMIT_S)
        assert store.waiting <= MAX_WAITING, "what waits is bounded: the rest stays in its topic"
        with pytest.raises(StoreFailed):
            store.check_writable(1.0)
        feeding.set()
        ballast.unlink()
        wait_until("it is written again", lambda: not store.error and store.waiting == 0, LIMIT_S)
        feeder.join(LIMIT_S)
        store.flushed(LIMIT_S)
        numbers = 'select count(*), count(distinct "offset"), max("offset") from lifecycle_events'
        assert store.rows(numbers) == [(handed_over, handed_over, handed_over - 1)]
        assert store.next_offsets("topic") == {0: handed_over}
        assert store.append_audit(AUDIT) == 2
        assert not store.set_aside, "a full disk damages nothing"
        store.close()


def fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as out:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    out.write(b"\0" * size)
            except OSError:
                continue
