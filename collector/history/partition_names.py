"""Which partitions the transactions of history wrote to: read once, then kept as rows are written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc


class PartitionNames:
    """Thread-safe. ``read``: returns the names (``topic-number``) that are in history; called once, when they are wanted first.

    A name stays until the next start, also when the rows that have it leave history.
    """

    def __init__(self, read: Callable[[], Iterable[str]]) -> None:
        self._read = read
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._names: frozenset[str] = frozenset()
        self._is_read = False

    def add(self, records: pa.Table) -> None:
        """Note rows of ``transaction_records`` that are committed now."""
        lists = records.column("partitions").combine_chunks()
        new = set(pc.unique(lists.flatten()).to_pylist()) - self._names
        if new:
            with self._lock:
                self._names |= new

    def all(self) -> frozenset[str]:
        """Return the names. Raises StoreFailed."""
        with self._reading:
            if not self._is_read:
                found = frozenset(self._read())
                with self._lock:
                    self._names |= found
                self._is_read = True
        return self._names
