"""What a start takes out of history."""

from __future__ import annotations

from pathlib import Path

from indoubt.collector.history.store import Store
from indoubt.collector.records.observations import EventSeen, Observed, Position
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.events import EventType, encode
from tests.unit.collector.observations import event

KEPT = 5


def completed(number: int) -> Observed:
    seen = event(EventType.CHECKPOINT_COMPLETED, number, batch=number, rows=1, bytes=1, duration_ms=1)
    position = Position(source="topic", partition=0, offset=number)
    return Observed(position=position, observation=EventSeen(event=seen.event), raw=encode(seen.event).decode())


def test_a_start_keeps_no_more_checkpoints_than_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    store.append([completed(number) for number in range(50)])
    store.flushed(20)
    current = CurrentState(store, settled_kept=100, checkpoints_kept=KEPT)
    current.load()
    assert sorted(checkpoint.number for checkpoint in current.checkpoints()) == list(range(45, 50))
    store.close()
