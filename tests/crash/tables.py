"""The tables of runs, read through a connection that is independent of the pipeline."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import psycopg
import pymysql
from psycopg import sql

from indoubt.lifecycle.branch_id import BranchId
from indoubt.resource_managers.database.connection import DatabaseConnection
from tests.crash.judge import Record

READ_EVERY_S = 0.2
DOWN_LIMIT_S = 60.0
HEAD_BYTES = 60
"""How much of a value a read during the run takes; the final read takes whole values."""

_CREATE = {
    ("mysql", "rows"): "create table {} ({key} varbinary(64), {value} longblob) engine=InnoDB",
    ("mysql", "counts"): "create table {} ({word} varchar(64) primary key, {count} bigint not null) engine=InnoDB",
    ("postgres", "rows"): "create table {} ({key} bytea, {value} bytea)",
    ("postgres", "counts"): "create table {} ({word} varchar(64) primary key, {count} bigint not null)",
}
Lost = (pymysql.MySQLError, psycopg.Error, OSError)
"""What a reader of a table or of files gets while its server is away."""


def connect(connection: DatabaseConnection) -> Any:
    """Return a DB-API connection in autocommit mode: each statement sees all commits before its start."""
    if connection.kind == "mysql":
        return pymysql.connect(
            host=connection.host,
            port=connection.port,
            user=connection.user,
            password=connection.password,
            database=connection.database,
            connect_timeout=5,
            read_timeout=30,
            autocommit=True,
        )
    return psycopg.connect(
        host=connection.host,
        port=connection.port,
        user=connection.user,
        password=connection.password,
        dbname=connection.database,
        connect_timeout=5,
        autocommit=True,
    )


def write_properties(file: Path, connection: DatabaseConnection) -> None:
    """Write the pipeline's database properties, readable by their owner only."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        for name in ("host", "port", "user", "password", "database"):
            out.write(f"{connection.kind}.{name}={getattr(connection, name)}\n")


def branches_in_doubt(administrator: DatabaseConnection, prefix: str) -> list[str]:
    """Return the prepared transactions of this prefix: XA RECOVER, or pg_prepared_xacts."""
    with connect(administrator) as opened, opened.cursor() as cursor:
        if administrator.kind == "mysql":
            cursor.execute("xa recover")
            split = [(row[0], row[3][: row[1]], row[3][row[1] : row[1] + row[2]]) for row in map(_as_bytes, cursor)]
            branches = [BranchId.from_xid(*parts) for parts in split]
        else:
            cursor.execute("select gid from pg_prepared_xacts")
            branches = [BranchId.parse(row[0]) for row in cursor]
    return [f"{administrator.kind} {branch}" for branch in branches if branch is not None and branch.prefix == prefix]


class Table:
    """A table of a run: rows of records, or running counts by word."""

    def __init__(self, connection: DatabaseConnection, name: str, *, counts: bool) -> None:
        self.name, self.counts = name, counts
        self._connection = connection

    def create(self) -> None:
        """Create it, empty."""
        with connect(self._connection) as opened, opened.cursor() as cursor:
            kind = self._connection.kind
            cursor.execute(self._statement(_CREATE[kind, "counts" if self.counts else "rows"]))

    def read(self, opened: Any, *, whole: bool) -> list[tuple[Any, Any]]:
        """Return (key, value) or (word, count) of every committed row, values cut to their head unless ``whole``."""
        with opened.cursor() as cursor:
            if self.counts:
                cursor.execute(self._statement("select {word}, {count} from {}"))
            elif whole:
                cursor.execute(self._statement("select {key}, {value} from {}"))
            else:
                cursor.execute(self._statement("select {key}, substring({value} from 1 for %s) from {}"), [HEAD_BYTES])
            return [(_plain(first), _plain(second)) for first, second in cursor.fetchall()]

    def final(self) -> list[tuple[Any, Any]]:
        """Return every committed row, whole, by a new connection."""
        with connect(self._connection) as opened:
            return self.read(opened, whole=True)

    def open(self) -> Any:
        """Return a new connection to the table's database."""
        return connect(self._connection)

    def _statement(self, text: str) -> Any:
        columns = ("key", "value", "word", "count")
        if self._connection.kind == "postgres":
            names = {name: sql.Identifier(name) for name in columns}
            return sql.SQL(text).format(sql.Identifier(self.name), **names)
        return text.format(f"`{self.name}`", **{name: f"`{name}`" for name in columns})


class Rows(Protocol):
    """What is watched: a table, or files."""

    name: str
    counts: bool

    def open(self) -> Any:
        """Return a client."""

    def read(self, opened: Any, *, whole: bool) -> list[tuple[Any, Any]]:
        """Return every committed row."""


class TableWatch:
    """Reads a table repeatedly in a thread of its own, and keeps what it saw; a context manager.

    ``record_of`` turns a row into its record, or into the row's bytes if it is not a record.
    """

    def __init__(self, table: Rows, record_of: Callable[[bytes, bytes], Record | bytes]) -> None:
        self._table, self._record_of = table, record_of
        self._stop = threading.Event()
        self._failure = ""
        self._rows: list[tuple[Any, Any]] = []
        self.now: Counter[Any] = Counter()
        self.most: dict[Record | bytes, int] = {}
        self.values: dict[str, list[int]] = {}
        self._thread = threading.Thread(target=self._run, name=f"watch-{table.name}", daemon=True)

    def __enter__(self) -> TableWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(DOWN_LIMIT_S)

    def seen(self) -> Counter[Any]:
        """Return the last read: how often each record, or the count of each word. Raises AssertionError if it failed."""
        assert not self._failure, f"the reader of table {self._table.name} stopped: {self._failure}"
        return self.now

    def _run(self) -> None:
        opened, down_since = None, time.monotonic()
        while not self._stop.wait(READ_EVERY_S):
            try:
                opened = opened or self._table.open()
                self._note(self._table.read(opened, whole=False))
                down_since = time.monotonic()
            except Lost as error:
                # A fault restarts the server: connect again.
                opened = None
                if time.monotonic() - down_since > DOWN_LIMIT_S:
                    self._failure = f"no answer for {DOWN_LIMIT_S:.0f} s: {error}"
                    return

    def _note(self, rows: list[tuple[Any, Any]]) -> None:
        if rows == self._rows:
            return
        self._rows = rows
        if self._table.counts:
            self.now = Counter(dict(rows))
            for word, count in rows:
                values = self.values.setdefault(word, [])
                if not values or values[-1] != count:
                    values.append(count)
            return
        self.now = Counter(self._record_of(key, value) for key, value in rows)
        for record, times in self.now.items():
            self.most[record] = max(times, self.most.get(record, 0))


def _plain(cell: Any) -> Any:
    return bytes(cell) if isinstance(cell, memoryview | bytearray) else cell


def _as_bytes(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(cell.encode("latin-1") if isinstance(cell, str) else cell for cell in row)
