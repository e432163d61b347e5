"""A pipeline's connections to its cluster and its databases, from its settings."""

from __future__ import annotations

from pathlib import Path

from pipeline.config.sink_settings import SinkSettings
from resource_managers.database.connection import DatabaseConnection, read_database_properties
from resource_managers.kafka.connection import KafkaConnection

REACH_LIMIT_S = 30.0


def connect(settings: SinkSettings) -> KafkaConnection:
    """Return the connection with the security properties of the settings' file."""
    if not settings.kafka_properties:
        return KafkaConnection(settings.bootstrap_servers)
    return KafkaConnection.from_properties_file(Path(settings.kafka_properties), settings.bootstrap_servers)


def connect_databases(settings: SinkSettings) -> dict[str, DatabaseConnection]:
    """Return the connections of the settings' file by resource manager, none without a file. Raises SettingsError."""
    return read_database_properties(Path(settings.database_properties)) if settings.database_properties else {}
