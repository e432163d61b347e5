"""One open connection to a database, in the terms of the protocol; what differs between servers sits behind it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.resource_managers.database.columns import TargetTable
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.errors import outside_its_errors
from indoubt.resource_managers.database.servers import without_timeline

CONNECT_LIMIT_S = 10.0
STATEMENT_LIMIT_S = 120.0
"""No statement is waited for longer than this: a server that hangs is answered by Unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBranch:
    """A branch that the server lists as prepared, ours or foreign; MySQL tells its name and nothing else.

    ``transaction_age``: how many transactions began since; what vacuum may not clean up behind it is as old.
    """

    transaction: str
    prepared_at_ms: int | None
    owner: str = ""
    database: str = ""
    transaction_age: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock on a relation that a prepared branch holds, its mode as the server names it."""

    relation: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSession:
    """A session that waits behind a prepared branch: for a row of it (``relation`` is empty), or for a relation it has locked.

    ``since_ms`` is epoch ms, None where the server does not tell it (PostgreSQL before 14).
    """

    process: int
    user: str
    application: str
    relation: str
    mode: str
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLocks:
    """What one prepared branch holds, and who waits behind it."""

    held: tuple[HeldLock, ...] = ()
    waiting: tuple[WaitingSession, ...] = ()


class DatabaseSession(ABC):
    """A connection that commits each statement by itself, but for those between ``start`` and ``prepare``.

    Every method raises ResourceManagerError or one of its kinds in database_errors, never the driver's own.
    """

    kind: str
    branch_table: str
    """Where prepared branches are listed, for messages."""
    _driver_error: type[Exception]
    """What the driver's own errors are, which ``_meaning`` tells."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self.connection = connection

    @abstractmethod
    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with ``%s`` parameters; return its rows, none for one that has no result."""

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement that may wait for a lock, for as long as this session waits for one. Raises LockTimeout."""
        self.query(statement, parameters)

    @abstractmethod
    def read_table(self, name: str) -> TargetTable:
        """Return the columns and primary key of a table. Raises SettingsError when it is not there or cannot take part."""

    def table_identity(self, name: str) -> str:
        """Return server, database and table as the server has them, empty where it does not say which server it is."""
        server = without_timeline(self.server())
        return f"{server}: {self.stored_name(name)}" if server else ""

    @abstractmethod
    def stored_name(self, name: str) -> str:
        """Return a table's whole name as the server has it. Raises SettingsError for one that is not there."""

    @abstractmethod
    def upsert(self, table: TargetTable, rows: pa.RecordBatch) -> None:
        """Write rows by the table's primary key, of equal keys the last; a table without one gets plain inserts."""

    def try_upsert(self, table: TargetTable, no_rows: pa.RecordBatch) -> None:
        """Let the server look at the statement that ``upsert`` would send: it refuses what this user may not do."""
        self.upsert(table, no_rows)

    @abstractmethod
    def take_slot(self, mine: BranchId) -> None:
        """Break off every earlier writer of this prefix that is connected still (frozen, or cut off): it holds its rows.

        The server takes this session for ``mine`` from now on. Raises ZombieWriter when a later attempt has begun to write.
        """

    @abstractmethod
    def start(self, branch: BranchId) -> None:
        """Begin a transaction branch: what follows belongs to it."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the branch; afterwards another connection can finish it, once this one is closed."""

    @abstractmethod
    def undo(self) -> None:
        """Roll back the branch, or the plain transaction, that this session has open."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a plain transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the plain transaction."""

    @abstractmethod
    def server(self) -> str:
        """Return which server answers, as servers.py names it. Raises Unreachable when it is not one that prepares branches."""

    @abstractmethod
    def listing(self) -> tuple[str, list[PreparedBranch]]:
        """Return which server answers, and every prepared branch that this one shows. Raises Unreachable as ``server`` does."""

    def prepared(self) -> list[PreparedBranch]:
        """Return every prepared branch that the server shows. Raises Unreachable as ``server`` does."""
        return self.listing()[1]

    @abstractmethod
    def clock_ms(self) -> int:
        """Return the server's time (epoch ms)."""

    def prepared_elsewhere(self) -> dict[str, int]:
        """Return how many prepared branches the server has in databases that this connection cannot reach, by database."""
        return {}

    def branch_locks(self) -> dict[str, BranchLocks]:
        """Return locks and waiting sessions of each prepared branch, by its name; none where the server does not tell them."""
        return {}

    @abstractmethod
    def commit_prepared(self, transaction: str) -> None:
        """Commit a prepared branch. Raises NoSuchBranch, BranchBusy."""

    @abstractmethod
    def rollback_prepared(self, transaction: str) -> None:
        """Roll back a prepared branch. Raises NoSuchBranch, BranchBusy."""

    def list_again(self, branch: BranchId) -> bool:
        """List a branch of ours again that the server said to have finished, and had not; True: there was one.

        Raises BranchBusy, ResourceManagerError.
        """
        return False

    @contextlib.contextmanager
    def _classified(self, deed: str) -> Iterator[None]:
        """Raise what an error of the driver's means in its place."""
        try:
            yield
        except self._driver_error as error:
            raise self._meaning(error, f"{self.connection.address}: {deed}") from error
        except IndoubtError:
            raise
        except Exception as error:
            raise outside_its_errors(error, f"{self.connection.address}: {deed}") from error

    @abstractmethod
    def _meaning(self, error: Any, where: str) -> IndoubtError:
        """Return what the server's or driver's error means; ``where`` says which database was asked and for what."""

    def _no_table(self, name: str, advice: str = "") -> SettingsError:
        return SettingsError(
            f"there is no table {name!r} for {self.connection.user!r} in {self.connection.address}{advice}"
        )

    @abstractmethod
    def close(self) -> None:
        """Close the connection; an unprepared branch is rolled back by the server. Never raises; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
