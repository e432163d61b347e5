"""Where a pipeline writes: the setting ``sink`` read into targets, and these made into resource managers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lifecycle.errors import SettingsError
from lifecycle.resource_manager_kinds import KAFKA as KAFKA_KIND
from lifecycle.resource_manager_kinds import KINDS, kind_named
from resource_managers.database.connection import DatabaseConnection
from resource_managers.global_transaction import ResourceManagers
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.registry import make_resource_manager

KAFKA = KAFKA_KIND.name


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
        kind_named(name, f"sink {part.strip()!r}")
        if not target:
            forms = ", ".join(f"{kind.name}:{'TABLE' if kind.is_database else 'TOPIC'}" for kind in KINDS.values())
            raise SettingsError(
                f"sink {part.strip()!r} is not understood: give a topic or one of {forms}, or several, comma separated"
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

    Raises SettingsError for an unknown resource manager and for a database without a connection.
    """
    return ResourceManagers(
        {
            sink.resource_manager: make_resource_manager(
                sink.resource_manager, sink.target, kafka, databases, kafka_settings
            )
            for sink in sinks
        }
    )
