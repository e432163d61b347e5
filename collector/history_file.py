"""Opens the history file: guarded against a torn write-ahead log, and brought to the newest schema."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import duckdb

from collector import queries, schema_migrations
from collector.schema_migrations import SchemaTooNew
from lifecycle.errors import IndoubtError

log = logging.getLogger(__name__)


class StoreFailed(IndoubtError):
    """History cannot be opened, read or written; the message names the file and the cause."""


def open_history(path: Path) -> duckdb.DuckDBPyConnection:
    """Return the one connection to the file, made where it is missing. Raises StoreFailed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A kill in the middle of a commit leaves a torn write-ahead log that stays until the next write to it, and a commit
        # that skips the log makes it stale, so that the file no longer opens. So: never skip it, write one row, checkpoint.
        connection = duckdb.connect(str(path), config={"auto_checkpoint_skip_wal_threshold": 2**60})
    except (duckdb.Error, OSError) as error:
        raise StoreFailed(
            f"history {path} cannot be opened: {error}. One collector owns the file; end the other one, or give another --directory"
        ) from error
    try:
        _prepare(connection, path)
    except SchemaTooNew as error:
        connection.close()
        raise StoreFailed(f"history {path} cannot be used: {error}") from error
    except (duckdb.Error, OSError) as error:
        connection.close()
        raise StoreFailed(f"history {path} cannot be brought to the newest schema: {error}") from error
    return connection


def _prepare(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    steps = schema_migrations.migrations()
    version = schema_migrations.version_of(connection)
    schema_migrations.check_known(version, len(steps))
    if version > 0:
        record_opening(connection)
    for step in schema_migrations.migrate(connection, _now_ms(), steps):
        if version > 0:
            log.info("history %s: applied %s", path, step.path.name)
    if version == 0:
        record_opening(connection)


def record_opening(connection: duckdb.DuckDBPyConnection) -> None:
    """Write one row and checkpoint. Raises duckdb.Error."""
    connection.execute(queries.RECORD_OPENING, [_now_ms()])
    connection.execute("checkpoint")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
