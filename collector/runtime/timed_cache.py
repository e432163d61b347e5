"""What takes long to find out: found out now and then, however many ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NowAndThen(Generic[T]):
    """Keeps an answer for ``every_ms``; ``find`` is given the time (epoch ms) and makes the next. Thread-safe."""

    def __init__(self, find: Callable[[int], T], every_ms: int) -> None:
        self._find, self._every_ms = find, every_ms
        self._lock = threading.Lock()
        self._kept: tuple[int, T] | None = None

    def at(self, at_ms: int) -> T:
        """Return an answer that is no older than ``every_ms``, and not of a later time. Raises what ``find`` raises."""
        with self._lock:
            if self._kept is None or not 0 <= at_ms - self._kept[0] < self._every_ms:
                self._kept = at_ms, self._find(at_ms)
            return self._kept[1]
