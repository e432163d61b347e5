"""A connection to PostgreSQL: prepared transactions by the driver's two-phase-commit calls, rows as arrays or by COPY."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.pq import TransactionStatus

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.resource_managers.database.columns import TargetTable
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.errors import BranchBusy, DuplicateKey, LockTimeout, NoSuchBranch
from indoubt.resource_managers.database.servers import with_timeline
from indoubt.resource_managers.database.session import (
    CONNECT_LIMIT_S,
    STATEMENT_LIMIT_S,
    BranchLocks,
    DatabaseSession,
    PreparedBranch,
)
from indoubt.resource_managers.postgres import locks, writers
from indoubt.resource_managers.postgres.columns import (
    COLUMNS,
    PRIMARY_KEY,
    STORED_NAME,
    TABLE,
    copy_statement,
    table_name,
    target_column,
    upsert_statement,
)

SSL_MODES = {"off": "disable", "require": "require", "verify": "verify-full"}
WAIT_INTERVAL_S = 0.1
"""How often the driver looks for Ctrl-C while it waits; its own default."""
CHUNK_ROWS = 10_000
"""Rows of one insert: more make it no faster, and their arrays larger."""

NO_SUCH_OBJECT = "42704"
NOT_NOW = frozenset({"55000", "55006"})
"""object_not_in_prerequisite_state (a branch that another session is finishing), object_in_use."""
LOCKED = frozenset({"55P03", "40P01", "40001"})
TWICE = "23505"
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
"""Shutdowns, a session ended by timeout, too many connections: it can be tried again."""
REFUSED_FOR_NOW = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not accepting",
    "not yet accepting",
    "too many",
    "slots",
)
NO_ACCESS_CLASS = "28"
NO_ACCESS = frozenset({"3D000", "42501"})
PREPARED_OFF = "55000"

# Given to each transaction that writes, never to the session: a pooler lends that to others. What is committed must be on disk;
# only a server with another setting is given this one.
LIMITS = (
    "select set_config('lock_timeout', %s, true), set_config('timezone', 'UTC', true), "
    "set_config('synchronous_commit', case setting when 'off' then 'on' else setting end, true) "
    "from pg_settings where name = 'synchronous_commit'"
)
# One statement, so that one server tells all of it, whoever stands between. In recovery there is no timeline to be written.
SERVER = """
select pg_is_in_recovery() as in_recovery, system_identifier::text as system,
       case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline
from pg_control_system()"""
SERVER_UNNAMED = "select pg_is_in_recovery() as in_recovery, null::text as system, null::text as timeline"
LISTING = """
select s.in_recovery, s.system, s.timeline, p.gid, (extract(epoch from p.prepared) * 1000)::bigint, p.owner, p.database,
       age(p.transaction)
from ({server}) s left join pg_prepared_xacts p on p.database = current_database()"""


class PostgresSession(DatabaseSession):
    """One connection. Statements that get no answer in ``limit_s`` are given up."""

    kind = "postgres"
    branch_table = "pg_prepared_xacts"
    _driver_error = psycopg.Error

    def __init__(
        self, connection: DatabaseConnection, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S
    ) -> None:
        super().__init__(connection)
        self._branch: psycopg.Xid | None = None
        self._lock_timeout = f"{max(1, round(lock_timeout_s * 1000))}ms"
        self._server = SERVER
        with self._classified(f"connect as {connection.user!r}"):
            self._driver = BoundedConnection.connect(
                host=connection.host,
                port=connection.port,
                user=connection.user,
                password=connection.password,
                dbname=connection.database,
                sslmode=SSL_MODES[connection.tls],
                sslrootcert=connection.tls_ca or ("system" if connection.tls == "verify" else None),
                client_encoding="UTF8",
                connect_timeout=max(2, int(min(CONNECT_LIMIT_S, limit_s))),
                autocommit=True,
                # A statement prepared in a session is of no use, or another program's, once a pooler lends the next one.
                prepare_threshold=None,
            )
        self._driver.limit_s = limit_s

    @property
    def process(self) -> int:
        """Return the server's process that answers now: behind a pooler that lends sessions, now this one and now that."""
        return int(self.query("select pg_backend_pid()")[0][0])

    @property
    def is_direct(self) -> bool:
        """Say whether no pooler stands between: it would have told a process id of its own making."""
        return self._driver.info.backend_pid == self.process

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._classified(statement.split(maxsplit=1)[0]):
            cursor = self._driver.execute(statement, tuple(parameters) or None)
            return list(cursor.fetchall()) if cursor.description else []

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement that may wait for a lock, in a transaction of its own unless one is open."""
        with self._classified(statement.split(maxsplit=1)[0]), self._limited():
            self._driver.execute(statement, tuple(parameters) or None)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Give the open transaction, or one that ends with the block, this session's limits."""
        if self._driver.info.transaction_status is not TransactionStatus.IDLE:
            yield
            return
        with self._driver.transaction():
            self._driver.execute(LIMITS, (self._lock_timeout,))
            yield

    def read_table(self, name: str) -> TargetTable:
        """Return the columns and primary key of a table (``table`` or ``schema.table``; else found by search_path)."""
        found = self.query(TABLE, (table_name(name).as_string(),))
        if not found:
            raise self._no_table(name, ": create it, or name another one (table, or schema.table)")
        oid, kind, persistence = found[0]
        if kind not in ("r", "p"):
            raise SettingsError(f"{name!r} in {self.connection.address} is not a table of its own: name a table")
        if persistence != "p":
            raise SettingsError(
                f"table {name!r} in {self.connection.address} is unlogged: a crash of the server would empty it, committed "
                f"rows too. Run: alter table {name} set logged"
            )
        return TargetTable(
            name=name,
            columns=tuple(target_column(row) for row in self.query(COLUMNS, (oid,))),
            primary_key=tuple(str(row[0]) for row in self.query(PRIMARY_KEY, (oid,))),
        )

    def stored_name(self, name: str) -> str:
        """Return database, schema and table, each as it is quoted. Raises SettingsError for one that is not there."""
        found = self.query(STORED_NAME, (table_name(name).as_string(),))
        if not found:
            raise self._no_table(name)
        return str(found[0][0])

    def upsert(self, table: TargetTable, rows: pa.RecordBatch) -> None:
        """Write rows: arrays and ON CONFLICT with a primary key, COPY without."""
        taken = table.takes(rows.schema.names)
        columns = [column for _, column in taken]
        key = table.key_within(columns)
        with self._classified(f"write to {table.name!r}"), self._limited():
            if not key:
                self._copy(copy_statement(table, columns), [rows.column(position) for position, _ in taken])
                return
            statement = upsert_statement(table, columns, key)
            # Once at least, also without rows: a trial of the statement then.
            for start in range(0, max(rows.num_rows, 1), CHUNK_ROWS):
                chunk = rows.slice(start, CHUNK_ROWS)
                self._driver.execute(statement, [_python_values(chunk.column(position)) for position, _ in taken])

    def _copy(self, statement: sql.Composed, columns: Sequence[pa.Array]) -> None:
        with self._driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in zip(*(_python_values(column) for column in columns), strict=True):
                copy.write_row(row)

    def take_slot(self, mine: BranchId) -> None:
        """Name this session after its branch and end the sessions of earlier writers."""
        writers.take_slot(self, mine)

    def start(self, branch: BranchId) -> None:
        """Begin a transaction that will be prepared under the branch's whole text."""
        self._branch = _gid(str(branch))
        with self._classified("begin"):
            self._driver.autocommit = False
            self._driver.tpc_begin(self._branch)
            self._driver.execute(LIMITS, (self._lock_timeout,))

    def prepare(self) -> None:
        with self._classified("prepare transaction"):
            self._driver.tpc_prepare()

    def undo(self) -> None:
        with self._classified("rollback"):
            if self._branch is not None:
                self._driver.tpc_rollback()
            else:
                self._driver.rollback()
            self._driver.autocommit = True

    def begin(self) -> None:
        with self._classified("begin"):
            self._driver.autocommit = False
            self._driver.execute(LIMITS, (self._lock_timeout,))

    def commit(self) -> None:
        with self._classified("commit"):
            self._driver.commit()
            self._driver.autocommit = True

    def server(self) -> str:
        """Return the system identifier, which standbys share, and the timeline, which changes when one of them takes over."""
        return self._name(self._told("{server}")[0])

    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return the server, and the prepared transactions of this connection's database: no others can be finished from here."""
        rows = self._told(LISTING)
        branches = [
            PreparedBranch(
                transaction=gid, prepared_at_ms=prepared_ms, owner=owner, database=database, transaction_age=age
            )
            for _, _, _, gid, prepared_ms, owner, database, age in rows
            if gid is not None
        ]
        return self._name(rows[0]), branches

    def _told(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            return self.query(statement.format(server=self._server))
        except Unreachable:
            raise
        except (ResourceManagerError, SettingsError):
            if self._server == SERVER_UNNAMED:
                raise
            # Its functions can be revoked, and servers that only speak PostgreSQL's protocol may not have them.
            self._server = SERVER_UNNAMED
            return self._told(statement)

    def _name(self, told: Sequence[Any]) -> str:
        in_recovery, system, timeline, *_ = told
        if in_recovery:
            raise Unreachable(
                f"{self.connection.address}: a standby answers (the server is in recovery), which lists no prepared "
                "transactions: give the primary's address"
            )
        return with_timeline(f"system {system}", int(timeline, 16)) if system and timeline else ""

    def clock_ms(self) -> int:
        ((at_ms,),) = self.query("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
        return int(at_ms)

    def prepared_elsewhere(self) -> dict[str, int]:
        """Return how many are prepared in the server's other databases."""
        rows = self.query(
            "select database, count(*) from pg_prepared_xacts where database <> current_database() group by 1 order by 1"
        )
        return {str(database): int(count) for database, count in rows}

    def branch_locks(self) -> dict[str, BranchLocks]:
        return locks.branch_locks(self)

    def commit_prepared(self, transaction: str) -> None:
        with self._classified("commit prepared"):
            self._driver.tpc_commit(_gid(transaction))

    def rollback_prepared(self, transaction: str) -> None:
        with self._classified("rollback prepared"):
            self._driver.tpc_rollback(_gid(transaction))

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error, OSError):
            self._driver.close()

    def _meaning(self, error: psycopg.Error, where: str) -> ResourceManagerError | SettingsError:
        return classify(error, where, self.connection.user)


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """The driver's connection, which otherwise waits for an answer for ever: a server may hang without closing anything."""

    limit_s = STATEMENT_LIMIT_S

    def wait(self, gen: Any, interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> Any:
        """Wait as the driver does, but no longer than ``limit_s``; then the connection is of no use and closed."""
        started = time.monotonic()
        limit_s = self.limit_s if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.OperationalError as error:
            if time.monotonic() - started < limit_s:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer in {limit_s:.0f} s") from error


def classify(error: psycopg.Error, where: str, user: str) -> ResourceManagerError | SettingsError:
    """Return what the server's or driver's error means; ``where`` says which database was asked and for what."""
    code = error.sqlstate or ""
    text = error.diag.message_primary or str(error).strip().partition("\n")[0]
    hint = f"; {error.diag.message_hint}" if error.diag.message_hint else ""
    said = f"{where}: {text}{hint}" + (f" ({code})" if code else "")
    if code == NO_SUCH_OBJECT and "prepared" in where:
        return NoSuchBranch(said)
    if code in NOT_NOW and "prepared" in where:
        return BranchBusy(said)
    if code == PREPARED_OFF and "prepare transaction" in where:
        return SettingsError(f"{said}: set max_prepared_transactions in postgresql.conf and restart the server")
    if code in LOCKED:
        return LockTimeout(
            f"{said}: another transaction holds the row; pg_prepared_xacts lists prepared ones, which hold theirs"
        )
    if code == TWICE:
        return DuplicateKey(said)
    if code.startswith(NO_ACCESS_CLASS) or code in NO_ACCESS:
        return SettingsError(f"{said}: check user, password, pg_hba.conf and grants of {user!r}")
    if code in GONE or code.startswith("08") or (not code and isinstance(error, psycopg.OperationalError)):
        if "certificate" in said:
            return SettingsError(f"{said}: check postgres.tls and postgres.tls_ca")
        # A refused connection comes without a code, only with the server's words.
        if "FATAL:" in said and not any(words in said for words in REFUSED_FOR_NOW):
            return SettingsError(f"{said}: check database, user, password and pg_hba.conf for {user!r}")
        return Unreachable(f"{said}: is the server up, is the address right?")
    return ResourceManagerError(said)


def _gid(transaction: str) -> psycopg.Xid:
    # Without format id and branch part the driver sends the text as it is, never in its own form of an xid.
    return psycopg.Xid(format_id=None, gtrid=transaction, bqual=None)


def _python_values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    values: list[Any] = column.to_pylist()
    return values
