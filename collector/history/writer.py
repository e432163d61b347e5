"""The one thread that writes history: commits what waits, tries again for as long as it takes, does tasks in between."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from indoubt.collector.history import rollups, row_coding, sql
from indoubt.collector.history.write_queue import Order, Task, Write, WriteQueue

BATCH_ROWS = 50_000
"""Large commits write history twice as fast as small ones (10,000 rows); they only form while there is a backlog."""
COMMIT_PAUSE_S = 0.1
"""What is observed is in memory, and so in the API, before it is committed: fewer commits leave more time for answers."""
PAUSE_TIMES, MAX_PAUSE_S = 6, 0.5
"""The pause lasts so many times as long as the commit before it: where commits take long, requests do too."""
FEW_ROWS = 100
PAUSE_TIMES_OF_FEW, MAX_PAUSE_OF_FEW_S = 100, 1.0
"""A commit of few rows takes as long as one of a thousand: the next waits longer, and has more."""
IDLE_S = 1.0
RETRY_S = 1.0
_ODD_DATA = (duckdb.DataError, duckdb.InvalidInputException)
"""Errors that come again however often the same rows are tried."""
log = logging.getLogger(__name__)


class HistoryWriter:
    """Writes through a connection that ``connection`` gives, and asks for it again when a fatal error has ended it.

    ``committed``: given what each commit brought, by table.
    """

    def __init__(
        self,
        name: str,
        connection: Callable[[], duckdb.DuckDBPyConnection],
        reopen: Callable[[], None],
        max_rows_waiting: int,
        committed: Callable[[Mapping[str, Sequence[pa.Table]]], None] = lambda _: None,
    ) -> None:
        self._name, self._connection, self._reopen, self._committed = name, connection, reopen, committed
        self.error = ""
        """Why the last write failed; empty while writes succeed. Nothing is dropped: what failed is tried again."""
        self.queue = WriteQueue(max_rows_waiting)
        self.has_long_rest = True
        """Its last commit brought few rows: it may rest for long, unless a caller waits."""
        self.when_idle: list[Callable[[duckdb.DuckDBPyConnection], None]] = []
        """Called between commits, at least every second while nothing arrives; each does a small step of maintenance."""
        self._closing = threading.Event()
        self._gave_up = False
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def close(self, limit_s: float) -> bool:
        """Write what waits and end; return whether that was done within the limit."""
        self._closing.set()
        self.queue.close()
        self._thread.join(limit_s)
        return not self._thread.is_alive() and not self._gave_up

    def ask(self, order: Order) -> Future[Any]:
        """Have the writer carry out an order once everything before it is committed."""
        answer: Future[Any] = Future()
        self.queue.put(Task(order=order, answer=answer))
        return answer

    def _write(self) -> None:
        cursor = self._connection().cursor()
        _warm_up(cursor)
        while not self.queue.is_drained:
            writes, task = self.queue.take(BATCH_ROWS, IDLE_S)
            began_s = time.monotonic()
            cursor = self._commit(cursor, writes)
            rows = sum(write.rows for write in writes)
            rest_s = pause_s(rows, time.monotonic() - began_s)
            self.has_long_rest = rows < FEW_ROWS
            self.queue.done(writes)
            if task is not None:
                _execute(cursor, task)
            for step in self.when_idle:
                self._maintain(cursor, step)
            # A pause lets the next commit hold more than one row; nothing is lost by it: sources are read again from their offsets.
            if self.queue.rows < BATCH_ROWS:
                self.queue.rest(rest_s)
        cursor.close()

    def _commit(self, cursor: duckdb.DuckDBPyConnection, writes: Sequence[Write]) -> duckdb.DuckDBPyConnection:
        """Commit writes with their offsets; on failure try again until it succeeds or the store is closed."""
        # Once a write was given up nothing after it may be written: its offsets would pass over what was given up.
        while writes and not self._gave_up:
            try:
                self._insert(cursor, writes)
                if self.error:
                    log.warning("history %s is written again", self._name)
                self.error = ""
                break
            except duckdb.Error as error:
                rows = sum(write.rows for write in writes)
                if not self.error:
                    log.error("history %s could not be written: %s; %d rows and more wait", self._name, error, rows)
                self.error = f"history {self._name} could not be written: {error}"
                if self._closing.wait(RETRY_S):
                    self._gave_up = True
                elif isinstance(error, duckdb.FatalException | duckdb.ConnectionException):
                    cursor = self._again(cursor)
        return cursor

    def _insert(self, cursor: duckdb.DuckDBPyConnection, writes: Sequence[Write]) -> None:
        try:
            arrived = insert(cursor, writes)
        except _ODD_DATA as error:
            log.exception("rows arrived in history %s that cannot be counted: %s", self._name, error)
            arrived = insert(cursor, writes, counted=False)
        self._committed(arrived)

    def _again(self, cursor: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """Open the file again: a fatal error (a full disk, for one) ends every connection to it."""
        try:
            self._reopen()
            return self._connection().cursor()
        except Exception as error:
            self.error = f"history {self._name} could not be opened again: {error}"
            return cursor

    def _maintain(self, cursor: duckdb.DuckDBPyConnection, step: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        try:
            step(cursor)
        except duckdb.Error as error:
            with contextlib.suppress(duckdb.Error):
                cursor.rollback()
            log.warning("maintenance of history %s failed, and is tried again: %s", self._name, error)


def pause_s(rows: int, commit_s: float) -> float:
    """Return how long to rest after a commit of so many rows that took so long; seconds."""
    times, most_s = (PAUSE_TIMES_OF_FEW, MAX_PAUSE_OF_FEW_S) if rows < FEW_ROWS else (PAUSE_TIMES, MAX_PAUSE_S)
    return min(most_s, max(COMMIT_PAUSE_S, times * commit_s))


def insert(
    cursor: duckdb.DuckDBPyConnection, writes: Sequence[Write], *, counted: bool = True
) -> Mapping[str, Sequence[pa.Table]]:
    """Commit writes, their counts, and how far their sources were read, all or nothing; return the rows by table.

    Raises duckdb.Error.
    """
    arrived: dict[str, list[pa.Table]] = {}
    offsets: dict[tuple[str, int], int] = {}
    for write in writes:
        for name, table in write.tables.items():
            arrived.setdefault(name, []).append(table)
        offsets.update(write.offsets)
    for name, table in row_coding.tables_of(observation for write in writes for observation in write.observed).items():
        arrived.setdefault(name, []).append(table)
    cursor.begin()
    try:
        for name, tables in arrived.items():
            cursor.register("arrived", pa.concat_tables(tables))
            cursor.execute(f"insert into {name} select * from arrived")  # noqa: S608 (the name is a key of TABLES)
            if counted:
                rollups.count(cursor, name)
            cursor.unregister("arrived")
        if offsets:
            # One statement for all: each takes 2 ms, however few rows it moves.
            sources, partitions = zip(*offsets, strict=True)
            cursor.execute(sql.MOVE_OFFSETS, [sources, partitions, list(offsets.values())])
        cursor.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            cursor.rollback()
        raise
    return arrived


def _execute(cursor: duckdb.DuckDBPyConnection, task: Task) -> None:
    try:
        task.answer.set_result(task.order(cursor))
    except Exception as error:
        task.answer.set_exception(error)


def _warm_up(cursor: duckdb.DuckDBPyConnection) -> None:
    """Pay for the first Arrow scan (about a second) before anything waits for it."""
    cursor.register("arrived", pa.table({"n": [1]}))
    cursor.execute("select * from arrived").fetchall()
    cursor.unregister("arrived")


class PartitionNames:
    """Which partitions the transactions of history wrote to. Thread-safe.

    ``read``: returns the names (``topic-number``) that are in history; called once, when they are wanted first.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One epoch of a topic: its records stand under its name, and under a new one once another topic has taken its place.

    ``topic_id`` is empty as long as none is known; ``next_offsets``: the first that is not in history.
    """

    name: str
    topic_id: str
    next_offsets: dict[int, int]


def begin_source(connection: duckdb.DuckDBPyConnection, topic: str, topic_id: str, at_ms: int) -> str:
    """Note that ``topic`` has this id from now on; return the source name of its records.

    A topic without an id so far is the same one, by its first name; another id begins an epoch.
    """
    last = connection.execute(sql.EPOCH_OF_TOPIC, [topic]).fetchone()
    if last is None:
        connection.execute(sql.BEGIN_EPOCH, [topic, 1, topic, topic_id, at_ms])
        return topic
    epoch, name, known_id = last
    if known_id == topic_id:
        return str(name)
    if not known_id:
        connection.execute(sql.NAME_EPOCH, [topic_id, topic, epoch])
        return str(name)
    name = f"{topic}#{epoch + 1}"
    connection.execute(sql.BEGIN_EPOCH, [topic, epoch + 1, name, topic_id, at_ms])
    return name
