"""Pauses between tries of what may succeed later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

_MAX_DOUBLINGS = 62


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from ``first_s`` until they are ``max_s``."""

    first_s: float
    max_s: float

    def pause_s(self, tries: int, share: float = 0.0) -> float:
        """Return the pause after the first try (0), the second (1), ..., less a random ``share`` (0 to 1) of half of it."""
        return min(self.max_s, self.first_s * 2.0 ** min(tries, _MAX_DOUBLINGS)) * (1 - share / 2)

    def pauses(self) -> Iterator[float]:
        """Yield the pause after each try, without end."""
        return map(self.pause_s, count())
