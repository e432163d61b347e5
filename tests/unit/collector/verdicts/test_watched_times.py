"""When something was observed: short holes are closed, others are gaps."""

from __future__ import annotations

import pytest

from collector.verdicts.watched_times import BRIDGED_MS, Span, covered, overlap_ms, uncovered

MINUTE = 60_000


@pytest.mark.parametrize(
    ("spans", "joined"),
    [
        ([], []),
        ([(0, 10)], [(0, 10)]),
        ([(50, 60), (0, 50)], [(0, 60)]),
        ([(0, 100), (20, 40)], [(0, 100)]),
        ([(0, 10), (10 + BRIDGED_MS, 10 * MINUTE)], [(0, 10 * MINUTE)]),
        ([(0, 10), (11 + BRIDGED_MS, 10 * MINUTE)], [(0, 10), (11 + BRIDGED_MS, 10 * MINUTE)]),
    ],
    ids=["nothing", "one", "touching", "within", "a short hole", "a long hole"],
)
def test_spans_are_joined_over_short_holes_only(spans: list[Span], joined: list[Span]) -> None:
    assert covered(spans, 20 * MINUTE) == joined


@pytest.mark.parametrize(("ended_ago", "reaches_now"), [(BRIDGED_MS, True), (BRIDGED_MS + 1, False), (0, True)])
def test_what_was_written_a_moment_ago_reaches_until_now(ended_ago: int, reaches_now: bool) -> None:
    ((_, end),) = covered([(0, MINUTE - ended_ago)], MINUTE)
    assert (end == MINUTE) is reaches_now


@pytest.mark.parametrize(
    ("spans", "holes"),
    [
        ([], [(100, 200)]),
        ([(0, 300)], []),
        ([(0, 120), (150, 300)], [(120, 150)]),
        ([(110, 120), (130, 140)], [(100, 110), (120, 130), (140, 200)]),
        ([(250, 300)], [(100, 200)]),
    ],
    ids=["never", "always", "one hole", "before, between and after", "later"],
)
def test_what_spans_leave_out_is_a_gap(spans: list[Span], holes: list[Span]) -> None:
    assert uncovered(spans, 100, 200) == holes
    assert overlap_ms(spans, 100, 200) == 100 - sum(end - begin for begin, end in holes)
