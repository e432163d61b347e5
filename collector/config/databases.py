"""The configured databases, and directories of files sinks: where they are, and under which names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import DATABASES, FILES
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.database.connection import DatabaseConnection, read_database_properties
from indoubt.resource_managers.database.watched import WatchedResourceManager
from indoubt.resource_managers.registry import implementation

OPTION, FILES_OPTION = "--database-properties", "--files"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=(?P<where>.+)")
Value = TypeVar("Value")


def read_databases(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, DatabaseConnection]:
    """Return the connections of ``FILE`` or ``NAME=FILE`` options by instance: ``mysql``, ``postgres``, or ``NAME-mysql``.

    Raises SettingsError for a file that cannot be read, two databases of one name, and one database given twice.
    """

    def read(file: str) -> list[tuple[str, DatabaseConnection, str]]:
        found = read_database_properties(Path(file), environment)
        return [(kind, connection, connection.address) for kind, connection in found.items()]

    return _by_instance(OPTION, "database", "NAME=FILE", given, read)


def read_files(given: Sequence[str]) -> dict[str, str]:
    """Return path or URI of ``DIR`` or ``NAME=DIR`` options by instance: ``files``, or ``NAME-files``.

    Raises SettingsError for two directories of one name, and one directory given twice.
    """

    def read(where: str) -> list[tuple[str, str, str]]:
        return [(FILES.name, where, CheckpointLocation.read(where, what=f"{FILES_OPTION} directory").uri)]

    return _by_instance(FILES_OPTION, "directory", "NAME=DIR", given, read)


def _by_instance(
    option: str, what: str, takes: str, given: Sequence[str], read: Callable[[str], Iterable[tuple[str, Value, str]]]
) -> dict[str, Value]:
    """Return what ``read`` makes of each option, kind, value and place, by the instance's name."""
    found: dict[str, Value] = {}
    places: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        prefix, where = (f"{named['name']}-", named["where"]) if named else ("", text)
        for kind, value, place in read(where):
            instance = f"{prefix}{kind}"
            if instance in found:
                raise SettingsError(
                    f"{option} {text}: there is a {what} {instance!r} already; write {takes} to tell them apart"
                )
            if place in places:
                raise SettingsError(f"{option} {text}: {place} is {places[place]!r} already")
            found[instance], places[place] = value, instance
    return found


def file_managers(directories: Mapping[str, str]) -> dict[str, WatchedResourceManager]:
    """Return the resource manager of each directory, by instance. Without any, what writes files is not loaded."""
    return {instance: implementation(FILES)(where) for instance, where in directories.items()}


def listing_instances(connections: Mapping[str, DatabaseConnection]) -> frozenset[str]:
    """Return the instances whose list of prepared branches is read: one for each server that lists all its databases'."""
    first: dict[tuple[str, ...], str] = {}
    for instance, connection in connections.items():
        database = () if DATABASES[connection.kind].lists_whole_server else (connection.database,)
        first.setdefault((connection.kind, connection.host, str(connection.port), *database), instance)
    return frozenset(first.values())
