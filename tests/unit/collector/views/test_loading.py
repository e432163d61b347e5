"""A start that fails ends the process: whatever fails, the server is told to give up, and why is known."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.loading import Loading, Part

LIMIT_S = 20.0


def begun(store: Store, running: Sequence[Part] | None) -> tuple[Loading, bool, bool]:
    """Load and start; return how that went, and whether all was ready, and whether it was given up. None: fails to start."""

    def parts() -> Sequence[Part]:
        if running is None:
            raise RuntimeError("a part cannot be made")
        return running

    ready, over, given_up = threading.Event(), threading.Event(), threading.Event()

    def give_up() -> None:
        given_up.set()
        over.set()

    with Loading(CurrentState(store, settled_kept=10, checkpoints_kept=10)) as loading:
        loading.go_on(ready, parts, over.set, give_up)
        assert over.wait(LIMIT_S), f"neither ready nor given up within {LIMIT_S:.0f} s"
    return loading, ready.is_set(), given_up.is_set()


def test_a_start_that_succeeds_gives_nothing_up(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    loading, is_ready, is_given_up = begun(store, [])
    assert (loading.failure, is_ready, is_given_up) == (None, True, False)
    store.close()


def test_a_part_that_cannot_be_made_gives_the_start_up(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    loading, is_ready, is_given_up = begun(store, None)
    assert (str(loading.failure), is_ready, is_given_up) == ("a part cannot be made", False, True)
    store.close()


def test_a_history_that_cannot_be_loaded_gives_the_start_up(tmp_path: Path) -> None:
    path = tmp_path / "history.duckdb"
    Store(path).close()
    with duckdb.connect(str(path)) as file:
        file.execute("drop table flink_jobs")
    store = Store(path)
    loading, is_ready, is_given_up = begun(store, [])
    assert (is_ready, is_given_up) == (False, True)
    with pytest.raises(StoreFailed, match="flink_jobs"):
        raise loading.failure or AssertionError("it was loaded")
    store.close()
