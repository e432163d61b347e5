"""The configured databases: where they are, and under which names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import DATABASES
from indoubt.resource_managers.database.connection import DatabaseConnection, read_database_properties

OPTION = "--database-properties"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=(?P<file>.+)")


def read_databases(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, DatabaseConnection]:
    """Return the connections of ``FILE`` or ``NAME=FILE`` options by instance: ``mysql``, ``postgres``, or ``NAME-mysql``.

    Raises SettingsError for a file that cannot be read, two databases of one name, and one database given twice.
    """
    found: dict[str, DatabaseConnection] = {}
    addresses: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        prefix, file = (f"{named['name']}-", named["file"]) if named else ("", text)
        for kind, connection in read_database_properties(Path(file), environment).items():
            instance = f"{prefix}{kind}"
            if instance in found:
                raise SettingsError(
                    f"{OPTION} {text}: there is a database {instance!r} already; write NAME=FILE to tell them apart"
                )
            if connection.address in addresses:
                raise SettingsError(
                    f"{OPTION} {text}: {connection.address} is {addresses[connection.address]!r} already"
                )
            found[instance], addresses[connection.address] = connection, instance
    return found


def listing_instances(connections: Mapping[str, DatabaseConnection]) -> frozenset[str]:
    """Return the instances whose list of prepared branches is read: one for each server that lists all its databases'."""
    first: dict[tuple[str, ...], str] = {}
    for instance, connection in connections.items():
        database = () if DATABASES[connection.kind].lists_whole_server else (connection.database,)
        first.setdefault((connection.kind, connection.host, str(connection.port), *database), instance)
    return frozenset(first.values())
