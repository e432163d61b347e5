"""Where a pipeline writes: the setting ``sink`` read into targets, and these made into resource managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lifecycle.errors import SettingsError
from resource_managers.database_connection import DatabaseConnection
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.protocol import ResourceManager
from resource_managers.several import ResourceManagers

KAFKA, MYSQL, POSTGRES = "kafka", "mysql", "postgres"
NAMES = (KAFKA, MYSQL, POSTGRES)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SinkTarget:
    """One topic or table, and the resource manager that holds it; empty for one that only finishes what was prepared."""

    resource_manager: str
    target: str

    def __str__(self) -> str:
        return f"{self.resource_manager}:{self.target}"


def read_sinks(text: str) -> tuple[SinkTarget, ...]:
    """Return the targets of ``topic``, ``kafka:topic``, ``mysql:table`` or ``postgres:table``, comma separated, in order.

    Raises SettingsError for an unknown resource manager, an empty name, or two targets in one resource manager.
    """
    found: dict[str, SinkTarget] = {}
    for part in text.split(","):
        name, separator, target = part.strip().partition(":")
        if not separator:
            name, target = KAFKA, name
        if name not in NAMES or not target:
            raise SettingsError(
                f"sink {part.strip()!r} is not understood: give a topic, mysql:TABLE or postgres:TABLE, or several of them, "
                "comma separated"
            )
        if name in found:
            raise SettingsError(
                f"sink names two targets in {name!r} ({found[name].target} and {target}): one transaction has one branch in "
                "each resource manager; give the other one a pipeline of its own"
            )
        found[name] = SinkTarget(resource_manager=name, target=target)
    return tuple(found.values())


def same_sinks(one: str, other: str) -> bool:
    """Say whether two texts name the same targets, in whatever order."""
    return set(read_sinks(one)) == set(read_sinks(other))


def make_resource_managers(
    sinks: Sequence[SinkTarget],
    kafka: KafkaConnection,
    databases: Mapping[str, DatabaseConnection],
    **kafka_settings: Any,
) -> ResourceManagers:
    """Return the resource managers of these sinks, in their order; ``kafka_settings`` go to KafkaResourceManager.

    Raises SettingsError for a database without a connection.
    """
    return ResourceManagers({s.resource_manager: _make(s, kafka, databases, kafka_settings) for s in sinks})


def _make(
    sink: SinkTarget,
    kafka: KafkaConnection,
    databases: Mapping[str, DatabaseConnection],
    kafka_settings: Mapping[str, Any],
) -> ResourceManager:
    # Imported where they are used: a pipeline without a database does without its driver, and planning without all three.
    if sink.resource_manager == KAFKA:
        from resource_managers.kafka import KafkaResourceManager

        return KafkaResourceManager(kafka, topic=sink.target, **kafka_settings)
    if sink.resource_manager not in databases:
        raise SettingsError(
            f"nobody said how to reach {sink.resource_manager!r} (sink {sink}): give {sink.resource_manager}.host, .user and "
            ".database in a file, and name it with --database-properties"
        )
    connection = databases[sink.resource_manager]
    if sink.resource_manager == MYSQL:
        from resource_managers.mysql import MySqlResourceManager

        return MySqlResourceManager(connection, table=sink.target)
    from resource_managers.postgres import PostgresResourceManager

    return PostgresResourceManager(connection, table=sink.target)
