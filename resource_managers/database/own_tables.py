"""The tables that indoubt keeps in a target database: made when they are missing, or the error holds their SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indoubt.lifecycle.errors import ResourceManagerError, SettingsError, Unreachable
from indoubt.resource_managers.database.session import DatabaseSession


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTable:
    """A table of our own: the SQL that makes it (harmless when it is there), and one that fails unless it is as it must be."""

    name: str
    create: tuple[str, ...]
    probe: str


def require(session: DatabaseSession, tables: Sequence[OwnTable]) -> None:
    """Return when all of the tables are there and fit; make those that are missing. Raises SettingsError with their SQL."""
    for table in tables:
        if not _fits(session, table):
            _create(session, table, tables)


def _create(session: DatabaseSession, table: OwnTable, tables: Sequence[OwnTable]) -> None:
    first, *rest = table.create
    try:
        session.change(first)
    except Unreachable:
        raise
    except (ResourceManagerError, SettingsError) as error:
        if _fits(session, table):
            # Another process made it at the same moment, which PostgreSQL answers with an error all the same.
            return
        raise SettingsError(
            f"{session.connection.address} has no table {table.name!r} that {session.connection.user!r} may use, and it "
            f"could not be created ({error}). Run this as a user who may, and grant select, insert, update and delete "
            f"on it to {session.connection.user!r}:\n{create_statements(tables)}"
        ) from error
    if not _fits(session, table):
        raise SettingsError(
            f"table {table.name!r} in {session.connection.address} is not what this version needs: drop it when no "
            f"transaction is in doubt, and run:\n{create_statements(tables)}"
        )
    for statement in rest:
        session.change(statement)


def create_statements(tables: Sequence[OwnTable]) -> str:
    """Return the SQL that makes the tables, for people to run."""
    return "\n".join(f"{statement};" for table in tables for statement in table.create)


def _fits(session: DatabaseSession, table: OwnTable) -> bool:
    try:
        session.query(table.probe)
    except Unreachable:
        raise
    except (ResourceManagerError, SettingsError):
        return False
    return True
