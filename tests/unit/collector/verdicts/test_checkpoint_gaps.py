"""Checkpoints over time: a gap is named, failures and hung ones stand in it, and what nobody saw is not called a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.verdicts.checkpoint_gaps import SHORTEST_MS, checkpoint_gaps
from tests.unit.collector.observations import PREFIX, T0
from tests.unit.collector.verdicts.case_tables import table

SECOND = 1_000


def done(number: int, at_s: int, took_ms: int = 500, **changes: Any) -> CheckpointFacts:
    ended = T0 + at_s * SECOND
    return CheckpointFacts(
        pipeline=PREFIX, number=number, started_ms=ended - took_ms, completed_ms=ended, proven_ms=ended, **changes
    )


def each(interval_s: int, *, of: int, first: int = 0) -> list[CheckpointFacts]:
    return [done(first + n, (first + n) * interval_s) for n in range(of)]


GAPS = [
    ("none known", [], 5, 600, []),
    ("one alone, long ago", [done(1, 0)], 5, 600, [(0, 600, True)]),
    ("one alone, its interval unknown", [done(1, 0)], None, 600, []),
    ("one each interval", each(5, of=10), 5, 46, []),
    ("two missed: not yet a gap", [*each(5, of=3), *each(5, of=3, first=5)], 5, 36, []),
    ("four missed", [*each(5, of=3), *each(5, of=3, first=7)], 5, 46, [(10, 35, False)]),
    ("the last is old", each(5, of=3), 5, 260, [(10, 260, True)]),
    ("by what was usual alone", [*each(5, of=9), *each(5, of=9, first=20)], None, 141, [(40, 100, False)]),
    ("slower than its interval", [done(n, 30 * n) for n in range(6)], 5, 160, []),
    ("short intervals: seconds are no gap", [done(0, 0), done(1, 1), done(2, 2), done(3, 12)], 1, 13, []),
    ("a savepoint is none", [*each(5, of=3), done(3, 30, kind="savepoint"), *each(5, of=2, first=12)], 5, 66, [(10, 60, False)]),
]  # fmt: skip


@table("checkpoints, interval_s, now_s, gaps", GAPS)
def test_a_time_without_a_checkpoint_is_a_gap_when_it_is_unusual(
    checkpoints: list[CheckpointFacts], interval_s: int | None, now_s: int, gaps: list[tuple[int, int, bool]]
) -> None:
    interval_ms = None if interval_s is None else interval_s * SECOND
    found = checkpoint_gaps(checkpoints, interval_ms, T0 + now_s * SECOND).gaps
    assert [((g.from_ms - T0) // SECOND, (g.until_ms - T0) // SECOND, g.ongoing) for g in found] == gaps
    assert all(gap.observed and gap.name.startswith("no checkpoint for ") for gap in found)


def test_what_a_start_may_take_is_no_gap() -> None:
    slow = [*each(5, of=3), done(3, 40), done(4, 45)]
    assert len(checkpoint_gaps(slow, 5_000, T0 + 46_000).gaps) == 1
    starting = [(T0 + 12_000, T0 + 72_000)]
    assert checkpoint_gaps(slow, 5_000, T0 + 46_000, starting=starting).gaps == ()
    (gap,) = checkpoint_gaps(slow, 5_000, T0 + 100_000, starting=starting).gaps
    assert (gap.ongoing, gap.name) == (True, "no checkpoint for 55 s")
    begun = CheckpointFacts(pipeline=PREFIX, number=9, started_ms=T0 + 46_000)
    assert checkpoint_gaps([*slow, begun], 5_000, T0 + 70_000, starting=starting).hung == ()
    assert len(checkpoint_gaps([*slow, begun], 5_000, T0 + 99_000, starting=starting).hung) == 1


def test_a_gap_says_how_long_it_was_and_what_failed_meanwhile() -> None:
    failed = CheckpointFacts(
        pipeline=PREFIX, number=3, started_ms=T0 + 15_000, failed_ms=T0 + 20_000, failures=2, reason="no leader"
    )
    row = checkpoint_gaps([*each(5, of=3), failed, done(4, 260)], 5_000, T0 + 261_000)
    (gap,) = row.gaps
    assert (gap.name, gap.why) == ("no checkpoint for 4 min 10 s", "checkpoint 3 failed")
    (failure,) = row.failures
    assert (failure.number, failure.at_ms, failure.failures, failure.reason) == (3, T0 + 20_000, 2, "no leader")
    assert (row.pipeline, row.usual_ms, row.hung) == (PREFIX, 5_000, ())


@table(
    "later, now_s, until_s",
    [
        ("until now", [], 100, 100),
        ("until a later one", [40], 100, 40),
        ("overtaken at once", [12], 100, None),
    ],
)
def test_one_that_began_and_did_not_end_hangs(later: Sequence[int], now_s: int, until_s: int | None) -> None:
    begun = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 11_000)
    checkpoints = [*each(5, of=3), begun, *(done(4 + n, at) for n, at in enumerate(later))]
    row = checkpoint_gaps(checkpoints, 5_000, T0 + now_s * SECOND)
    if until_s is None:
        assert row.hung == ()
    else:
        (hung,) = row.hung
        assert (hung.number, hung.started_at_ms, hung.until_ms) == (3, T0 + 11_000, T0 + until_s * SECOND)
        assert hung.name in row.gaps[0].why


def test_a_young_checkpoint_does_not_hang() -> None:
    begun = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 11_000)
    assert checkpoint_gaps([*each(5, of=3), begun], 1_000, T0 + 11_000 + SHORTEST_MS).hung == ()


@table(
    "unobserved, name",
    [
        ("most of it", [(15, 55)], "not observed for 50 s"),
        ("a part of it", [(15, 25)], "no checkpoint for 50 s"),
        ("nothing", [], "no checkpoint for 50 s"),
    ],
)
def test_what_the_collector_could_not_see_is_not_called_missing(unobserved: list[tuple[int, int]], name: str) -> None:
    spans = [(T0 + begin * SECOND, T0 + end * SECOND) for begin, end in unobserved]
    (gap,) = checkpoint_gaps([*each(5, of=3), *each(5, of=2, first=12)], 5_000, T0 + 66_000, spans).gaps
    assert gap.name == name
    assert gap.observed is name.startswith("no checkpoint")
    assert ("did not observe" in gap.why) is not gap.observed


def gaps(checkpoints: list[CheckpointFacts], interval_ms: int | None, now: int) -> list[tuple[int, int]]:
    found = checkpoint_gaps(checkpoints, interval_ms, T0 + now).gaps
    return [(gap.from_ms - T0, gap.until_ms - T0) for gap in found]


@pytest.mark.parametrize(
    ("interval_ms", "now", "is_gap"),
    [(5_000, 15_000, False), (5_000, 15_001, True), (1_000, 10_000, False), (1_000, 10_001, True), (0, 99_000, False)],
)
def test_a_gap_is_longer_than_three_times_what_is_usual_and_than_ten_seconds(
    interval_ms: int, now: int, is_gap: bool
) -> None:
    assert gaps([done(1, 0)], interval_ms, now) == ([(0, now)] if is_gap else [])


def test_until_the_last_checkpoint_there_is_nothing_that_goes_on() -> None:
    row = checkpoint_gaps([*each(5, of=3), done(4, 70)], 5_000, T0 + 70_000)
    assert [gap.ongoing for gap in row.gaps] == [False]
    earlier = checkpoint_gaps([*each(5, of=3), done(4, 70)], 5_000, T0 + 30_000)
    assert [(gap.until_ms, gap.ongoing) for gap in earlier.gaps] == [(T0 + 70_000, False)]


def test_a_checkpoint_that_hangs_is_named_once_its_limit_is_over() -> None:
    begun = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 11_000)
    for now, hangs in ((26_000, False), (26_001, True)):
        assert bool(checkpoint_gaps([*each(5, of=3), begun], 5_000, T0 + now).hung) is hangs
    assert checkpoint_gaps([begun], None, T0 + 99_000).hung == ()
    not_begun = CheckpointFacts(pipeline=PREFIX, number=4)
    assert checkpoint_gaps([*each(5, of=3), not_begun], 5_000, T0 + 99_000).hung == ()


def test_one_of_many_hangs_until_the_first_that_completed_behind_it() -> None:
    begun = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 11_000)
    row = checkpoint_gaps([*each(5, of=3), begun, done(4, 40), done(5, 50)], 5_000, T0 + 51_000)
    assert [hung.until_ms for hung in row.hung] == [T0 + 40_000]
    at_once = CheckpointFacts(pipeline=PREFIX, number=4, started_ms=T0 + 10_000)
    row = checkpoint_gaps([*each(5, of=3), at_once, done(5, 40)], 5_000, T0 + 41_000)
    assert [hung.until_ms for hung in row.hung] == [T0 + 40_000], "one that ends as it began is not behind it"


@pytest.mark.parametrize(("failed", "is_named"), [(9_999, False), (10_000, True), (60_000, True), (60_001, False)])
def test_what_failed_within_a_gap_is_named_in_it(failed: int, is_named: bool) -> None:
    one = CheckpointFacts(pipeline=PREFIX, number=3, started_ms=T0 + 1, failed_ms=T0 + failed)
    row = checkpoint_gaps([*each(5, of=3), *each(5, of=2, first=12), one], 5_000, T0 + 65_000)
    assert [gap.why for gap in row.gaps] == ["checkpoint 3 failed" if is_named else ""]
    assert [failure.failures for failure in row.failures] == [1], "one that is not counted failed once"


@pytest.mark.parametrize(("begun", "is_named"), [(9_999, False), (10_000, True), (70_000, True)])
def test_what_hangs_within_a_gap_is_named_in_it(begun: int, is_named: bool) -> None:
    hanging = CheckpointFacts(pipeline=PREFIX, number=9, started_ms=T0 + begun)
    row = checkpoint_gaps([*each(5, of=3), hanging, done(8, 70)], 5_000, T0 + 90_000)
    assert ["checkpoint 9" in gap.why for gap in row.gaps if not gap.ongoing] == [is_named]


def test_what_hangs_is_named_in_its_own_gap_alone() -> None:
    hanging = CheckpointFacts(pipeline=PREFIX, number=9, started_ms=T0 + 26_000)
    row = checkpoint_gaps([*each(5, of=6), hanging, done(8, 70), done(10, 130)], 5_000, T0 + 131_000)
    assert ["checkpoint 9" in gap.why for gap in row.gaps] == [True, False]


def test_half_of_a_gap_may_be_unobserved() -> None:
    for watched_ms, observed in ((30_000, True), (30_001, False)):
        spans = [(T0, T0 + 10_000 + watched_ms)]
        (gap,) = checkpoint_gaps([*each(5, of=3), done(4, 70)], 5_000, T0 + 70_000, spans).gaps
        assert gap.observed is observed


def test_checkpoints_are_told_in_the_order_in_which_they_began() -> None:
    failed = [
        CheckpointFacts(pipeline=PREFIX, number=number, started_ms=T0 + at, failed_ms=T0 + 9_000)
        for number, at in ((3, 5), (2, 5), (1, 7))
    ]
    unknown = CheckpointFacts(pipeline=PREFIX, number=9, failed_ms=T0 + 1)
    row = checkpoint_gaps([*failed, unknown], 5_000, T0 + 10_000)
    assert [failure.number for failure in row.failures] == [9, 2, 3, 1]
    assert (row.pipeline, row.usual_ms) == (PREFIX, 5_000)
    assert checkpoint_gaps([], None, T0).pipeline == ""
