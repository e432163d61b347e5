"""What takes long to find out: found out now and then, however many ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, TypeVarTuple

T = TypeVar("T")
Key = TypeVarTuple("Key")


@dataclass(slots=True)
class _Entry(Generic[T]):
    """An answer with the time that it is of (epoch ms)."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: tuple[int, T] | None = None


class TtlCache(Generic[T, *Key]):
    """Keeps the answers about the ``most`` keys that were asked for last, each for ``every_ms``. Thread-safe.

    ``find``: given the time (epoch ms) and the key, makes an answer. Whoever asks meanwhile waits for it.
    """

    def __init__(self, find: Callable[[int, *Key], T], every_ms: int, most: int = 1) -> None:
        self._find, self._every_ms, self._most = find, every_ms, most
        self._lock = threading.Lock()
        self._entries: dict[tuple[*Key], _Entry[T]] = {}
        """The one that was asked for longest ago comes first."""

    def at(self, at_ms: int, *key: *Key) -> T:
        """Return an answer that is no older than ``every_ms``, and not of a later time. Raises what ``find`` raises."""
        with self._lock:
            entry = self._entries.pop(key, None) or _Entry()
            self._entries[key] = entry
            while len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.answer is None or not 0 <= at_ms - entry.answer[0] < self._every_ms:
                entry.answer = at_ms, self._find(at_ms, *key)
            return entry.answer[1]
