"""Opens the history file: guarded against a torn write-ahead log, set aside when it is damaged, with the newest schema."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
from duckdb.sqltypes import VARCHAR

from collector.history import schema_migrations, silence_restore, sql
from collector.history.rollups import APPLICATION_FORM
from collector.history.schema_migrations import SchemaTooNew
from collector.history.sidecar_table import TABLES, TableFile
from collector.records.application_ids import form_of
from collector.runtime.clock import now_ms
from lifecycle.errors import IndoubtError

CHECKPOINT_AT = "64MB"
"""A write-ahead log of this size is checkpointed: seldom enough for a flood of events, soon replayed after a kill."""
MEMORY_LIMIT = "512MB"
"""Of DuckDB: a query that needs more writes to disk. Its own default is most of the machine."""
_DAMAGED = ("Corrupt", "checksum", "not a valid DuckDB database file", "Could not read enough bytes")
_DAMAGED_LOG = "Failure while replaying WAL"
log = logging.getLogger(__name__)


class StoreFailed(IndoubtError):
    """History cannot be opened, read or written; the message names the file and the cause."""


class HistoryDamaged(StoreFailed):
    """The file does not hold what was written to it."""


def is_damage(error: Exception) -> bool:
    """Say whether an error of DuckDB means that the file's content is wrong, not that it cannot be reached."""
    return any(sign in str(error) for sign in (*_DAMAGED, _DAMAGED_LOG))


@dataclass(slots=True)
class HistoryFile:
    """The file and what became of it since start."""

    path: Path
    set_aside: list[Path] = field(default_factory=list)
    """Damaged files, by the names that they were given; they are never deleted."""
    beside: dict[str, TableFile] = field(init=False)
    """What is kept beside it too, by table: the audit, and what was ordered."""

    def __post_init__(self) -> None:
        self.beside = {table.name: TableFile(self.path.parent, table) for table in TABLES}

    def open(self) -> duckdb.DuckDBPyConnection:
        """Return the one connection to the file, made where it is missing; a damaged one is set aside first.

        Raises StoreFailed.
        """
        for _ in range(3):  # its write-ahead log may be damaged, then the file itself
            try:
                return self._open()
            except HistoryDamaged as error:
                self.set_damaged_aside(error)
        return self._open()

    def set_damaged_aside(self, error: Exception) -> None:
        """Rename what is damaged, so that a new file begins, which the topics and the audit file fill again.

        Raises StoreFailed when it cannot be renamed.
        """
        write_ahead = self.path.with_name(self.path.name + ".wal")
        # Without its log the file is as it was at its last checkpoint, with the offsets of that moment.
        damaged = [write_ahead] if _DAMAGED_LOG in str(error) else [self.path, write_ahead]
        mark = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        for path in filter(Path.exists, damaged):
            aside = path.with_name(f"{path.name}.damaged-{mark}")
            try:
                path.rename(aside)
            except OSError as failed:
                raise StoreFailed(f"history {path} is damaged and cannot be renamed: {failed}") from failed
            self.set_aside.append(aside)
            log.error("history is damaged: %s. It was set aside as %s and is rebuilt from the topics", error, aside)

    def _open(self) -> duckdb.DuckDBPyConnection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A kill in the middle of a commit leaves a torn write-ahead log that stays until the next write to it, and a commit
            # that skips the log makes it stale, so that the file no longer opens. So: never skip it, write one row, checkpoint.
            settings: dict[str, str | bool | int | float | list[str]] = {
                "auto_checkpoint_skip_wal_threshold": 2**60,
                "checkpoint_threshold": CHECKPOINT_AT,
                "memory_limit": MEMORY_LIMIT,
            }
            connection = duckdb.connect(str(self.path), config=settings)
        except (duckdb.Error, OSError) as error:
            raise self._failed(
                error, "cannot be opened", "One collector owns the file; end the other one, or give another --directory"
            ) from error
        try:
            connection.create_function(APPLICATION_FORM, form_of, [VARCHAR], VARCHAR)
            self._prepare(connection)
        except SchemaTooNew as error:
            connection.close()
            raise StoreFailed(f"history {self.path} cannot be used: {error}") from error
        except (duckdb.Error, OSError) as error:
            connection.close()
            raise self._failed(error, "cannot be made ready", "Look for room on its disk") from error
        return connection

    def _failed(self, error: Exception, what: str, remedy: str) -> StoreFailed:
        if is_damage(error):
            return HistoryDamaged(str(error))
        return StoreFailed(f"history {self.path} {what}: {error}. {remedy}")

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        steps = schema_migrations.migrations()
        version = schema_migrations.version_of(connection)
        schema_migrations.check_known(version, len(steps))
        if version > 0:
            record_opening(connection)
        for step in schema_migrations.migrate(connection, now_ms(), steps):
            if version > 0:
                log.info("history %s: applied %s", self.path, step.path.name)
        if version == 0:
            record_opening(connection)
        given = {table: file.reconcile(connection) for table, file in self.beside.items()}
        silence_restore.rebuild(connection, given["audit"])


def record_opening(connection: duckdb.DuckDBPyConnection) -> None:
    """Write one row and checkpoint. Raises duckdb.Error."""
    connection.execute(sql.RECORD_OPENING, [now_ms()])
    connection.execute("checkpoint")
