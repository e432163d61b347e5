"""How often sources of one kind are asked where there are very many: all of them together take a share of a core at most."""

from __future__ import annotations

import random
from dataclasses import dataclass

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
