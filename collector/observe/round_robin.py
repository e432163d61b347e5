"""Goes round a set that changes, some items at a time, so that polling everything is spread over many small polls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Any)


class Sweep(Generic[T]):
    """Remembers the last item it gave out; items are gone through in their own order."""

    def __init__(self) -> None:
        self._last: T | None = None

    def take(self, items: Collection[T], count: int) -> list[T]:
        """Return the next ``count`` items after those of the last call, each at most once, going on from the start at the end."""
        ordered = sorted(items)
        start = 0 if self._last is None else bisect_right(ordered, self._last)
        taken = (ordered[start:] + ordered[:start])[: max(0, count)]
        if taken:
            self._last = taken[-1]
        return taken


def share(total: int, interval_ms: int, round_ms: int, most: int) -> int:
    """Return how many of ``total`` items each poll takes, so that one round lasts ``round_ms``; never more than ``most``."""
    return min(most, -(-total * interval_ms // max(interval_ms, round_ms)))
