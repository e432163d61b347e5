"""A connection to MySQL or MariaDB: XA statements, InnoDB, rows by the driver's multi-row inserts."""

from __future__ import annotations

import contextlib
import functools
import math
import ssl
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pymysql
from pymysql.constants import CR, ER

from indoubt.lifecycle.branch_id import BranchId, check_xa_prefix
from indoubt.lifecycle.errors import (
    MalformedRecord,
    RecordTooLarge,
    ResourceManagerError,
    SettingsError,
    Unreachable,
)
from indoubt.resource_managers.database.columns import TargetTable
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.errors import BranchBusy, DuplicateKey, LockTimeout, NoSuchBranch
from indoubt.resource_managers.database.session import (
    CONNECT_LIMIT_S,
    STATEMENT_LIMIT_S,
    DatabaseSession,
    PreparedBranch,
)
from indoubt.resource_managers.mysql import forgotten_branches, writers
from indoubt.resource_managers.mysql.columns import (
    COLUMNS,
    ENGINE,
    PRIMARY_KEY,
    STORED_NAME,
    target_column,
    trial_statement,
    upsert_statement,
)
from indoubt.resource_managers.mysql.xa_xid import XaXid

SQL_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,NO_ZERO_IN_DATE,NO_ZERO_DATE"
"""What does not fit is an error, never a changed value."""

SMALL_BATCH_BYTES = 1 << 19
"""Batches below half of the smallest packet that servers are set to need no look at the limit."""
ROOM_BYTES = 4096
"""What the statement around a row takes."""

SERVER = (
    "show global variables where variable_name in "
    "('server_uuid', 'server_uid', 'server_id', 'hostname', 'port', 'read_only')"
)
XA_NO_SUCH_XID = 1397
XA_WRONG_STATE = 1399
XA_RESOURCE_ERROR = 1401
XA_ROLLED_BACK = frozenset({1402, 1613, 1614})
XA_DUPLICATE_XID = 1440
XA_RETRY = 3235
"""ER_XAER_NOTA, _RMFAIL, _RMERR, ER_XA_RBROLLBACK, _RBTIMEOUT, _RBDEADLOCK, ER_XAER_DUPID, and MySQL's ER_XA_RETRY."""

GONE = frozenset({CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_LOST_EXTENDED})
SHUTTING_DOWN = frozenset({ER.SERVER_SHUTDOWN, ER.CON_COUNT_ERROR, 1927, 4031})
"""1927 ER_CONNECTION_KILLED (MariaDB), 4031 ER_CLIENT_INTERACTION_TIMEOUT (MySQL): it can be tried again."""
NO_ACCESS = frozenset({ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.BAD_DB_ERROR, 1698})
NO_PRIVILEGE = frozenset({ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR})


class MySqlSession(DatabaseSession):
    """One connection; ``lock_timeout_s`` is rounded up to whole seconds, which is what the server takes."""

    kind = "mysql"
    branch_table = "XA RECOVER"
    _driver_error = pymysql.MySQLError

    def __init__(
        self, connection: DatabaseConnection, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S
    ) -> None:
        super().__init__(connection)
        self._branch: XaXid | None = None
        self._lock_s = max(1, math.ceil(lock_timeout_s))
        with self._classified(f"connect as {connection.user!r}"):
            self._driver = pymysql.connect(
                host=connection.host,
                port=connection.port,
                user=connection.user,
                password=connection.password,
                database=connection.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=min(CONNECT_LIMIT_S, limit_s),
                read_timeout=limit_s,
                write_timeout=limit_s,
                # Told nothing, the driver tries TLS and reads the system's authorities: 80 ms for each connection.
                ssl=_tls(connection),
                ssl_disabled=connection.tls == "off",
            )
        try:
            self.query("set session transaction isolation level read committed")
            self.query(
                "set session sql_mode = %s, time_zone = '+00:00', innodb_lock_wait_timeout = %s, lock_wait_timeout = %s",
                (SQL_MODE, self._lock_s, self._lock_s),
            )
        except BaseException:
            self.close()
            raise

    @property
    def is_mariadb(self) -> bool:
        """True for MariaDB, which names its version so."""
        return "mariadb" in self._driver.get_server_info().lower()

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._classified(statement.split(maxsplit=1)[0]), self._driver.cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return list(cursor.fetchall())

    def read_table(self, name: str) -> TargetTable:
        """Return the columns and primary key of a table (``table`` or ``database.table``)."""
        database, _, table = name.rpartition(".")
        place = (database or self.connection.database, table)
        found = self.query(ENGINE, place)
        if not found:
            raise self._no_table(name, ": create it, grant select, insert and update on it, or name another one")
        type_, engine, xa = found[0]
        if type_ != "BASE TABLE":
            raise SettingsError(f"{name!r} in {self.connection.address} is a {str(type_).lower()}: name a table")
        if xa != "YES":
            raise SettingsError(
                f"table {name!r} in {self.connection.address} has engine {engine}, which takes no part in XA transactions: "
                f"its rows would be visible at once. Run: alter table {name} engine = InnoDB"
            )
        return TargetTable(
            name=name,
            columns=tuple(target_column(row) for row in self.query(COLUMNS, place)),
            primary_key=tuple(str(row[0]) for row in self.query(PRIMARY_KEY, place)),
            ignores_case=True,
        )

    def stored_name(self, name: str) -> str:
        """Return database and table. Raises SettingsError for one that is not there."""
        database, _, table = name.rpartition(".")
        found = self.query(STORED_NAME, (database or self.connection.database, table))
        if not found:
            raise self._no_table(name)
        return str(found[0][0])

    def upsert(self, table: TargetTable, rows: pa.RecordBatch) -> None:
        """Write rows in statements of many rows each; within one statement a later row overwrites an earlier one."""
        taken = table.takes(rows.schema.names)
        values = [_python_values(rows.column(position)) for position, _ in taken]
        self._refuse_oversized(table, values, rows.nbytes)
        statement = upsert_statement(table, [column for _, column in taken])
        with self._classified(f"write to {table.name!r}"), self._driver.cursor() as cursor:
            cursor.executemany(statement, list(zip(*values, strict=True)))

    def _refuse_oversized(self, table: TargetTable, values: Sequence[Sequence[Any]], total_bytes: int) -> None:
        # The server answers a packet that is too large by closing the connection, as if it had died.
        if total_bytes < SMALL_BATCH_BYTES:
            return
        limit = int(self.query("select @@max_allowed_packet")[0][0])
        if total_bytes < limit // 2:
            return
        largest = max(sum(_escaped_bytes(value) for value in row) for row in zip(*values, strict=True))
        if largest > limit - ROOM_BYTES:
            raise RecordTooLarge(
                f"{self.connection.address}: a row of {largest:,} bytes for table {table.name!r} is larger than the server "
                f"takes (max_allowed_packet = {limit:,}): raise it"
            )

    def try_upsert(self, table: TargetTable, no_rows: pa.RecordBatch) -> None:
        """Let the server look at the upsert: an insert from a query without rows."""
        columns = [column for _, column in table.takes(no_rows.schema.names)]
        self.query(trial_statement(table, columns))

    def take_slot(self, mine: BranchId) -> None:
        """End earlier writers' sessions and take the slot's lock. Raises SettingsError for a prefix too long for an xid."""
        check_xa_prefix(mine.prefix)
        writers.take_slot(self, mine, self._lock_s)

    def start(self, branch: BranchId) -> None:
        xid = XaXid.of(branch)
        self.query(f"xa start {xid.literal}")
        self._branch = xid

    def prepare(self) -> None:
        assert self._branch is not None, "prepare follows start"
        self.query(f"xa end {self._branch.literal}")
        self.query(f"xa prepare {self._branch.literal}")

    def undo(self) -> None:
        """XA END, XA ROLLBACK; or ROLLBACK of a plain transaction."""
        if self._branch is None:
            self.query("rollback")
            return
        with contextlib.suppress(BranchBusy):
            # Ended already, when it was the prepare that failed.
            self.query(f"xa end {self._branch.literal}")
        self.query(f"xa rollback {self._branch.literal}")

    def begin(self) -> None:
        self.query("start transaction")

    def commit(self) -> None:
        self.query("commit")

    def clock_ms(self) -> int:
        """Return sysdate(6), which no setting of the session holds."""
        ((at_ms,),) = self.query("select cast(unix_timestamp(sysdate(6)) * 1000 as signed)")
        return int(at_ms)

    def server(self) -> str:
        """Return MySQL's server_uuid; of MariaDB, which has none, what it tells of its machine and settings."""
        told = {str(name): str(value) for name, value in self.query(SERVER)}
        if told.get("read_only", "OFF").upper() not in ("OFF", "0"):
            raise Unreachable(
                f"{self.connection.address}: a server that is read_only answers: a replica's list says nothing of the branches "
                "that the server has which it copies. Give the address of the server that is written to"
            )
        if "server_uuid" in told:
            return f"server_uuid {told['server_uuid']}"
        return ", ".join(
            f"{name} {told[name]}" for name in ("server_uid", "server_id", "hostname", "port") if name in told
        )

    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return the server, and what its XA RECOVER lists: of all its databases, without times."""
        # In one transaction: a proxy that spreads statements over servers sends all of it to one.
        self.query("start transaction")
        server = self.server()
        rows = self.query("xa recover" if self.is_mariadb else "xa recover convert xid")
        self.query("rollback")
        branches = [PreparedBranch(transaction=str(XaXid.from_recover(row)), prepared_at_ms=None) for row in rows]
        return server, branches

    def commit_prepared(self, transaction: str) -> None:
        """XA COMMIT. NoSuchBranch is also the answer while the connection that prepared it is still there."""
        self.query(f"xa commit {_xid(transaction).literal}")

    def rollback_prepared(self, transaction: str) -> None:
        """XA ROLLBACK. NoSuchBranch is also the answer while the connection that prepared it is still there."""
        self.query(f"xa rollback {_xid(transaction).literal}")

    def list_again(self, branch: BranchId) -> bool:
        """List a branch again that MariaDB forgot. MySQL forgets none: there each xid has a lock."""
        if not self.is_mariadb or not forgotten_branches.is_held(self, branch):
            return False
        with MySqlSession(self.connection, lock_timeout_s=self._lock_s) as other:
            forgotten_branches.list_again(other, branch)
            connection = other._driver.thread_id()
        forgotten_branches.wait_until_closed(self, connection)
        return True

    def close(self) -> None:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            if self._driver.open:
                self._driver.close()

    def _meaning(self, error: pymysql.MySQLError, where: str) -> ResourceManagerError | SettingsError:
        return classify(*_code_and_text(error), where, self.connection.user)


def classify(code: int, text: str, where: str, user: str) -> ResourceManagerError | SettingsError:
    """Return what the server's or driver's error means; ``where`` says which database was asked and for what."""
    said = f"{where}: {text} ({code})"
    if code == XA_NO_SUCH_XID or code in XA_ROLLED_BACK:
        return NoSuchBranch(said)
    if code in (XA_WRONG_STATE, XA_DUPLICATE_XID, XA_RETRY):
        return BranchBusy(said)
    if code in (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK):
        return LockTimeout(
            f"{said}: another transaction holds the row; XA RECOVER lists prepared ones, which hold theirs"
        )
    if code == ER.DUP_ENTRY:
        return DuplicateKey(said)
    if code in GONE and "certificate" in text.lower():
        return SettingsError(f"{said}: check mysql.tls and mysql.tls_ca")
    if code in GONE or code in SHUTTING_DOWN:
        return Unreachable(f"{said}: is the server up, is the address right?")
    if code in (XA_RESOURCE_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR) and "recover" in where.lower():
        return SettingsError(
            f"{said}: {user!r} may not list prepared transactions. MySQL 8: grant xa_recover_admin on *.* to {user!r}"
        )
    if code in NO_ACCESS or code in NO_PRIVILEGE:
        return SettingsError(f"{said}: check user, password and grants of {user!r}")
    if code == ER.NET_PACKET_TOO_LARGE:
        return RecordTooLarge(f"{said}: raise the server's max_allowed_packet")
    return ResourceManagerError(said)


def _xid(transaction: str) -> XaXid:
    try:
        return XaXid.parse(transaction)
    except MalformedRecord as error:
        raise NoSuchBranch(str(error)) from error


def _code_and_text(error: pymysql.MySQLError) -> tuple[int, str]:
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1])
    # What the driver refuses by itself has no code.
    return 0, str(error)


def _python_values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    values: list[Any] = column.to_pylist()
    return values


def _escaped_bytes(value: Any) -> int:
    # As the driver writes them: escaped text, and bytes in hex.
    if isinstance(value, str):
        return len(pymysql.converters.escape_string(value).encode())
    return 2 * len(value) if isinstance(value, bytes) else 32


@functools.cache
def _tls(connection: DatabaseConnection) -> ssl.SSLContext | None:
    if connection.tls == "off":
        return None
    try:
        context = ssl.create_default_context(cafile=connection.tls_ca or None)
    except OSError as error:
        raise SettingsError(f"mysql.tls_ca is {connection.tls_ca!r}, which cannot be read: {error.strerror}") from None
    if connection.tls == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
