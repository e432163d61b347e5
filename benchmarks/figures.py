"""Figures from measured points: rates between two times, percentiles, medians of rounds, ratios, slopes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WARM_SHARE, END_SHARE = 0.15, 0.9
"""A steady rate leaves out the first records (compilers warm up) and the last ones (a real stream has no end)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """At ``at_s`` (any clock, seconds) a reader saw ``records`` in all."""

    at_s: float
    records: int


def whole_rate(started_s: float, marks: Sequence[Mark]) -> float:
    """Return records/s from ``started_s`` (the first record is read) to the last mark (all are visible)."""
    return marks[-1].records / (marks[-1].at_s - started_s)


def steady_window(marks: Sequence[Mark], warm: float = WARM_SHARE, end: float = END_SHARE) -> tuple[Mark, Mark]:
    """Return the first mark past ``warm`` and the last mark up to ``end`` of all records.

    Marks are in order of time. Each is at a time when progress became visible (the end of a batch, a commit), so there are
    whole batches between two of them. Raises ValueError if there are not two such marks.
    """
    total = marks[-1].records
    inside = [mark for mark in marks if warm * total <= mark.records <= end * total]
    if len(inside) < 2 or inside[-1].at_s <= inside[0].at_s:
        raise ValueError(
            f"{len(marks)} moments of progress are too few for a steady rate of {total:,} records: take more --records"
        )
    return inside[0], inside[-1]


def steady_rate(marks: Sequence[Mark]) -> float:
    """Return records/s in the steady window. Raises ValueError when there is none."""
    first, last = steady_window(marks)
    return (last.records - first.records) / (last.at_s - first.at_s)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile; ``share`` is 0 to 1. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values: no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios: a disturbance of a round affects both of its sides."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line through (x, y) points. Raises ValueError for fewer than two x."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a slope needs two different x")
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def row(name: str, *columns: str, width: int = 16, first: int = 28) -> str:
    """Return a line of a table: the name, then right-aligned columns."""
    return f"  {name:<{first}}" + "".join(f"{column:>{width}}" for column in columns)
