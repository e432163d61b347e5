"""The schema of history: numbered SQL files, applied in order, each in one database transaction with its version.

``migrations/NNNN_<what>.sql`` is never changed once it has landed: what comes later is a new file with the next number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from lifecycle.errors import IndoubtError

DIRECTORY = Path(__file__).with_name("migrations")
_TABLES = "select table_name from duckdb_tables() order by table_name"
_TABLE = "schema_versions"
_VERSION = "select coalesce(max(version), 0) from schema_versions"
_RECORD_VERSION = "insert into schema_versions values (?, ?)"


class UnknownSchema(IndoubtError):
    """A newer or another program wrote the file; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: ``path`` leads from version - 1 to ``version``."""

    version: int
    path: Path


def migrations(directory: Path = DIRECTORY) -> list[Migration]:
    """Return every migration, in order: 1, 2, 3, …"""
    found = [Migration(version=int(path.name[:4]), path=path) for path in sorted(directory.glob("*.sql"))]
    numbers = [migration.version for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations in {directory} are numbered {numbers}; they must count 1, 2, 3, … without a gap")
    return found


def version_of(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the version of a file's schema; 0 for an empty file. Changes nothing. Raises UnknownSchema for another's tables."""
    tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
    if _TABLE in tables:
        return _number(connection, _VERSION)
    if tables:
        raise UnknownSchema(
            f"it is another program's: it has the table {tables[0]} and none of indoubt's. It stays as it is; "
            "give another --directory"
        )
    return 0


def check_known(version: int, known: int) -> None:
    """Return when a program that knows ``known`` can use a file of ``version``. Raises UnknownSchema."""
    if version > known:
        raise UnknownSchema(f"it has schema version {version} and this program knows {known}: use a newer program")


def migrate(connection: duckdb.DuckDBPyConnection, at_ms: int, steps: list[Migration]) -> list[Migration]:
    """Bring a file to the newest schema; return the steps that were applied. Raises UnknownSchema before it changes anything."""
    version = version_of(connection)
    check_known(version, len(steps))
    missing = steps[version:]
    for step in missing:
        connection.begin()
        try:
            connection.execute(step.path.read_text())
            connection.execute(_RECORD_VERSION, [step.version, at_ms])
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
    return missing


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row is not None else 0
