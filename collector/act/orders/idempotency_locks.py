"""One lock per key, for as long as a thread holds it or waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterator


class KeyLocks:
    """The same order sent twice at once is carried out once: the second waits for the first one's answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def held(self, key: Hashable | None) -> Iterator[None]:
        """Hold the lock of ``key``; None holds nothing."""
        if key is None:
            yield
            return
        with self._guard:
            lock, users = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks.pop(key)
                if users > 1:
                    self._locks[key] = (lock, users - 1)
