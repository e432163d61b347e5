"""What takes long to find out: found out now and then, however many ask; and in advance where it is asked for often."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from collector.runtime.clock import now_ms

T = TypeVar("T")
LOOK_S = 0.25
log = logging.getLogger(__name__)


class NowAndThen(Generic[T]):
    """Keeps an answer for ``every_ms``; ``find`` is given the time (epoch ms) and makes the next. Thread-safe.

    Where a Refresher keeps it ready, an answer may be twice as old.
    """

    def __init__(self, find: Callable[[int], T], every_ms: int) -> None:
        self._find, self._every_ms = find, every_ms
        self._lock = threading.Lock()
        self._kept: tuple[int, T] | None = None
        self._asked_ms: int | None = None
        self._most_ms = every_ms

    def at(self, at_ms: int) -> T:
        """Return an answer that is no older than ``every_ms``, and not of a later time. Raises what ``find`` raises."""
        self._asked_ms = at_ms
        kept = self._kept
        if kept is not None and 0 <= at_ms - kept[0] < self._most_ms:
            return kept[1]
        with self._lock:
            if self._kept is None or not 0 <= at_ms - self._kept[0] < self._most_ms:
                self._kept = at_ms, self._find(at_ms)
            return self._kept[1]

    def keep_ready(self) -> None:
        """Let an answer stand until ``refresh`` has made the next one."""
        self._most_ms = 2 * self._every_ms

    def refresh(self, at_ms: int) -> None:
        """Make the next answer when it is time and the last one was given to others too; meanwhile that one is given.

        Who asks seldom has it made when they ask: all those between would be made for no one. Raises what ``find`` raises.
        """
        asked_ms, kept = self._asked_ms, self._kept
        if asked_ms is None or kept is None or asked_ms <= kept[0]:
            return
        if 0 <= at_ms - kept[0] < self._every_ms:
            return
        with self._lock:
            self._kept = at_ms, self._find(at_ms)


class Refresher:
    """Keeps answers ready, in a thread of its own: who asks again and again does not wait for the next one."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        self._clock_ms = clock_ms
        self._kept: list[NowAndThen[Any]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)

    def add(self, kept: NowAndThen[T]) -> NowAndThen[T]:
        """Keep its answers ready from now on; return it."""
        kept.keep_ready()
        self._kept.append(kept)
        return kept

    def start(self) -> None:
        """Start, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def refresh(self) -> None:
        """Make the answers that are due."""
        for kept in list(self._kept):
            try:
                kept.refresh(self._clock_ms())
            except Exception as error:
                # Who asks next is told: the answer that stands is soon too old.
                log.debug("an answer could not be kept ready: %s", error)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            self.refresh()
