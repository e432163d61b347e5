"""A table in a real database to write into, and an independent connection that judges what is in it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pymysql

from demo.database_server import DatabaseServer
from demo.prerequisites import ROOT
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker
from indoubt.lifecycle.outcomes import CommitOutcome
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from indoubt.resource_managers.database.transaction import DatabaseOpenTransaction
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager
from indoubt.resource_managers.protocol import SlotAttempt

LIMIT_S = 30.0
COLUMNS = (("word", pa.string()), ("count", pa.int64()))
FINGERPRINT = Fingerprint(rows=1, hash=0xABC)
MANAGERS: dict[str, type[DatabaseResourceManager]] = {
    "mysql": MySqlResourceManager,
    "postgres": PostgresResourceManager,
}
_numbers = itertools.count()


def connect(connection: DatabaseConnection) -> Any:
    """Return a driver's own connection in autocommit mode: none of the code under test is in the way."""
    access = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.user,
        "password": connection.password,
    }
    if connection.kind == "mysql":
        return pymysql.connect(**access, database=connection.database, autocommit=True, charset="utf8mb4")
    return psycopg.connect(**access, dbname=connection.database, autocommit=True)


def ask(connection: DatabaseConnection, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own; return its rows."""
    driver = connect(connection)
    try:
        with driver.cursor() as cursor:
            cursor.execute(statement, tuple(parameters) or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    finally:
        driver.close()


def counts(**by_word: int) -> pa.RecordBatch:
    """Return rows of a word count."""
    return pa.RecordBatch.from_pydict(
        {"word": list(by_word), "count": list(by_word.values())}, schema=pa.schema(list(COLUMNS))
    )


def slot_attempt(
    prefix: str, *, slot: int = 0, batch: int = 0, attempt: int = 1, checkpoint_id: str = "L"
) -> SlotAttempt:
    """Return what a task writes under."""
    return SlotAttempt(
        prefix=prefix, slot=slot, marker=Marker(batch=batch, attempt=attempt, checkpoint_id=checkpoint_id)
    )


@dataclass
class DatabaseSink:
    """One table, one prefix and one checkpoint id of its own on a server that tests share."""

    server: DatabaseServer
    table: str
    prefix: str
    checkpoint_id: str = field(default_factory=lambda: uuid4().hex)
    connection: DatabaseConnection | None = None

    def __post_init__(self) -> None:
        self.connection = self.connection or self.server.connection

    @property
    def kind(self) -> str:
        return self.server.kind

    @property
    def quote(self) -> str:
        return "`" if self.kind == "mysql" else '"'

    def manager(self, *, lock_timeout_s: float = 5.0, table: str | None = None) -> DatabaseResourceManager:
        name = self.table if table is None else table
        return MANAGERS[self.kind](self.connection, table=name, lock_timeout_s=lock_timeout_s)

    def manager_at(self, **changes: Any) -> DatabaseResourceManager:
        """Return a manager whose connection differs, for example in its port or password."""
        return MANAGERS[self.kind](dataclasses.replace(self.server.connection, **changes), table=self.table)

    def marker(self, *, batch: int = 0, attempt: int = 1) -> Marker:
        return Marker(batch=batch, attempt=attempt, checkpoint_id=self.checkpoint_id)

    def begin(
        self, *, slot: int = 0, batch: int = 0, attempt: int = 1, decided: Collection[int] = (), **options: Any
    ) -> DatabaseOpenTransaction:
        marker = self.marker(batch=batch, attempt=attempt)
        return self.manager(**options).begin(
            SlotAttempt(prefix=self.prefix, slot=slot, marker=marker, decided=frozenset(decided))
        )

    def prepare(
        self, rows: pa.RecordBatch, *, slot: int = 0, batch: int = 0, attempt: int = 1, **options: Any
    ) -> Handle:
        transaction = self.begin(slot=slot, batch=batch, attempt=attempt, **options)
        try:
            transaction.write(rows)
            return transaction.prepare(FINGERPRINT)
        except BaseException:
            transaction.abort()
            raise

    def commit(self, handle: Handle, *, batch: int = 0, attempt: int = 1, limit_s: float = LIMIT_S) -> CommitOutcome:
        return self.manager(table="").commit([handle], [self.marker(batch=batch, attempt=attempt)], limit_s)[0]

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return ask(self.connection, statement, parameters)

    def seen(self) -> dict[str, int]:
        """Return the word counts that an independent connection sees."""
        return dict(self.ask(f"select word, {self.quote}count{self.quote} from {self.table}"))  # noqa: S608 (a name made here)

    def prepared(self) -> list[str]:
        """Return what the server itself lists for this prefix, asked without the code under test."""
        if self.kind == "postgres":
            rows = self.ask("select gid from pg_prepared_xacts where gid like %s order by gid", (f"{self.prefix}:%",))
            return [row[0] for row in rows]
        rows = self.ask("xa recover")
        return sorted(
            f"{data[:gtrid].decode()}:{data[gtrid:].decode()}"
            for _, gtrid, _, data in rows
            if data.startswith(f"{self.prefix}:".encode())
        )

    def markers(self) -> list[tuple[int, int, int, str]]:
        """Return (slot, batch, attempt, state) of this checkpoint id's marker rows, in order."""
        statement = (
            "select slot, batch, attempt, state from indoubt_markers where checkpoint_id = %s and slot >= 0 "
            "order by slot, batch, attempt"
        )
        return [(int(a), int(b), int(c), str(d)) for a, b, c, d in self.ask(statement, (self.checkpoint_id,))]

    @contextlib.contextmanager
    def open_marker(self, handle: Handle) -> Iterator[Any]:
        """Yield a connection whose open transaction has inserted a handle's marker; it is rolled back unless committed."""
        driver = connect(self.server.connection)
        try:
            driver.cursor().execute("begin")
            driver.cursor().execute(
                "insert into indoubt_markers (checkpoint_id, slot, batch, attempt, branch, state) "
                "values (%s, %s, 0, 1, %s, 'committed')",
                (self.checkpoint_id, handle.slot, handle.transaction),
            )
            yield driver
        finally:
            driver.close()

    @contextlib.contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        """Freeze a process of the server for the length of the block."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def in_background(self, call: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
        """Start ``call`` in a thread; yield what waits for its answer."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(call)
            yield lambda: future.result(90)

    def roll_back_all(self) -> None:
        manager = self.manager(table="")
        assert not any(manager.fence(manager.recover(self.prefix), LIMIT_S))


def make_sink(
    server: DatabaseServer, definition: str = "", columns: Sequence[tuple[str, pa.DataType]] = COLUMNS
) -> Iterator[DatabaseSink]:
    """Yield a new table, for word counts unless it is defined; afterwards what is left prepared goes, and the table."""
    if server.pid is None:
        # A test that failed may have left the server down; the others still tell something.
        server.start()
    number = next(_numbers)
    sink = DatabaseSink(server, table=f"counts_{number}", prefix=f"test.{number}")
    quote = sink.quote
    text = definition or f"word varchar(100) primary key, {quote}count{quote} bigint not null"
    ask(server.connection, f"create table {sink.table} ({text})")
    sink.manager().verify(columns)
    yield sink
    assert server.pid is not None, f"the {server.kind} server is down, its log ends with:\n{server.log_tail(80)}"
    sink.roll_back_all()
    ask(server.connection, f"drop table {sink.table}")


class WriterProcess:
    """database_writer.py as a process that can be killed and frozen; a context manager that leaves none behind."""

    def __init__(self, sink: DatabaseSink, rows: dict[str, int], *, until: str, attempt: int = 1) -> None:
        self._order = {
            "connection": sink.server.connection.to_json(),
            "table": sink.table,
            "prefix": sink.prefix,
            "checkpoint_id": sink.checkpoint_id,
            "attempt": attempt,
            "rows": rows,
            "until": until,
        }

    def __enter__(self) -> WriterProcess:
        command = [sys.executable, "-m", "tests.integration.database_writer"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )
        self.go_on(json.dumps(self._order))
        return self

    def go_on(self, line: str = "") -> None:
        """Let it do its next step."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """Return what it says next, a JSON object."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the writer ended with code {self.process.wait(LIMIT_S)} and said nothing"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def signal(self, number: int) -> None:
        """Kill, freeze or wake it."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(LIMIT_S)

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
