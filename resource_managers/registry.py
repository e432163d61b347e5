"""Makes a resource manager of any kind from its entry in lifecycle/resource_manager_kinds.py.

A client library is loaded when its kind is asked for: a process without a database does without its driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import DATABASES, FILES, ResourceManagerKind, kind_named
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.protocol import ResourceManager

if TYPE_CHECKING:
    from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager


def implementation(kind: ResourceManagerKind) -> type[Any]:
    """Return the class of this kind; loads its client library."""
    module, _, name = kind.implementation.partition(":")
    return cast(type[Any], getattr(import_module(f".{module}", __package__), name))


def make_resource_manager(
    name: str,
    target: str,
    kafka: KafkaConnection,
    databases: Mapping[str, DatabaseConnection],
    kafka_settings: Mapping[str, Any],
    files: FilesAccess | None = None,
) -> ResourceManager:
    """Return the resource manager of this name for one topic, table or directory (empty: it only finishes what was prepared).

    Raises SettingsError for an unknown name, and for a database without a connection.
    """
    kind = kind_named(name, f"sink {name}:{target}")
    if kind is FILES:
        return cast(ResourceManager, implementation(kind)(target, files))
    if not kind.is_database:
        return cast(ResourceManager, implementation(kind)(kafka, topic=target, **kafka_settings))
    if name not in databases:
        raise SettingsError(
            f"no setting says how to reach {name!r} (sink {name}:{target}): give {name}.host, .user and .database in a file, and "
            "name it with --database-properties"
        )
    return make_database_resource_manager(databases[name], table=target)


def make_database_resource_manager(connection: DatabaseConnection, *, table: str = "") -> DatabaseResourceManager:
    """Return the resource manager of one database; ``table`` is where it writes. Raises SettingsError for an unknown kind."""
    kind = kind_named(connection.kind, f"database {connection.database} at {connection.host}", DATABASES)
    return cast("DatabaseResourceManager", implementation(kind)(connection, table=table))
