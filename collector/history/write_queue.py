"""What waits to be written to history: a queue that is bounded by rows and bytes, so that a flood of events waits in its topic."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from indoubt.collector.records.observations import Observed

MAX_ROWS = 100_000
MAX_BYTES = 64 << 20

Order = Callable[[duckdb.DuckDBPyConnection], Any]
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Observations that are committed together, with ``offsets``: (source, partition) -> first offset that is not in them."""

    observed: Sequence[Observed] = ()
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Rows of history that stand in columns already, by the name of their table."""
    offsets: Offsets

    @property
    def rows(self) -> int:
        """Return how many rows of history it makes."""
        return len(self.observed) + sum(int(table.num_rows) for table in self.tables.values())

    @property
    def size(self) -> int:
        """Return about how many bytes it holds."""
        return sum(len(observation.raw) for observation in self.observed) + sum(
            int(table.nbytes) for table in self.tables.values()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something for the writer's thread to do between two commits, after everything that was put before it."""

    order: Order
    answer: Future[Any]


class WriteQueue:
    """Many threads put, one takes. ``put`` blocks while what waits is more than the bounds; one write always fits."""

    def __init__(self, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> None:
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._items: deque[Write | Task] = deque()
        self._changed = threading.Condition()
        self._rows = self._bytes = self._tasks = 0
        self._is_urgent = threading.Event()
        """Set while a caller waits: for a task, for room, or for the end."""
        self._is_closed = False

    @property
    def rows(self) -> int:
        """Return how many rows wait."""
        return self._rows

    def put(self, item: Write | Task) -> None:
        """Add an item; a write waits until there is room, or until the queue is closed."""
        rows, size = (item.rows, item.size) if isinstance(item, Write) else (0, 0)
        with self._changed:
            while not self._is_closed and self._rows and rows and not self._has_room(rows, size):
                self._is_urgent.set()
                self._changed.wait()
            self._items.append(item)
            if isinstance(item, Task):
                self._tasks += 1
                self._is_urgent.set()
            self._rows += rows
            self._bytes += size
            self._changed.notify_all()

    def take(self, max_rows: int, limit_s: float) -> tuple[list[Write], Task | None]:
        """Return the writes that wait, up to ``max_rows`` rows, and the task that comes after them.

        Waits ``limit_s`` for the first one; both are empty when none came.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed, limit_s)
            writes: list[Write] = []
            rows = 0
            if not self._tasks and not self._is_closed:
                self._is_urgent.clear()
            while self._items and rows < max_rows:
                item = self._items.popleft()
                if isinstance(item, Task):
                    self._tasks -= 1
                    return writes, item
                writes.append(item)
                rows += item.rows
            return writes, None

    def rest(self, limit_s: float) -> bool:
        """Wait, so that more can be taken at once; return True as soon as a caller waits for a task, for room or for the end."""
        return self._is_urgent.wait(limit_s)

    def done(self, writes: Sequence[Write]) -> None:
        """Say that these need no room any more."""
        with self._changed:
            self._rows -= sum(write.rows for write in writes)
            self._bytes -= sum(write.size for write in writes)
            self._changed.notify_all()

    def close(self) -> None:
        """Let no caller wait any more: what is put from now on is taken without a bound."""
        with self._changed:
            self._is_closed = True
            self._is_urgent.set()
            self._changed.notify_all()

    @property
    def is_drained(self) -> bool:
        """True once it is closed and empty."""
        with self._changed:
            return self._is_closed and not self._items

    def _has_room(self, rows: int, size: int) -> bool:
        return self._rows + rows <= self._max_rows and self._bytes + size <= self._max_bytes
