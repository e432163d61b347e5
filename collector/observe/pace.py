"""Polling that is spread: very many sources take a share of a core together, and a large set is gone round, some at a time."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

WEIGHT = 0.05
"""Of the newest poll in the mean."""


@dataclass(slots=True)
class Pace:
    """``share``: of a core, for all ``observers``; ``cost_s``: the processor time of one poll, at first a guess."""

    share: float
    cost_s: float
    observers: int = 1

    def spent(self, cost_s: float) -> None:
        """Note the processor time of a poll. Threads may call it at once: it is a mean."""
        self.cost_s += (cost_s - self.cost_s) * WEIGHT

    def rest_s(self, interval_s: float) -> float:
        """Return how long each rests between two polls that are to be ``interval_s`` apart."""
        return max(interval_s, self._round_s)

    def begin_s(self) -> float:
        """Return how long one waits for its first poll: not all begin at once."""
        return random.uniform(0.0, self._round_s)

    @property
    def _round_s(self) -> float:
        return self.observers * self.cost_s / self.share


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
