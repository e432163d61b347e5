"""Keeps over time what is otherwise known of now alone: how readers wait, and which sources are observed.

One small write each ten seconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from indoubt.collector.history import sql
from indoubt.collector.history.store import Statement, Store, StoreFailed
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.verdicts.reader_waits import ReaderWait, reader_waits
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState

LOOK_EVERY_S = 1.0
SPAN_MS = 10_000
COLLECTOR = "collector"
log = logging.getLogger(__name__)


class TimeSamples:
    """A thread of its own. Nothing is lost when history cannot be written for a while: what was seen is kept and written later."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        partitions: Callable[[], PartitionFindings],
        observers: Callable[[], Sequence[ObserverStatus]],
    ) -> None:
        self._current, self._store = current, store
        self._partitions, self._observers = partitions, observers
        self._seen_ms = 0
        self._waits: dict[tuple[int, str], ReaderWait] = {}
        self._watched: dict[str, tuple[int, int]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="time samples", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Write what was seen and end; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def look(self, at_ms: int) -> None:
        """Note how readers and sources stand now; ``at_ms`` by the collector's clock."""
        findings = self._partitions()
        if findings.at_ms > self._seen_ms:
            self._seen_ms = findings.at_ms
            with self._current.reading() as state:
                found = reader_waits(findings, lambda transaction: application_names.name_of_id(state, transaction))
            for application, wait in found.items():
                key = (findings.at_ms // SPAN_MS * SPAN_MS, application)
                self._waits[key] = wait.most(self._waits.get(key, wait))
        up = {status.name: status for status in self._observers() if status.state is ObserverState.UP}
        # Of a source, only the time up to its last successful poll was seen.
        seen = {name: at_ms - status.delay_ms for name, status in up.items() if status.delay_ms is not None}
        seen[COLLECTOR] = at_ms
        self._watched = {name: self._span(name, up.get(name), until_ms) for name, until_ms in seen.items()}

    def write(self) -> None:
        """Write what was seen since the last time. Raises StoreFailed."""
        statements: list[Statement] = []
        if self._watched:
            columns = [
                list(self._watched),
                [begin for begin, _ in self._watched.values()],
                [end for _, end in self._watched.values()],
            ]
            statements.append((sql.KEEP_SOURCE_WATCHES, columns))
        if waits := dict(self._waits):
            columns = [
                [begin_ms for begin_ms, _ in waits],
                SPAN_MS,
                [application for _, application in waits],
                [wait.waiting for wait in waits.values()],
                [wait.longest_wait_ms for wait in waits.values()],
                [wait.hidden for wait in waits.values()],
            ]
            statements.append((sql.ADD_READER_WAITS, columns))
        self._store.transact(statements)
        for key in waits:
            del self._waits[key]

    def _span(self, name: str, status: ObserverStatus | None, until_ms: int) -> tuple[int, int]:
        """Return since when a source is observed without interruption, and until when."""
        before = self._watched.get(name)
        since_ms = status.since_ms if status is not None else until_ms
        if before is None or until_ms < before[0] or (status is not None and since_ms > before[1]):
            return min(since_ms, until_ms), until_ms
        return before[0], until_ms

    def _run(self) -> None:
        written_ms = 0
        while not self._stopping.is_set():
            at_ms = now_ms()
            self.look(at_ms)
            if not 0 <= at_ms - written_ms < SPAN_MS:
                written_ms = at_ms
                self._try_to_write()
            self._stopping.wait(LOOK_EVERY_S)
        self.look(now_ms())
        self._try_to_write()

    def _try_to_write(self) -> None:
        if self._store.error:
            return  # it would only wait
        try:
            self.write()
        except StoreFailed as error:
            log.warning("samples are not in history yet: %s", error)
