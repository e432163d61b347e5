"""Trends: the job's results by application and day, read where the job put them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from indoubt.collector.history.archiver import Archiver, Knowledge
from indoubt.collector.history.store import Store
from indoubt.collector.views.trends import cached_trends, of_pipeline
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.verdicts import AbortCause
from indoubt.pipeline.jobs import history_rollup
from indoubt.resource_managers.history_archive import HistoryArchive

pytestmark = pytest.mark.slow
NOW = 20_800 * DAY_MS + 1_000
"""In the day 2026-12-13."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "history.duckdb")
    knowledge = Knowledge(names=lambda ids, _: list(ids), lost=list)
    Archiver(store, str(tmp_path / "archive"), knowledge, lambda: "east", lambda: NOW).round()
    yield store
    store.close()


def put(tmp_path: Path, *rows: dict[str, object]) -> None:
    given = [{"cluster": "east", "committed": 1, "aborted": 0, "lost": 0, **row} for row in rows]
    history_rollup.write(HistoryArchive.open(str(tmp_path / "archive")), pa.Table.from_pylist(given))


def test_days_without_a_result_are_null(store: Store, tmp_path: Path) -> None:
    put(
        tmp_path,
        {"day": "2026-12-11", "application": "a", "committed": 5, "aborted": 2, "aborted_timeout": 2, "ids": 9},
        {"day": "2026-12-13", "application": "a", "committed": 7},
        {"day": "2026-12-13", "application": "busy", "committed": 1_000},
        {"day": "2026-12-13", "application": "loses", "committed": 1, "lost": 1},
        {"day": "2026-12-13", "application": "elsewhere", "cluster": "west"},
        {"day": "2026-12-10", "application": "before"},
    )
    trends = cached_trends(store).at(NOW, 3)
    assert [one.pipeline for one in trends.applications] == ["loses", "busy", "a"]
    one = of_pipeline(trends, "a", 20).applications[0]
    assert (one.committed, one.aborted, one.ids) == ((5, None, 7), (2, None, 0), (9, None, None))
    assert [(each.cause, each.aborts) for each in one.causes] == [(AbortCause.TIMEOUT, (2, None, None))]
    assert (trends.until_ms - trends.from_ms, trends.bucket_ms, trends.is_archived) == (3 * DAY_MS, DAY_MS, True)
    assert trends.made_at_ms is not None


def test_before_the_job_has_run_there_is_nothing(store: Store) -> None:
    trends = cached_trends(store).at(NOW, 90)
    assert (trends.made_at_ms, trends.applications, trends.is_archived) == (None, (), True)
