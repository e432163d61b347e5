"""The pause between two commits: longer after small ones, and never for whoever reads what waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.history import writer
from indoubt.collector.history.store import Store
from tests.unit.collector.history.test_damaged_history import told
from tests.unit.collector.notify.http_receiver import wait_until

COUNT = "select count(*) from lifecycle_events"


@pytest.mark.parametrize(
    ("rows", "commit_s", "pause_s"),
    [
        (1, 0.001, 0.1),
        (1, 0.002, 0.2),
        (99, 0.009, 0.9),
        (99, 5.0, 1.0),
        (100, 0.01, 0.1),
        (100, 0.05, 0.3),
        (50_000, 5.0, 0.5),
    ],
)
def test_a_small_commit_is_followed_by_a_pause_for_its_cost(rows: int, commit_s: float, pause_s: float) -> None:
    assert writer.pause_s(rows, commit_s) == pytest.approx(pause_s)


def test_who_reads_history_does_not_wait_for_a_long_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PAUSE_TIMES_OF_FEW", 1e9)
    monkeypatch.setattr(writer, "MAX_PAUSE_OF_FEW_S", 3_600.0)
    store = Store(tmp_path / "history.duckdb")
    store.append([told(0)])
    wait_until("the first row is committed, and the writer rests", lambda: not store.waiting)
    store.append([told(1)])
    assert store.rows(COUNT) == [(1,)], "it waits for more"
    store.catch_up()
    assert store.rows(COUNT) == [(2,)]
    assert store.next_offsets("topic") == {0: 2}
    store.append([told(2)])
    store.close()
    again = Store(store.path)
    assert again.rows(COUNT) == [(3,)], "the end is not waited for either"
    again.close()
