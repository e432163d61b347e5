"""A collector's state with a history of its own, and patience with stores of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.observe import flink_committables
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views import current_flink
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.observe.flink_checkpoint_files import LIMIT_S


@pytest.fixture
def current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CurrentState]:
    # Tests poll at once again.
    monkeypatch.setattr(current_flink, "IN_USE_S", -1.0)
    store = Store(tmp_path / "history.duckdb")
    yield CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
    store.close()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a poll wait for whatever answers at all."""
    monkeypatch.setattr(flink_committables, "PATIENCE_S", LIMIT_S)
