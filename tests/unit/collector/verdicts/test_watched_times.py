"""When something was observed: short holes are closed, others are gaps."""

from __future__ import annotations

import pytest

from indoubt.collector.verdicts.watched_times import BRIDGED_MS, Span, covered, overlap_ms, uncovered
from tests.unit.collector.verdicts.case_tables import table

MINUTE = 60_000


@table(
    "spans, joined",
    [
        ("nothing", [], []),
        ("one", [(0, 10)], [(0, 10)]),
        ("touching", [(50, 60), (0, 50)], [(0, 60)]),
        ("within", [(0, 100), (20, 40)], [(0, 100)]),
        ("a short hole", [(0, 10), (10 + BRIDGED_MS, 10 * MINUTE)], [(0, 10 * MINUTE)]),
        ("a long hole", [(0, 10), (11 + BRIDGED_MS, 10 * MINUTE)], [(0, 10), (11 + BRIDGED_MS, 10 * MINUTE)]),
    ],
)
def test_spans_are_joined_over_short_holes_only(spans: list[Span], joined: list[Span]) -> None:
    assert covered(spans, 20 * MINUTE) == joined


@pytest.mark.parametrize(
    ("ended_ago", "reaches_now"), [(BRIDGED_MS, True), (BRIDGED_MS + 1, False), (1, True), (0, True)]
)
def test_what_was_written_a_moment_ago_reaches_until_now(ended_ago: int, reaches_now: bool) -> None:
    assert covered([(7, MINUTE - ended_ago)], MINUTE) == [(7, MINUTE if reaches_now else MINUTE - ended_ago)]


@table(
    "spans, holes",
    [
        ("never", [], [(100, 200)]),
        ("always", [(0, 300)], []),
        ("one hole", [(0, 120), (150, 300)], [(120, 150)]),
        ("before, between and after", [(110, 120), (130, 140)], [(100, 110), (120, 130), (140, 200)]),
        ("later", [(250, 300)], [(100, 200)]),
    ],
)
def test_what_spans_leave_out_is_a_gap(spans: list[Span], holes: list[Span]) -> None:
    assert uncovered(spans, 100, 200) == holes
    assert overlap_ms(spans, 100, 200) == 100 - sum(end - begin for begin, end in holes)


def test_short_holes_are_fifteen_seconds() -> None:
    assert BRIDGED_MS == 15_000


def test_what_reaches_beyond_now_is_left_as_it_is() -> None:
    assert covered([(0, 2 * MINUTE)], MINUTE) == [(0, 2 * MINUTE)]
    assert covered([], MINUTE) == []


@table(
    "spans, from_ms, until_ms, holes",
    [
        ("until it begins", [(0, 100)], 100, 200, [(100, 200)]),
        ("until it ends", [(0, 200)], 100, 200, []),
        ("just then", [(100, 200)], 100, 200, []),
        ("from its end", [(200, 300)], 100, 200, [(100, 200)]),
        ("one more behind it", [(150, 160), (210, 220)], 100, 200, [(100, 150), (160, 200)]),
        ("one in another", [(100, 150), (120, 130)], 100, 200, [(150, 200)]),
        ("no time", [], 200, 200, []),
        ("two behind it", [(210, 220), (230, 240)], 100, 200, [(100, 200)]),
        ("and one behind it", [(100, 200), (210, 220)], 100, 200, []),
    ],
)
def test_holes_begin_and_end_where_spans_do(spans: list[Span], from_ms: int, until_ms: int, holes: list[Span]) -> None:
    assert uncovered(spans, from_ms, until_ms) == holes
