"""History in DuckDB: append-only, with the source offsets in the same database transaction. Opened by history_file.py.

One writer thread behind a bounded queue writes everything; each query has a cursor of its own.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

import duckdb
import pyarrow as pa

from collector import history_rows, queries
from collector.history_file import StoreFailed, open_history
from collector.observations import CheckpointFileKind, Observed, Position

__all__ = ["Connection", "Store", "StoreFailed", "insert_audit"]
T = TypeVar("T")
QUEUE_LIMIT = 50_000
BATCH_LIMIT = 10_000
COMMIT_PAUSE_S = 0.02
CLOSE_LIMIT_S = 20.0
RETRY_S = 1.0
log = logging.getLogger(__name__)


class Connection(Protocol):
    """The writer's connection as a change inside a ``Store.write`` sees it."""

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Any:
        """Carry out one statement."""


class _Close:
    """The last item of the queue."""


Order = Callable[[duckdb.DuckDBPyConnection], Any]
Statement = tuple[str, Sequence[Any]]
"""SQL and the values that are bound in it."""
_Item = tuple[Order, Future[Any]] | _Close


class Store:
    """The history file: opened once, by this process alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error = ""
        """Why the last write failed; empty while writes succeed. Nothing is dropped: a failed batch is tried again."""
        self._connection = open_history(path)
        self._queue: queue.Queue[Observed | _Item] = queue.Queue(QUEUE_LIMIT)
        self._making_cursor = threading.Lock()
        self._closing = threading.Event()
        self._writer = threading.Thread(target=self._write, name="history", daemon=True)
        self._writer.start()

    def append(self, observed: Observed) -> None:
        """Hand one observation to the writer; blocks while the queue is full. Committed within milliseconds."""
        self._queue.put(observed)

    def next_offsets(self, source: str) -> dict[int, int]:
        """Return the first offset per partition of ``source`` that is not in history."""
        return dict(self.rows(queries.NEXT_OFFSETS, source))

    def checkpoint_files_of(self, source: str, most: int = 8_000) -> set[tuple[CheckpointFileKind, int, int]]:
        """Return (kind, number, modification time in ns) of the newest checkpoint files of ``source`` that are in history."""
        rows = self.rows(queries.FILES_OF_SOURCE, source, most)
        return {(CheckpointFileKind(kind), number, at) for kind, number, at in rows}

    def malformed_of(self, source: str) -> set[tuple[int, int]]:
        """Return (partition, offset) of every record of ``source`` that was kept aside."""
        return {(partition, offset) for partition, offset in self.rows(queries.MALFORMED_OF_SOURCE, source)}

    def append_audit(self, row: Sequence[Any], also: Sequence[Statement] = ()) -> int:
        """Write one audit row (its columns but the number), and what it is about, together; return its number.

        Raises StoreFailed.
        """

        def change(connection: Connection) -> int:
            audit = insert_audit(connection, row)
            for query, values in also:
                connection.execute(query, list(values))
            return audit

        return self.write(change)

    def write(self, change: Callable[[Connection], T]) -> T:
        """Carry out ``change`` in one database transaction and return what it returns. Raises StoreFailed."""

        def in_transaction(connection: duckdb.DuckDBPyConnection) -> T:
            connection.begin()
            try:
                answer = change(connection)
                connection.commit()
                return answer
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    connection.rollback()
                raise

        answer: T = self._in_writer(in_transaction)
        return answer

    def transact(self, statements: Sequence[Statement]) -> None:
        """Carry out statements in one database transaction.

        Raises StoreFailed; after a time-out it may still be carried out, behind everything else that waits.
        """
        self._in_writer(lambda connection: _transact(connection, statements))

    def check_writable(self) -> None:
        """Prove that history takes writes at this moment. Raises StoreFailed."""
        self._in_writer(lambda connection: connection.execute(queries.RECORD_OPENING, [_now_ms()]))

    @property
    def waiting(self) -> int:
        """Return how many observations and orders wait to be written: the lag of history."""
        return self._queue.qsize()

    def flushed(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Wait until everything handed over so far is committed. Raises StoreFailed after the limit."""
        self._in_writer(lambda connection: None, limit_s)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises StoreFailed."""
        try:
            with self._reading() as cursor:
                return cursor.execute(query, list(values)).fetchall()
        except duckdb.Error as error:
            raise StoreFailed(f"history {self.path} could not be read: {error}") from error

    def rows_in_parts(self, query: str, part: int = 20_000) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that may have very many of them, without having all at once. Raises StoreFailed."""
        try:
            with self._reading() as cursor:
                answer = cursor.execute(query)
                while found := answer.fetchmany(part):
                    yield from found
        except duckdb.Error as error:
            raise StoreFailed(f"history {self.path} could not be read: {error}") from error

    def named_rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query by column name. Raises StoreFailed."""
        try:
            with self._reading() as cursor:
                answer = cursor.execute(query, list(values))
                names = [column[0] for column in answer.description or ()]
                return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
        except duckdb.Error as error:
            raise StoreFailed(f"history {self.path} could not be read: {error}") from error

    def close(self) -> None:
        """Commit what was handed over and close the file."""
        self._closing.set()
        self._queue.put(_Close())
        self._writer.join(CLOSE_LIMIT_S)
        if self._writer.is_alive():
            raise StoreFailed(f"history {self.path} was not committed within {CLOSE_LIMIT_S:.0f} s: {self.error}")
        self._connection.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor for one query of one thread: threads come and go, and a connection is not shared."""
        with self._making_cursor:
            cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def _in_writer(self, order: Order, limit_s: float = CLOSE_LIMIT_S) -> Any:
        answer: Future[Any] = Future()
        self._queue.put((order, answer))
        try:
            return answer.result(limit_s)
        except duckdb.Error as error:
            raise StoreFailed(f"history {self.path} could not be written: {error}") from error
        except TimeoutError:
            raise StoreFailed(f"history {self.path} did not answer within {limit_s:.0f} s: {self.error}") from None

    def _write(self) -> None:
        with self._making_cursor:
            cursor = self._connection.cursor()
        _warm_up(cursor)
        while True:
            batch, then = self._take()
            self._commit(cursor, batch)
            if isinstance(then, _Close):
                cursor.close()
                return
            if then is not None:
                _carry_out(cursor, *then)
            # A pause lets the next commit hold more than one row; nothing is lost by it: sources are read again from their offsets.
            self._closing.wait(COMMIT_PAUSE_S)

    def _take(self) -> tuple[list[Observed], _Item | None]:
        """Return what waits: observations, and the order or end that comes after them."""
        batch: list[Observed] = []
        item = self._queue.get()
        while isinstance(item, Observed):
            batch.append(item)
            if len(batch) >= BATCH_LIMIT:
                return batch, None
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, None
        return batch, item

    def _commit(self, cursor: duckdb.DuckDBPyConnection, batch: list[Observed]) -> None:
        """Commit a batch with its offsets; on failure try again until it succeeds or the store is closed."""
        while batch:
            try:
                _insert(cursor, batch)
                self.error = ""
                return
            except duckdb.Error as error:
                self.error = f"history {self.path} could not be written: {error}"
                log.error("%s; %d observations wait", self.error, len(batch))
                if self._closing.wait(RETRY_S):
                    return


def insert_audit(connection: Connection, row: Sequence[Any]) -> int:
    """Add one audit row (its columns but the number) inside a ``Store.write``; return its number."""
    (last,) = connection.execute(queries.LAST_AUDIT).fetchone()
    connection.execute(queries.ADD_AUDIT, [last + 1, *row])
    return int(last) + 1


def _insert(cursor: duckdb.DuckDBPyConnection, batch: Sequence[Observed]) -> None:
    tables: dict[str, list[tuple[Any, ...]]] = {}
    positions: dict[tuple[str, int], Position] = {}
    for observed in batch:
        name, values = history_rows.row(observed)
        tables.setdefault(name, []).append(values)
        positions[observed.position.source, observed.position.partition] = observed.position
    cursor.begin()
    try:
        for name, rows in tables.items():
            cursor.register("arrived", history_rows.arrow_table(name, rows))
            cursor.execute(f"insert into {name} select * from arrived")  # noqa: S608 (the name is a key of TABLES)
            cursor.unregister("arrived")
        for at in positions.values():
            cursor.execute(queries.MOVE_OFFSET, [at.source, at.partition, at.offset + 1])
        cursor.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            cursor.rollback()
        raise


def _transact(cursor: duckdb.DuckDBPyConnection, statements: Sequence[Statement]) -> None:
    cursor.begin()
    try:
        for sql, values in statements:
            cursor.execute(sql, list(values))
        cursor.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            cursor.rollback()
        raise


def _carry_out(cursor: duckdb.DuckDBPyConnection, order: Order, answer: Future[Any]) -> None:
    try:
        answer.set_result(order(cursor))
    except Exception as error:
        answer.set_exception(error)


def _warm_up(cursor: duckdb.DuckDBPyConnection) -> None:
    """Pay for the first Arrow scan (about a second) before anything waits for it."""
    cursor.register("arrived", pa.table({"n": [1]}))
    cursor.execute("select * from arrived").fetchall()
    cursor.unregister("arrived")


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query).fetchone()
    if row is None:
        raise StoreFailed(f"history answered nothing to: {query}")
    return row


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
