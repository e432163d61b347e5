"""When something was observed, and when not: spans of time, so that a gap in what is shown is a gap and no zero. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""From and until, epoch ms."""
BRIDGED_MS = 15_000
"""A hole up to this is none: a span is extended every ten seconds, so that a killed collector leaves its last ten out."""


def covered(spans: Iterable[Span], until_ms: int) -> list[Span]:
    """Return the spans joined, in order; holes up to ``BRIDGED_MS`` are closed, and one as short before ``until_ms``."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin - joined[-1][1] <= BRIDGED_MS:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    if joined and until_ms - joined[-1][1] <= BRIDGED_MS:
        joined[-1] = (joined[-1][0], max(joined[-1][1], until_ms))
    return joined


def uncovered(spans: Sequence[Span], from_ms: int, until_ms: int) -> list[Span]:
    """Return what spans, as ``covered`` returns them, leave out between two times."""
    holes, at_ms = [], from_ms
    for begin, end in spans:
        if at_ms < begin and at_ms < until_ms:
            holes.append((at_ms, min(begin, until_ms)))
        at_ms = max(at_ms, end)
    return [*holes, (at_ms, until_ms)] if at_ms < until_ms else holes


def overlap_ms(spans: Iterable[Span], from_ms: int, until_ms: int) -> int:
    """Return how much of a time lies in spans that do not overlap each other."""
    return sum(max(0, min(end, until_ms) - max(begin, from_ms)) for begin, end in spans)
