"""A copy of history while it is written: whole, as at one moment. To restore it, put it in history's place (docs/history.md)."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import duckdb

_ATTACH = "attach '{path}' as backup (storage_version 'latest')"
_COPY = "copy from database {name} to backup"
_DETACH = "detach backup"
_NAME = "select current_database()"


def path_for(directory: Path, moment: datetime) -> Path:
    """Return where a backup of that moment stands."""
    return directory / f"history-{moment.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}.duckdb"


def write(cursor: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Copy the database of ``cursor`` into a new file; it has its name only once it is whole.

    Copying the file itself would drop the lock on it and could catch it in the middle of a write. Raises duckdb.Error, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    (name,) = cursor.execute(_NAME).fetchone() or ("",)
    attach = _ATTACH.format(path=str(unfinished).replace("'", "''"))
    copy = _COPY.format(name='"' + str(name).replace('"', '""') + '"')
    cursor.execute(attach)
    try:
        cursor.execute(copy)
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            cursor.execute(_DETACH)
        unfinished.unlink(missing_ok=True)
        raise
    cursor.execute(_DETACH)
    unfinished.chmod(0o600)
    unfinished.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
