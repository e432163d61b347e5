"""What takes long to find out: found out now and then, however many ask; and in advance where it is asked for often."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, TypeVarTuple

from indoubt.collector.runtime.background import Background
from indoubt.collector.runtime.clock import now_ms

T = TypeVar("T")
Key = TypeVarTuple("Key")
LOOK_S = 0.25
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry(Generic[T]):
    """An answer with the time that it is of (epoch ms); ``asked_ms``: for which time it was asked for last."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: tuple[int, T] | None = None
    asked_ms: int = 0


class TtlCache(Generic[T, *Key]):
    """Keeps the answers about the ``most`` keys that were asked for last, each for ``every_ms``. Thread-safe.

    ``find``: given the time (epoch ms) and the key, makes an answer; whoever asks meanwhile waits for it. Where a Refresher makes
    them in advance, an answer may be twice as old.
    """

    def __init__(self, find: Callable[[int, *Key], T], every_ms: int, most: int = 1) -> None:
        self._find, self._every_ms, self._most_ms, self._most = find, every_ms, every_ms, most
        self._lock = threading.Lock()
        self._entries: dict[tuple[*Key], _Entry[T]] = {}
        """The one that was asked for longest ago comes first."""

    def at(self, at_ms: int, *key: *Key) -> T:
        """Return an answer that is not too old, and not of a later time. Raises what ``find`` raises."""
        with self._lock:
            entry = self._entries.pop(key, None) or _Entry()
            self._entries[key] = entry
            while len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]
        entry.asked_ms, kept = at_ms, entry.answer
        if kept is not None and 0 <= at_ms - kept[0] < self._most_ms:
            return kept[1]
        with entry.lock:
            if entry.answer is None or not 0 <= at_ms - entry.answer[0] < self._most_ms:
                entry.answer = at_ms, self._find(at_ms, *key)
            return entry.answer[1]

    def keep_ready(self) -> None:
        """Let an answer stand until ``refresh`` has made the next one."""
        self._most_ms = 2 * self._every_ms

    def refresh(self, at_ms: int) -> None:
        """Make the next answers when it is time and the last ones were given to others too; meanwhile those are given.

        Who asks seldom has it made when they ask: all those between would be made for no one. Where ``find`` fails, who asks
        next is told: the answer that stands is soon too old.
        """
        with self._lock:
            entries = list(self._entries.items())
        for key, entry in entries:
            made_ms = entry.answer[0] if entry.answer is not None else entry.asked_ms
            if entry.asked_ms > made_ms and not 0 <= at_ms - made_ms < self._every_ms:
                try:
                    with entry.lock:
                        entry.answer = at_ms, self._find(at_ms, *key)
                except Exception as error:
                    log.debug("an answer could not be kept ready: %s", error)


class Refresher(Background):
    """Makes answers in advance, in a thread of its own: who asks again and again does not wait for the next one."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        super().__init__("refresher")
        self._clock_ms = clock_ms
        self._kept: list[TtlCache[Any, *tuple[Any, ...]]] = []

    def add(self, kept: TtlCache[T, *Key]) -> TtlCache[T, *Key]:
        """Keep its answers ready from now on; return it."""
        kept.keep_ready()
        self._kept.append(kept)
        return kept

    def refresh(self) -> None:
        """Make the answers that are due."""
        for kept in list(self._kept):
            kept.refresh(self._clock_ms())

    def _run(self) -> None:
        while not self.stopping.wait(LOOK_S):
            self.refresh()
