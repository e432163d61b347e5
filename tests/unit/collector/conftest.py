"""A history of its own, a collector's state over it, and a clock that a test sets; for mutants too (trials.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "history.duckdb")
    yield made
    made.close()


@pytest.fixture
def current(store: Store) -> CurrentState:
    return CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())


class Clock:
    now_s = 10_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()
