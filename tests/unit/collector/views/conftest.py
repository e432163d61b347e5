"""The history that tests of plots over time write and ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.views.series import cached_series
from indoubt.collector.views.time_buckets import Window
from indoubt.lifecycle.rows.series import Series
from tests.unit.collector.views.counted_history import NOW, Ask, History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def ask(history: History) -> Ask:
    """Return what asks for the series as of a time, by default ten minutes after T0."""

    def asked(window: Window = Window.HOUR, until_ms: int | None = None, now_ms: int = NOW) -> Series:
        history.store.flushed()
        return cached_series(history.current, history.store).at(now_ms, window, until_ms)

    return asked
