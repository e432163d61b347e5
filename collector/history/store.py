"""History in DuckDB: append-only, with the source offsets in the same database transaction. Opened by database_file.py.

One thread behind a bounded queue writes everything (writer.py); each query has a cursor of its own.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from indoubt.collector.history import backup, transaction_sql
from indoubt.collector.history import sql as queries
from indoubt.collector.history.database_file import HistoryDamaged, HistoryFile, StoreFailed, is_damage
from indoubt.collector.history.journal import Connection, Journal, JournalledWrites
from indoubt.collector.history.observation_tables import TRANSACTION_RECORDS
from indoubt.collector.history.past import Past
from indoubt.collector.history.write_queue import MAX_ROWS, Offsets, Order, Write
from indoubt.collector.history.writer import HistoryWriter, PartitionNames, Source, begin_source
from indoubt.collector.records.observations import CheckpointFileKind, Observed
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

__all__ = ["Connection", "HistoryDamaged", "Store", "StoreFailed", "insert_audit"]
T = TypeVar("T")
CLOSE_LIMIT_S, CATCH_UP_LIMIT_S = 20.0, 2.0
log = logging.getLogger(__name__)


Statement = tuple[str, Sequence[Any]]
"""SQL and the values that are bound in it."""


class Store:
    """The history file: opened once, by this process alone."""

    def __init__(self, path: Path, max_rows_waiting: int = MAX_ROWS) -> None:
        self.path = path
        self._max_rows_waiting = max_rows_waiting
        self._file = HistoryFile(path)
        self._making_cursor = threading.Lock()
        self.past = Past()
        self.partition_names = PartitionNames(lambda: (name for (name,) in self.rows(transaction_sql.PARTITIONS)))
        self._connection = self._file.open()
        self._writer = self._new_writer()
        self._journalled: JournalledWrites | None = None

    @property
    def error(self) -> str:
        """Return why the last write failed; empty while writes succeed. Nothing is dropped: what failed is tried again."""
        return self._writer.error

    @property
    def set_aside(self) -> list[Path]:
        """Return the damaged files that were set aside since start."""
        return list(self._file.set_aside)

    @property
    def waiting(self) -> int:
        """Return how many rows are not committed yet."""
        return self._writer.queue.rows

    def append(
        self, observed: Sequence[Observed], tables: Mapping[str, pa.Table] | None = None, offsets: Offsets | None = None
    ) -> None:
        """Hand observations to the writer, and rows that stand in columns already; they are committed together.

        ``offsets``: how far the sources were read with them, (source, partition) -> next offset; by default up to the
        last observation of each. Blocks while too much waits. Committed within about a second; ``catch_up`` has it committed
        at once.
        """
        if offsets is None:
            at = [observation.position for observation in observed]
            offsets = {(position.source, position.partition): position.offset + 1 for position in at}
        self._writer.queue.put(Write(observed=observed, tables=tables or {}, offsets=offsets))

    def next_offsets(self, source: str) -> dict[int, int]:
        """Return the first offset per partition of ``source`` that is not in history."""
        return dict(self.rows(queries.NEXT_OFFSETS, source))

    def check_sources(self) -> None:
        """Read all that observers ask for when they begin. Raises HistoryDamaged, StoreFailed."""
        self.rows(queries.SOURCE_OFFSETS)
        self.rows(queries.EPOCHS)

    def source_of(self, topic: str) -> Source:
        """Return the newest epoch of a topic as history knows it. Raises StoreFailed."""
        found = self.rows(queries.EPOCH_OF_TOPIC, topic)
        _, name, topic_id = found[0] if found else (1, topic, "")
        return Source(name=name, topic_id=topic_id, next_offsets=self.next_offsets(name))

    def begin_source(self, topic: str, topic_id: str) -> Source:
        """Note the id that a topic has now; return the epoch that its records belong to. Raises StoreFailed."""
        name = self._in_writer(lambda connection: begin_source(connection, topic, topic_id, now_ms()))
        return Source(name=name, topic_id=topic_id, next_offsets=self.next_offsets(name))

    def checkpoint_files_of(self, source: str, most: int = 8_000) -> set[tuple[CheckpointFileKind, int, int]]:
        """Return (kind, number, modification time in ns) of the newest checkpoint files of ``source`` that are in history."""
        rows = self.rows(queries.FILES_OF_SOURCE, source, most)
        return {(CheckpointFileKind(kind), number, at) for kind, number, at in rows}

    def quarantined_of(self, source: str) -> set[tuple[int, int]]:
        """Return (partition, offset) of every record of ``source`` that was quarantined."""
        return {(partition, offset) for partition, offset in self.rows(queries.QUARANTINED_OF_SOURCE, source)}

    def append_audit(self, row: Sequence[Any], also: Sequence[Statement] = ()) -> int:
        """Write one audit row (its columns but the number), and what it is about, together; return its number.

        Raises StoreFailed.
        """

        def change(connection: Connection) -> int:
            audit = insert_audit(connection, row)
            _carry_out(also, connection)
            return audit

        return self.write(change)

    def write_by(self, journal: Journal) -> JournalledWrites:
        """Let every later ``write`` and ``keep`` go by way of a journal."""
        self._journalled = JournalledWrites(self._write_here, journal)
        return self._journalled

    def require_lead(self) -> None:
        """Raise NotLeading where another collector may be leading at this moment."""
        if self._journalled is not None:
            self._journalled.require_lead()

    def write(self, change: Callable[[Connection], T]) -> T:
        """Carry out ``change`` in one database transaction and return what it returns. Raises StoreFailed."""
        if self._journalled is not None:
            return self._journalled.write(change)
        return self._write_here(change, keep=True)

    def keep(self, statements: Sequence[Statement]) -> None:
        """Carry out statements of operators' and alerts' tables in one database transaction. Raises StoreFailed."""
        self.write(partial(_carry_out, statements))

    def _write_here(self, change: Callable[[Connection], T], *, keep: bool) -> T:
        def in_transaction(connection: duckdb.DuckDBPyConnection) -> T:
            connection.begin()
            try:
                answer = change(connection)
                if keep:
                    connection.commit()
                else:
                    connection.rollback()
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    connection.rollback()
                raise
            if keep:
                self._write_beside(connection)
            return answer

        answer: T = self._in_writer(in_transaction)
        return answer

    def _write_beside(self, connection: duckdb.DuckDBPyConnection) -> None:
        for file in self._file.beside.values():
            try:
                file.follow(connection)
            except (OSError, duckdb.Error) as error:
                # History has the rows; the file gets them with the next one, or when history is opened next.
                log.error("rows are not yet in %s: %s", file.path, error)

    def transact(self, statements: Sequence[Statement]) -> None:
        """Carry out statements in one database transaction.

        Raises StoreFailed; after a time-out it may still be carried out, behind everything else that waits.
        """
        self._write_here(partial(_carry_out, statements), keep=True)

    def add_maintenance(self, step: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        """Have the writer call ``step`` between commits, at least every second."""
        self._writer.when_idle.append(step)

    def check_writable(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Prove that history takes writes at this moment. Raises StoreFailed."""
        self._in_writer(lambda connection: connection.execute(queries.RECORD_OPENING, [now_ms()]), limit_s)

    def flushed(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Wait until everything handed over so far is committed. Raises StoreFailed after the limit."""
        self._in_writer(lambda connection: None, limit_s)

    def catch_up(self) -> None:
        """Have what was handed over more than a moment (0.1 to 0.8 s) ago committed before history is read.

        While much arrives it soon is without that. Where history cannot be written now, or not within 2 s, what it has is
        read.
        """
        if self._writer.has_long_rest and self.waiting:
            with contextlib.suppress(StoreFailed):
                self.flushed(CATCH_UP_LIMIT_S)

    def rows(
        self, query: str, *values: Any, since_ms: int = 0, until_ms: int = MAX_WHOLE_NUMBER
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query, which may read ``past.<table>``: also what has left the file. Raises StoreFailed.

        ``since_ms``, ``until_ms``: no row of another time (epoch ms) is asked for, so other files of the archive are passed over.
        """
        with self.reading() as cursor:
            return cursor.execute(self.past.statement(cursor, query, since_ms, until_ms), list(values)).fetchall()

    def rows_in_parts(self, query: str, part: int = 20_000) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that may have very many of them, without having all at once. Raises StoreFailed."""
        with self.reading() as cursor:
            answer = cursor.execute(query)
            while found := answer.fetchmany(part):
                yield from found

    def named_rows(
        self, query: str, *values: Any, since_ms: int = 0, until_ms: int = MAX_WHOLE_NUMBER
    ) -> list[dict[str, Any]]:
        """Return the same by column name. Raises StoreFailed."""
        with self.reading() as cursor:
            answer = cursor.execute(self.past.statement(cursor, query, since_ms, until_ms), list(values))
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def back_up(self, directory: Path, moment: datetime) -> Path:
        """Write a copy of history, as it is at one moment, into ``directory``; writing goes on meanwhile. Return it.

        Raises StoreFailed.
        """
        path = backup.path_for(directory, moment)
        try:
            with self.reading() as cursor:
                backup.write(cursor, path)
                return path
        except (StoreFailed, OSError) as error:
            raise StoreFailed(f"history {self.path} could not be backed up to {path}: {error}") from error

    def close(self) -> None:
        """Commit what was handed over and close the file. Raises StoreFailed when something stays unwritten."""
        if not self._writer.close(CLOSE_LIMIT_S):
            raise StoreFailed(f"history {self.path} was not committed within {CLOSE_LIMIT_S:.0f} s: {self.error}")
        self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor for one query of one thread: threads come and go, and a connection is not shared.

        Raises HistoryDamaged, StoreFailed for what DuckDB raises meanwhile.
        """
        try:
            with self._making_cursor:
                cursor = self._connection.cursor()
            with contextlib.closing(cursor):
                yield cursor
        except duckdb.Error as error:
            kind = HistoryDamaged if is_damage(error) else StoreFailed
            raise kind(f"history {self.path} could not be read: {error}") from error

    def _in_writer(self, order: Order, limit_s: float = CLOSE_LIMIT_S) -> Any:
        answer = self._writer.ask(order)
        try:
            return answer.result(limit_s)
        except duckdb.Error as error:
            raise StoreFailed(f"history {self.path} could not be written: {error}") from error
        except TimeoutError:
            raise StoreFailed(f"history {self.path} did not answer within {limit_s:.0f} s: {self.error}") from None

    def begin_anew(self, damage: HistoryDamaged) -> None:
        """Set the damaged file aside and go on with a new one, which has the audit. Raises StoreFailed.

        For the start, before anything reads how far its source is in history.
        """
        self._writer.close(CLOSE_LIMIT_S)
        with self._making_cursor:
            self._connection.close()
            self._file.set_damaged_aside(damage)
            self._connection = self._file.open()
        self._writer = self._new_writer()

    def _new_writer(self) -> HistoryWriter:
        writer = HistoryWriter(
            str(self.path), lambda: self._connection, self._reopen, self._max_rows_waiting, self._note_committed
        )
        writer.start()
        return writer

    def _note_committed(self, arrived: Mapping[str, Sequence[pa.Table]]) -> None:
        for records in arrived.get(TRANSACTION_RECORDS.name, ()):
            self.partition_names.add(records)

    def _reopen(self) -> None:
        with self._making_cursor:
            self._connection.close()
            self._connection = self._file.open()


def insert_audit(connection: Connection, row: Sequence[Any]) -> int:
    """Add one audit row (its columns but the number) inside a ``Store.write``; return its number."""
    (last,) = connection.execute(queries.LAST_AUDIT).fetchone()
    connection.execute(queries.ADD_AUDIT, [last + 1, *row])
    return int(last) + 1


def _carry_out(statements: Sequence[Statement], connection: Connection) -> None:
    for query, values in statements:
        connection.execute(query, list(values))
