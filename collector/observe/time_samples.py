"""Keeps over time what is otherwise known of now alone: how readers and partitions stand, and which sources are observed.

One small write each ten seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from indoubt.collector.facts.state import State
from indoubt.collector.history import sql
from indoubt.collector.history.store import Statement, Store, StoreFailed
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.runtime.background import Background
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.verdicts.reader_waits import GroupLag, ReaderWait, group_lags, reader_waits
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.resource_managers.kafka.partitions import Partition

LOOK_EVERY_S = 1.0
SPAN_MS = 10_000
COLLECTOR = "collector"
MOST_SAMPLED = 500
"""Groups, and partitions: those that lag most, and those that hide records first."""
MOST_UNWRITTEN = 20_000
"""Samples of them, while history cannot be written."""
WRITES_LOOKED_AT, MOST_WRITTEN = 2_000, 20_000
log = logging.getLogger(__name__)


class TimeSamples(Background):
    """A thread of its own. Nothing is lost when history cannot be written for a while: what was seen is kept and written later."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        partitions: Callable[[], PartitionFindings],
        observers: Callable[[], Sequence[ObserverStatus]],
    ) -> None:
        super().__init__("time samples")
        self._current, self._store = current, store
        self._partitions, self._observers = partitions, observers
        self._seen_ms = 0
        self._waits: dict[tuple[int, str], ReaderWait] = {}
        self._lags: dict[tuple[int, str], GroupLag] = {}
        self._ends: dict[tuple[int, Partition], tuple[int, int]] = {}
        self._last_ends: dict[Partition, int] = {}
        self._writers: dict[str, set[str]] = {}
        """Partition -> the applications whose transactions wrote to it."""
        self._watched: dict[str, tuple[int, int]] = {}

    def look(self, at_ms: int) -> None:
        """Note how readers and sources stand now; ``at_ms`` by the collector's clock."""
        findings = self._partitions()
        if findings.at_ms > self._seen_ms:
            begin_ms, is_first = (
                findings.at_ms // SPAN_MS * SPAN_MS,
                findings.at_ms // SPAN_MS > self._seen_ms // SPAN_MS,
            )
            self._seen_ms = findings.at_ms
            with self._current.reading() as state:
                if is_first:
                    self._note_writers(state)
                name_of = partial(application_names.name_of_id, state)
                found = reader_waits(findings, name_of, self._writers)
            for application, wait in found.items():
                key = (begin_ms, application)
                self._waits[key] = wait.most(self._waits.get(key, wait))
            self._note_lags(findings, begin_ms)
            self._note_ends(findings, begin_ms, every=is_first)
        up = {status.name: status for status in self._observers() if status.state is ObserverState.UP}
        # Of a source, only the time up to its last successful poll was seen.
        seen = {name: at_ms - status.delay_ms for name, status in up.items() if status.delay_ms is not None}
        seen[COLLECTOR] = at_ms
        self._watched = {name: self._span(name, up.get(name), until_ms) for name, until_ms in seen.items()}

    def write(self) -> None:
        """Write what was seen since the last time. Raises StoreFailed."""
        statements: list[Statement] = []
        if self._watched:
            watched = zip(*self._watched.values(), strict=True)
            statements.append((sql.KEEP_SOURCE_WATCHES, [list(self._watched), *map(list, watched)]))
        rows: dict[str, list[tuple[object, ...]]] = {
            sql.ADD_READER_WAITS: [
                (*key, wait.waiting, wait.longest_wait_ms, wait.hidden, wait.lag) for key, wait in self._waits.items()
            ],
            sql.ADD_GROUP_LAGS: [(*key, lag.lag, lag.hidden) for key, lag in self._lags.items()],
            sql.ADD_PARTITION_ENDS: [(begin_ms, *partition, *end) for (begin_ms, partition), end in self._ends.items()],
        }
        for statement, samples in rows.items():
            if samples:
                first, *others = (list(column) for column in zip(*samples, strict=True))
                statements.append((statement, [first, SPAN_MS, *others]))
        self._store.transact(statements)
        self._waits.clear()
        self._lags.clear()
        self._ends.clear()

    def _note_writers(self, state: State) -> None:
        """Note which applications write where, by the newest transactions in memory."""
        if len(self._writers) > MOST_WRITTEN:
            self._writers.clear()
        for broker in islice(reversed(state.broker.values()), WRITES_LOOKED_AT):
            name = application_names.name_of_id(state, broker.identity.transaction)
            for partition in broker.partitions:
                self._writers.setdefault(partition, set()).add(name)

    def _note_lags(self, findings: PartitionFindings, begin_ms: int) -> None:
        lags = group_lags(findings)
        most = sorted(lags, key=lambda group: lags[group].lag + lags[group].hidden, reverse=True)[:MOST_SAMPLED]
        for group in most:
            key, lag = (begin_ms, group), lags[group]
            if lag != GroupLag() and (key in self._lags or len(self._lags) < MOST_UNWRITTEN):
                self._lags[key] = lag.most(self._lags.get(key, lag))

    def _note_ends(self, findings: PartitionFindings, begin_ms: int, *, every: bool) -> None:
        """Note where partitions end that hide records; with ``every`` also the others that a group reads, where they moved."""
        hiding = [blocked.snapshot.partition for blocked in findings.blocked if blocked.snapshot.hidden]
        wanted = dict.fromkeys(hiding[:MOST_SAMPLED])
        if every:
            # Always the same ones: each has a picture without holes then.
            wanted |= dict.fromkeys(sorted(frozenset[Partition]().union(*findings.read_by.values()))[:MOST_SAMPLED])
            self._last_ends = {partition: self._last_ends.get(partition, -1) for partition in wanted}
        for partition in wanted:
            snapshot = findings.snapshots.get(partition)
            if snapshot is None or partition[0] == CONSUMER_OFFSETS:
                continue
            key, end, hidden = (begin_ms, partition), snapshot.high_watermark, snapshot.hidden
            before = self._ends.get(key)
            if before is not None:
                self._ends[key] = max(end, before[0]), max(hidden, before[1])
            elif (hidden or self._last_ends.get(partition) != end) and len(self._ends) < MOST_UNWRITTEN:
                self._ends[key] = end, hidden
            self._last_ends[partition] = end

    def _span(self, name: str, status: ObserverStatus | None, until_ms: int) -> tuple[int, int]:
        """Return since when a source is observed without interruption, and until when."""
        before = self._watched.get(name)
        since_ms = status.since_ms if status is not None else until_ms
        if before is None or until_ms < before[0] or (status is not None and since_ms > before[1]):
            return min(since_ms, until_ms), until_ms
        return before[0], until_ms

    def _run(self) -> None:
        written_ms = 0
        while not self.stopping.is_set():
            at_ms = now_ms()
            self.look(at_ms)
            if not 0 <= at_ms - written_ms < SPAN_MS:
                written_ms = at_ms
                self._try_to_write()
            self.stopping.wait(LOOK_EVERY_S)
        self.look(now_ms())
        self._try_to_write()

    def _try_to_write(self) -> None:
        if self._store.error:
            return  # it would only wait
        try:
            self.write()
        except StoreFailed as error:
            log.warning("samples are not in history yet: %s", error)
