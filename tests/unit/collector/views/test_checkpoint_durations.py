"""How long checkpoints took, in buckets: thousands become few, none is lost, and what was not completed does not count."""

from __future__ import annotations

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.views.checkpoints_over_time import MOST_BUCKETS, checkpoint_durations
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS
from tests.unit.collector.observations import PREFIX, T0


def done(number: int, at: int, took_ms: int = 500, pipeline: str = PREFIX) -> CheckpointFacts:
    return CheckpointFacts(
        pipeline=pipeline, number=number, started_ms=T0 + at - took_ms, completed_ms=T0 + at, proven_ms=T0 + at
    )


def test_thousands_become_few_buckets_and_all_count() -> None:
    many = [done(number, 3_000 * number, 29_000 if number == 700 else 400 + number % 100) for number in range(2_000)]
    (row,) = checkpoint_durations(many, T0 + 6_000_000, None, None)
    assert row.bucket_ms == 30_000
    assert len(row.bucket_p50_ms) == (row.until_ms - row.from_ms) // row.bucket_ms <= MOST_BUCKETS
    assert sum(row.bucket_completed) == row.completed == 2_000
    assert (row.p50_ms, row.p99_ms, row.longest_ms) == (450, 499, 29_000)
    assert max(filter(None, row.bucket_longest_ms)) == 29_000
    assert row.known_from_ms == T0 - 400


def test_a_bucket_without_a_checkpoint_has_no_length() -> None:
    (row,) = checkpoint_durations([done(1, 10_000), done(2, 95_000)], T0 + 100_000, T0, T0 + 100_000)
    assert row.bucket_p50_ms.count(None) == len(row.bucket_p50_ms) - 2
    assert row.bucket_completed[10] == 1


def test_what_failed_or_runs_has_no_length() -> None:
    failed = CheckpointFacts(pipeline=PREFIX, number=2, started_ms=T0 + 1_000, failed_ms=T0 + 9_000, failures=1)
    runs = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 10_000)
    (row,) = checkpoint_durations([done(1, 500), failed, runs], T0 + 20_000, None, None)
    assert (row.completed, row.longest_ms) == (1, 500)


def test_all_pipelines_have_one_time_of_a_day_at_most() -> None:
    often = [done(number, number * MINUTE_MS) for number in range(60)]
    seldom = [done(number, number * 6 * HOUR_MS - 9 * DAY_MS, pipeline="seldom") for number in range(37)]
    rows = checkpoint_durations([*often, *seldom], T0 + HOUR_MS, None, None)
    assert [row.pipeline for row in rows] == sorted([PREFIX, "seldom"])
    assert len({(row.from_ms, row.until_ms, row.bucket_ms) for row in rows}) == 1
    assert DAY_MS <= rows[0].until_ms - rows[0].from_ms < DAY_MS + 2 * rows[0].bucket_ms
    assert {row.pipeline: row.completed for row in rows} == {PREFIX: 60, "seldom": 4}


def test_an_asked_time_may_be_of_any_length() -> None:
    for length_ms in (0, 1, 999, 40 * DAY_MS, 4_000 * DAY_MS):
        (row,) = checkpoint_durations([done(1, 0)], T0, T0 - length_ms, T0)
        assert len(row.bucket_p50_ms) <= MOST_BUCKETS + 1
        assert row.completed == 1
    assert checkpoint_durations([], T0, None, None) == []
