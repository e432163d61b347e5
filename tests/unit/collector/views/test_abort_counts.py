"""Aborts over time by cause: minutes become buckets that fit a page, by application, over all the time that is counted."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.views.aborts_and_losses import LEAST_MS, MOST_BUCKETS, USUAL_MS, abort_counts
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from indoubt.lifecycle.rows.ends import AbortCounts
from indoubt.lifecycle.verdicts import AbortCause

NOW = 1_795_000_020_000 // HOUR_MS * HOUR_MS


@pytest.fixture
def store(tmp_path: Path):
    path = tmp_path / "history.duckdb"
    store = Store(path)
    store.close()
    with duckdb.connect(path) as connection:
        connection.executemany(
            "insert into abort_counts values (?, ?, ?, ?, ?)",
            [
                (NOW - 40 * DAY_MS, HOUR_MS, "orders-1", "timeout", 7),
                (NOW - 3 * DAY_MS, MINUTE_MS, "orders-1", "timeout", 2),
                (NOW - 3 * DAY_MS + MINUTE_MS, MINUTE_MS, "orders-1", "timeout", 3),
                (NOW - 3 * DAY_MS, MINUTE_MS, "billing-1", "fenced", 1),
                (NOW - MINUTE_MS, MINUTE_MS, "orders-1", "operator", 4),
            ],
        )
    store = Store(path)
    yield store
    store.close()


def counted(
    store: Store, pipeline: str | None = None, from_ms: int | None = None, until_ms: int | None = None
) -> AbortCounts:
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10)
    return abort_counts(current, store, pipeline, from_ms, until_ms, NOW)


def totals(found: AbortCounts) -> dict[str, int]:
    causes = {cause: sum(one.transactions for one in found.counts if one.cause is cause) for cause in AbortCause}
    return {cause.value: number for cause, number in causes.items() if number}


def test_all_that_is_counted_in_thirty_days_is_in_buckets_that_fit(store: Store) -> None:
    found = counted(store)
    assert found.buckets <= MOST_BUCKETS
    assert found.from_ms <= NOW - USUAL_MS
    assert totals(found) == {"timeout": 5, "fenced": 1, "operator": 4}
    assert {one.bucket for one in found.counts if one.cause is AbortCause.TIMEOUT} == {
        (NOW - 3 * DAY_MS - found.from_ms) // found.bucket_ms
    }


def test_an_application_and_a_time_are_asked_for(store: Store) -> None:
    name = counted(store).counts and "billing"
    assert totals(counted(store, name)) == {"fenced": 1}
    assert totals(counted(store, None, NOW - 41 * DAY_MS, NOW - 39 * DAY_MS)) == {"timeout": 7}
    assert totals(counted(store, "nobody")) == {}


def test_a_short_time_is_half_an_hour_at_least(store: Store) -> None:
    found = counted(store, None, NOW - 1, NOW)
    assert (found.bucket_ms, found.buckets) == (MINUTE_MS, LEAST_MS // MINUTE_MS + 1)
    assert totals(found) == {"operator": 4}
