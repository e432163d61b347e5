"""A database as a resource manager: begin on executors; check, commit, roll back and recover by name from any process."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Self

import pyarrow as pa

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import SettingsError, Unreachable, ZombieWriter
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.outcomes import CommitOutcome, RollbackOutcome
from indoubt.resource_managers.database import markers as database_markers
from indoubt.resource_managers.database import own_tables, settlement
from indoubt.resource_managers.database.branches import BranchWatch
from indoubt.resource_managers.database.columns import TargetTable
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.own_tables import OwnTable
from indoubt.resource_managers.database.session import STATEMENT_LIMIT_S, DatabaseSession, PreparedBranch
from indoubt.resource_managers.database.transaction import (
    DatabaseOpenTransaction,
    LocalTransactionWriter,
    UncheckedWriter,
)
from indoubt.resource_managers.protocol import OpenTransactionView, PlainWriter, Readiness, SlotAttempt, listed

log = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 10.0
TOMBSTONE_WAIT_S = 2.0
"""How long settling waits for a locked row at a time; it asks again until its own limit."""
ORPHAN_LIMIT_S = 5.0
WATCH_LIMIT_S = 5.0
"""A database that does not answer a look for longer, its locks included, counts as down."""


class DatabaseResourceManager(ABC):
    """What MySQL and PostgreSQL share. Thread-safe: it keeps no state but its settings; each call has its own connection.

    ``table`` is needed to begin and to verify; what was prepared can be settled without.
    """

    name: str
    _own_tables: Sequence[OwnTable]

    def __init__(
        self, connection: DatabaseConnection, *, table: str = "", lock_timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        if connection.kind != self.name:
            raise SettingsError(f"a connection to {connection.kind} was given to the resource manager {self.name!r}")
        self._connection, self._table, self._lock_timeout_s = connection, table, lock_timeout_s
        self._server = ""

    def at(self, server: str) -> Self:
        """Return one that settles branches at this very server (servers.py), whichever the address leads to; empty: at any."""
        bound = copy.copy(self)
        bound._server = server
        return bound

    @abstractmethod
    def _open(self, *, lock_timeout_s: float, limit_s: float = STATEMENT_LIMIT_S) -> DatabaseSession:
        """Return a new connection. Raises Unreachable, SettingsError."""

    @abstractmethod
    def _verify_server(self, session: DatabaseSession) -> None:
        """Return when the server can keep prepared transactions for this user. Raises SettingsError."""

    def verify(self, columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
        """Return which of these columns the table takes, when a pipeline can run on this database. Makes our own tables.

        Raises SettingsError for what a restart will not mend, Unreachable.
        """
        with self._open(lock_timeout_s=self._lock_timeout_s) as session:
            self._verify_server(session)
            own_tables.require(session, self._own_tables)
            table = session.read_table(self._required_table())
            taken = table.check(columns)
            session.try_upsert(table, _no_rows(columns))
            return taken

    def identity(self) -> str:
        """Return server, database and table as the server has them, empty where it does not say which server it is.

        Raises SettingsError, Unreachable.
        """
        with self._open(lock_timeout_s=self._lock_timeout_s) as session:
            return session.table_identity(self._required_table())

    def begin(self, slot: SlotAttempt) -> DatabaseOpenTransaction:
        """Prove that this attempt was not superseded, end what earlier ones left open or prepared, and start a branch.

        Raises ZombieWriter when the slot's marker is at this (batch, attempt) or beyond, or a later attempt has begun to
        write, DecisionMissing when it has committed this batch and the log does not say so; SettingsError, LockTimeout,
        Unreachable.
        """
        branch = BranchId.new(prefix=slot.prefix, batch=slot.marker.batch, attempt=slot.marker.attempt, slot=slot.slot)
        session = self._open(lock_timeout_s=self._lock_timeout_s)
        try:
            found = database_markers.newest(session, slot.marker.checkpoint_id, slot.slot)
            if found is not None and found.covers(slot.marker):
                raise ZombieWriter(
                    f"slot {slot.slot} of {slot.prefix!r} has a marker of batch {found.batch}, attempt {found.attempt}: this "
                    f"task (batch {slot.marker.batch}, attempt {slot.marker.attempt}) was superseded"
                )
            if found is not None and found.batch == slot.marker.batch:
                for attempt in database_markers.committed_attempts(session, slot.marker, slot.slot):
                    slot.require_decided(attempt, self.name)
            session.take_slot(branch)
            self._roll_back_orphans(session, branch)
            database_markers.note_run(session, slot.marker, found)
            if found is not None:
                database_markers.prune(session, found, slot.marker, slot.slot)
            table = session.read_table(self._required_table())
            session.start(branch)
        except BaseException:
            session.close()
            raise
        return DatabaseOpenTransaction(session, slot, branch, table)

    def _roll_back_orphans(self, session: DatabaseSession, mine: BranchId) -> None:
        """Roll back what earlier writers left prepared and no decision lists: its rows would block this one's."""
        orphans = [
            branch.transaction
            for branch in session.prepared()
            if (found := BranchId.parse(branch.transaction)) and found.is_superseded_by(mine)
        ]
        for orphan, error in zip(orphans, self._end(orphans, ORPHAN_LIMIT_S), strict=True):
            log.warning("%s, which an earlier attempt left prepared: %s", orphan, error or "rolled back")

    def begin_without_transaction(self, guarantee: DeliveryGuarantee) -> PlainWriter:
        """Return a writer for at_least_once or none. Raises ResourceManagerError, SettingsError (none: never)."""
        if guarantee is DeliveryGuarantee.NONE:
            return UncheckedWriter(self._open_with_table)
        session, table = self._open_with_table()
        session.begin()
        return LocalTransactionWriter(session, table)

    def _open_with_table(self) -> tuple[DatabaseSession, TargetTable]:
        session = self._open(lock_timeout_s=self._lock_timeout_s)
        try:
            return session, session.read_table(self._required_table())
        except BaseException:
            session.close()
            raise

    def check(self, handles: Sequence[Handle]) -> list[Readiness]:
        """Say for each handle, in order, whether the server lists its branch. Raises Unreachable."""
        if not handles:
            return []
        with self._open(lock_timeout_s=self._lock_timeout_s) as session:
            prepared = {branch.transaction for branch in session.prepared()}
            return listed(handles, prepared, f"{session.branch_table} does not list it: it was rolled back")

    def commit(self, handles: Sequence[Handle], markers: Sequence[Marker], limit_s: float) -> list[CommitOutcome]:
        """Commit prepared branches, a few at a time; one outcome per handle, in order. ``markers``: the proofs inside them.

        Lost is said only after a tombstone was put in the marker's place. What has no answer in ``limit_s`` is RetryLater.
        """
        return settlement.each(
            list(zip(handles, markers, strict=True)),
            limit_s,
            self._open_to_settle,
            settlement.commit,
            lambda decided, reason: settlement.retry_later(decided[0], reason),
        )

    def commit_listed(self, handles: Sequence[Handle], limit_s: float) -> list[CommitOutcome]:
        """Commit those of these decided branches that the server has; of the others, in order, say what their markers prove.

        Writes nothing of its own, unlike ``commit``: safe where it is not certain that this is their server.
        """
        return settlement.each(handles, limit_s, self._open_to_settle, settlement.commit_listed, settlement.retry_later)

    def watch(self, limit_s: float) -> BranchWatch:
        """Return what looks at the server's prepared branches and changes nothing; no answer is waited for longer."""
        return BranchWatch(partial(self._open, lock_timeout_s=limit_s, limit_s=limit_s))

    def rollback(self, handles: Sequence[Handle], limit_s: float) -> list[RollbackOutcome]:
        """Roll back exactly these branches; one outcome per handle, in order."""
        return settlement.each(handles, limit_s, self._open_to_settle, settlement.roll_back, settlement.retry_later)

    def recover(self, prefix: str) -> list[OpenTransactionView]:
        """Return the branches that this prefix left prepared, ids parsed whole."""
        return [
            view
            for view in self.list_transactions()
            if (parsed := BranchId.parse(view.transaction)) and parsed.prefix == prefix
        ]

    def fence(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Roll back prepared branches, ours or foreign; return an error text per transaction, empty = done."""
        return self._end([view.transaction for view in transactions], limit_s)

    def commit_open(self, transactions: Sequence[OpenTransactionView], limit_s: float) -> list[str]:
        """Commit prepared branches of others; return an error text per transaction, empty = it is committed.

        The caller knows that their owner counts them as written.
        """
        names = [view.transaction for view in transactions]
        return settlement.each(names, limit_s, self._open_to_settle, settlement.commit_foreign, settlement.still_open)

    def _end(self, transactions: Sequence[str], limit_s: float) -> list[str]:
        return settlement.each(transactions, limit_s, self._open_to_settle, settlement.fence, settlement.still_open)

    def list_transactions(self) -> list[OpenTransactionView]:
        """Return every prepared branch that the server shows (MySQL: of all databases), ours and foreign."""
        with self._open(lock_timeout_s=self._lock_timeout_s) as session:
            return [self._view(branch) for branch in session.prepared()]

    def _view(self, branch: PreparedBranch) -> OpenTransactionView:
        return OpenTransactionView(
            resource_manager=self.name,
            transaction=branch.transaction,
            state="Prepared",
            started_at_ms=branch.prepared_at_ms,
        )

    def _open_to_settle(self, limit_s: float) -> DatabaseSession:
        # A locked row is told by the server before the answer counts as missing.
        session = self._open(lock_timeout_s=min(TOMBSTONE_WAIT_S, limit_s), limit_s=limit_s + TOMBSTONE_WAIT_S)
        try:
            if self._server and (found := session.server()) != self._server:
                raise Unreachable(
                    f"{self._connection.address}: {found or 'a server without a name'} answers, and {self._server} listed the "
                    "branch: nothing was sent"
                )
        except BaseException:
            session.close()
            raise
        return session

    def _required_table(self) -> str:
        if not self._table:
            raise SettingsError(f"no table is named for the sink {self.name!r}: write it as {self.name}:<table>")
        return self._table


def _no_rows(columns: Sequence[tuple[str, pa.DataType]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], type_) for _, type_ in columns], [name for name, _ in columns])
