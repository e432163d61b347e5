"""Writing to a database without two-phase commit: at_least_once in one local transaction, none row by statement."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from lifecycle.errors import ResourceManagerError, SettingsError
from resource_managers.database.columns import TargetTable
from resource_managers.database.session import DatabaseSession
from resource_managers.database.transaction import TableTransaction, bytes_for

log = logging.getLogger(__name__)


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
