"""What one task writes into a database: a branch, or without two-phase commit a local transaction or row by statement."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, ZombieWriter
from indoubt.lifecycle.identity import Fingerprint, Handle
from indoubt.resource_managers.database import markers
from indoubt.resource_managers.database.columns import TargetTable
from indoubt.resource_managers.database.errors import DuplicateKey
from indoubt.resource_managers.database.session import DatabaseSession
from indoubt.resource_managers.protocol import SlotAttempt, nothing

log = logging.getLogger(__name__)


class TableTransaction:
    """What a session has open while one task writes into a table; ``name`` says which it is."""

    def __init__(self, session: DatabaseSession, table: TargetTable, name: str) -> None:
        self._session, self._table, self._name = session, table, name
        self.rows = self.bytes = 0
        self._ended = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Write those columns that the table has. Raises LockTimeout, RecordTooLarge, Unreachable, ResourceManagerError."""
        if rows.num_rows == 0:
            return
        self._session.upsert(self._table, rows)
        self.rows += rows.num_rows
        self.bytes += bytes_for(self._table, rows)

    def abort(self) -> None:
        """Undo it and free the connection; safe to call twice. What cannot be undone now, the server undoes."""
        if self._ended:
            return
        self._ended = True
        try:
            self._session.undo()
        except (ResourceManagerError, SettingsError) as error:
            log.warning("%s was not rolled back by its task: %s", self._name, error)
        self._session.close()


class DatabaseOpenTransaction(TableTransaction):
    """Made by DatabaseResourceManager.begin, which has started the branch."""

    def __init__(self, session: DatabaseSession, slot: SlotAttempt, branch: BranchId, table: TargetTable) -> None:
        super().__init__(session, table, str(branch))
        self._slot, self._branch = slot, branch
        self._opened_at_ms = now_ms()

    @property
    def provisional_handle(self) -> Handle:
        """Return the handle as it stands: not prepared yet, without a fingerprint."""
        return self._handle("")

    def prepare(self, fingerprint: Fingerprint, *, flushed: Callable[[], None] = nothing) -> Handle:
        """Write the marker, prepare, close the connection, return the handle.

        MySQL: as long as the connection is there, no other one can finish the branch. Raises ZombieWriter when the marker
        is there already, ResourceManagerError.
        """
        flushed()
        try:
            markers.insert(self._session, self._slot.marker, self._branch, markers.MarkerState.COMMITTED)
        except DuplicateKey as error:
            raise ZombieWriter(
                f"{self._branch}: its marker is there already, so this batch and attempt was settled without it: {error}"
            ) from error
        self._session.prepare()
        self._session.close()
        self._ended = True
        return self._handle(str(fingerprint))

    def _handle(self, fingerprint: str) -> Handle:
        return Handle(
            resource_manager=self._session.kind,
            transaction=str(self._branch),
            slot=self._slot.slot,
            rows=self.rows,
            bytes=self.bytes,
            fingerprint=fingerprint,
            opened_at_ms=self._opened_at_ms,
            prepared_at_ms=now_ms(),
        )


class LocalTransactionWriter(TableTransaction):
    """at_least_once: a slot's rows are one ordinary transaction, committed in ``finish``, before the checkpoint."""

    def __init__(self, session: DatabaseSession, table: TargetTable) -> None:
        super().__init__(session, table, "a slot's transaction")

    def finish(self) -> None:
        """Commit. Raises ResourceManagerError, after which the rows may be there or not: the batch is written again."""
        self._session.commit()
        self._ended = True
        self._session.close()


class UncheckedWriter:
    """none: every statement commits by itself; what fails is logged and counted in ``failed_rows``, and never raised."""

    def __init__(self, open_session: Callable[[], tuple[DatabaseSession, TargetTable]]) -> None:
        self._open = open_session
        self._opened: tuple[DatabaseSession, TargetTable] | None = None
        self.rows = self.bytes = self.failed_rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, if that can be done."""
        if rows.num_rows == 0:
            return
        try:
            session, table = self._opened = self._opened or self._open()
            session.upsert(table, rows)
        except (ResourceManagerError, SettingsError) as error:
            self.failed_rows += rows.num_rows
            log.warning("%d rows were not written, which the guarantee none allows: %s", rows.num_rows, error)
            self.abort()
            return
        self.rows += rows.num_rows
        self.bytes += bytes_for(table, rows)

    def finish(self) -> None:
        """Free the connection."""
        self.abort()

    def abort(self) -> None:
        """Free the connection; what was written stays."""
        if self._opened is not None:
            self._opened[0].close()
        self._opened = None


def bytes_for(table: TargetTable, rows: pa.RecordBatch) -> int:
    """Return the bytes, in Arrow's layout, of the columns that go to this table."""
    return sum(rows.column(position).nbytes for position, _ in table.takes(rows.schema.names))
