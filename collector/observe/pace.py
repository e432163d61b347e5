"""How often sources of one kind are asked where there are very many: all of them together at most so often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """``per_s``: so many polls a second in all, by ``observers``."""

    per_s: float
    observers: int = 1

    def rest_s(self, interval_s: float) -> float:
        """Return how long each rests between two polls that are to be ``interval_s`` apart."""
        return max(interval_s, self.observers / self.per_s)
