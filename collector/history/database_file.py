"""Opens the history file: guarded against a torn write-ahead log, set aside when it is damaged, refused with another schema."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from duckdb.sqltypes import VARCHAR

from indoubt.collector.history import alert_sql, sql
from indoubt.collector.history.rollups import APPLICATION_FORM
from indoubt.collector.history.sidecar_table import AUDIT, TABLES, TableFile
from indoubt.collector.records.application_ids import form_of
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.errors import IndoubtError


def _statements(script: str) -> str:
    """Return SQL without its comments and line ends."""
    return " ".join(line.partition("--")[0].strip() for line in script.splitlines())


SCHEMA = Path(__file__).with_name("schema.sql")
CONTENT_VERSION = 1
"""Counted up when columns hold something else than before."""
SCHEMA_VERSION = zlib.crc32(f"{CONTENT_VERSION} {_statements(SCHEMA.read_text())}".encode()) >> 1
"""Changes with each change of schema.sql, but for its comments: a file of another version is refused."""
CHECKPOINT_AT = "64MB"
"""A write-ahead log of this size is checkpointed: seldom enough for a flood of events, soon replayed after a kill."""
MEMORY_LIMIT = "512MB"
"""Of DuckDB: a query that needs more writes to disk. Its own default is most of the machine."""
_DAMAGED = (
    "corrupt",
    "checksum",
    "could not read enough bytes",
    "does not match the database file",
    "does not match database file",
)
"""What DuckDB says, in lower case, of a file or a write-ahead log that does not hold what was written to it.

Replaying a log fails for other reasons too (no memory, a full disk, a newer log): then the log is good, and stays.
"""
_DAMAGED_LOG = "Failure while replaying WAL"
_MAGIC_AT, _MAGIC = 8, b"DUCK"
_TABLES = "select table_name from duckdb_tables() order by table_name"
_VERSION_TABLE = "schema_version"
_VERSION = "select version from schema_version"
_RECORD_VERSION = "insert into schema_version values (?)"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # A kill in the middle of a commit leaves a torn write-ahead log that stays until the next write to it, and a commit
    # that skips the log makes it stale, so that the file no longer opens. So: never skip it, write one row, checkpoint.
    "auto_checkpoint_skip_wal_threshold": 2**60,
    "checkpoint_threshold": CHECKPOINT_AT,
    "memory_limit": MEMORY_LIMIT,
    # For a file of another program's DuckDB would fetch one from the internet.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_SILENCE, _END_SILENCE = "silence", "end silence"
"""What the audit calls the orders that make and end one."""
log = logging.getLogger(__name__)


class StoreFailed(IndoubtError):
    """History cannot be opened, read or written; the message names the file and the cause."""


class HistoryDamaged(StoreFailed):
    """The file does not hold what was written to it."""


class _OtherSchema(IndoubtError):
    """Another version of this program, or another program, wrote the file; the message says which."""


def is_damage(error: Exception) -> bool:
    """Say whether an error of DuckDB means that the file's content is wrong, not that it cannot be reached."""
    text = str(error).lower()
    return any(sign in text for sign in _DAMAGED)


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
        # Without its log the file is as it was at its last checkpoint, with the offsets of that moment.
        is_log = _DAMAGED_LOG in str(error)
        damaged = [self._write_ahead] if is_log else [self.path, self._write_ahead]
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
            self._check_is_ours()
            connection = duckdb.connect(str(self.path), config=SETTINGS)
        except (duckdb.Error, OSError) as error:
            raise self._failed(error, "cannot be opened", _remedy(error)) from error
        try:
            connection.create_function(APPLICATION_FORM, form_of, [VARCHAR], VARCHAR)
            self._prepare(connection)
        except _OtherSchema as error:
            connection.close()
            raise StoreFailed(f"history {self.path} cannot be used: {error}") from error
        except (duckdb.Error, OSError) as error:
            connection.close()
            raise self._failed(error, "cannot be made ready", "Look for room on its disk") from error
        return connection

    def _check_is_ours(self) -> None:
        """Return if the file is missing or a database of DuckDB. Raises HistoryDamaged where one was, else StoreFailed, OSError.

        One was where the file is empty or its beginning is nothing but zeros, and where a history left files beside it.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            start = file.read(_MAGIC_AT + len(_MAGIC))
        if start[_MAGIC_AT:] == _MAGIC:
            return
        if not start.strip(b"\0") or any(path.exists() for path in self._left_beside()):
            raise HistoryDamaged(f"history {self.path} does not begin as a database of DuckDB does")
        raise StoreFailed(
            f"history {self.path} is another program's file: it is no database of DuckDB, and nothing beside it tells of a "
            "history. It stays as it is; give another --directory, or move the file away"
        )

    def _left_beside(self) -> list[Path]:
        return [self._write_ahead, *(table.path for table in self.beside.values())]

    @property
    def _write_ahead(self) -> Path:
        return self.path.with_name(self.path.name + ".wal")

    def _failed(self, error: Exception, what: str, remedy: str) -> StoreFailed:
        if is_damage(error):
            return HistoryDamaged(str(error))
        return StoreFailed(f"history {self.path} {what}: {error}. {remedy}")

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        if _is_empty(connection):
            _make_schema(connection)
        record_opening(connection)
        given = {table: file.reconcile(connection) for table, file in self.beside.items()}
        _rebuild_silences(connection, given["audit"])


def _remedy(error: Exception) -> str:
    text = str(error)
    if "newer version of DuckDB" in text or "Failed to read WAL of version" in text:
        return "It stays as it is: use the newer indoubt that wrote it, or give another --directory"
    if _DAMAGED_LOG in text:
        return "It stays as it is, and so does its write-ahead log: look for room on its disk, and start again"
    return "One collector owns the file; end the other one, or give another --directory"


def _is_empty(connection: duckdb.DuckDBPyConnection) -> bool:
    """Say whether a file has no tables yet; changes nothing. Raises _OtherSchema where its tables are not those of SCHEMA."""
    tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    if not tables:
        return True
    if _VERSION_TABLE not in tables:
        raise _OtherSchema(
            f"it is another program's: it has the table {tables[0]} and none of indoubt's. It stays as it is; "
            "give another --directory"
        )
    versions = [version for (version,) in connection.execute(_VERSION).fetchall()]
    if versions != [SCHEMA_VERSION]:
        found = ", ".join(map(str, versions)) or "none"
        raise _OtherSchema(
            f"it has schema version {found} and this program knows {SCHEMA_VERSION}. It stays as it is: use the version of "
            "indoubt that wrote it, or move the file and its .wal away; a new one is then filled from the topics, and from "
            "the .jsonl files beside it"
        )
    return False


def _make_schema(connection: duckdb.DuckDBPyConnection) -> None:
    connection.begin()
    connection.execute(SCHEMA.read_text())
    connection.execute(_RECORD_VERSION, [SCHEMA_VERSION])
    connection.commit()


def record_opening(connection: duckdb.DuckDBPyConnection) -> None:
    """Write one row and checkpoint. Raises duckdb.Error."""
    connection.execute(sql.RECORD_OPENING, [now_ms()])
    connection.execute("checkpoint")


def _rebuild_silences(connection: duckdb.DuckDBPyConnection, rows: Iterable[Sequence[Any]]) -> None:
    """Make and end the silences that these audit rows tell of, in their order. Raises duckdb.Error.

    A history that starts over has its rows from the audit file. ``rows``: columns as in history, oldest first. One that cannot be
    read is reported and passed over.
    """
    for row in rows:
        fields = dict(zip(AUDIT.columns, row, strict=True))
        if fields["action"] not in (_SILENCE, _END_SILENCE) or fields["outcome"] != "accepted":
            continue
        try:
            number = int(json.loads(fields["keys"])[0].partition(":")[2])
            evidence = json.loads(fields["evidence"])[0]
            matchers, ends_ms = json.dumps(evidence["matchers"]), int(evidence["ends_at_ms"])
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            log.warning("audit row %s tells no silence that can be read", fields["audit"])
            continue
        if fields["action"] == _END_SILENCE:
            connection.execute(alert_sql.END_SILENCE, [ends_ms, number])
        else:
            silence = [number, matchers, fields["reason"], fields["who"], fields["at_ms"], ends_ms]
            connection.execute(alert_sql.KEEP_SILENCE, silence)
