"""The databases that the collector was told of: where they are, under which names, and their resource managers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lifecycle.errors import SettingsError
from resource_managers.database_connection import PASSWORD_VARIABLES, DatabaseConnection, read_database_properties
from resource_managers.database_resource_manager import DatabaseResourceManager

OPTION = "--database-properties"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=(?P<file>.+)")
PASSWORDS = frozenset(PASSWORD_VARIABLES.values())
"""Variables that hold passwords: they win over every file."""


def read_databases(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, DatabaseConnection]:
    """Return the connections of ``FILE`` or ``NAME=FILE`` options, by place: ``mysql``, ``postgres``, with a name ``NAME-mysql``.

    Raises SettingsError for a file that cannot be read, two databases of one name, and one database given twice.
    """
    found: dict[str, DatabaseConnection] = {}
    addresses: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        prefix, file = (f"{named['name']}-", named["file"]) if named else ("", text)
        for kind, connection in read_database_properties(Path(file), environment).items():
            place = f"{prefix}{kind}"
            if place in found:
                raise SettingsError(
                    f"{OPTION} {text}: there is a database {place!r} already; write NAME=FILE to tell them apart"
                )
            if connection.address in addresses:
                raise SettingsError(
                    f"{OPTION} {text}: {connection.address} is {addresses[connection.address]!r} already"
                )
            found[place], addresses[connection.address] = connection, place
    return found


def managers(connections: Mapping[str, DatabaseConnection]) -> dict[str, DatabaseResourceManager]:
    """Return the resource manager of each database, by place."""
    return {place: _manager(connection) for place, connection in connections.items()}


def _manager(connection: DatabaseConnection) -> DatabaseResourceManager:
    # A driver is loaded where its database is watched: both together take 12 MiB.
    if connection.kind == "mysql":
        from resource_managers.mysql import MySqlResourceManager

        return MySqlResourceManager(connection)
    from resource_managers.postgres import PostgresResourceManager

    return PostgresResourceManager(connection)


def listing_places(connections: Mapping[str, DatabaseConnection]) -> frozenset[str]:
    """Return the places whose list of prepared branches is read: one for each MySQL server, which lists all its databases'."""
    first: dict[tuple[str, ...], str] = {}
    for place, connection in connections.items():
        one = () if connection.kind == "mysql" else (connection.database,)
        first.setdefault((connection.kind, connection.host, str(connection.port), *one), place)
    return frozenset(first.values())
