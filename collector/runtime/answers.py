"""Answers come first: work that can wait a moment begins while no request is being answered.

All threads of a process share its interpreter. An answer that falls into a commit of history, or into a step of the alerts, takes
twice as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

MOMENT_S = 0.005
MOST_S = 0.25
"""Long answers that follow each other do not keep other work from going on."""


class Answers:
    """Counts the requests that are being answered. Thread-safe."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._count = 0

    def begin(self) -> Callable[[], None]:
        """Count a request; return what ends it, which may be called again."""
        self._add(1)
        is_open = True

        def end() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._add(-1)

        return end

    def give_way(self, rest: Callable[[float], bool]) -> bool:
        """Rest while a request is being answered, 0.25 s at most; return True as soon as ``rest`` does.

        ``rest``: waits so many seconds; True: go on at once.
        """
        for _ in range(round(MOST_S / MOMENT_S)):
            if not self._count:
                break
            if rest(MOMENT_S):
                return True
        return False

    def _add(self, number: int) -> None:
        with self._changing:
            self._count += number


ANSWERS = Answers()
"""Those of this process."""
