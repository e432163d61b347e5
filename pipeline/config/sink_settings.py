"""The settings of the sink: what it takes in whatever job it writes for. Typed, checked once at start, in docs/settings.md.

The setting ``sink`` is read into targets, and these are made into resource managers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import check_prefix
from indoubt.lifecycle.resource_manager_kinds import DATABASES, FILES, KINDS, kind_named
from indoubt.lifecycle.resource_manager_kinds import KAFKA as KAFKA_KIND
from indoubt.resource_managers.database.connection import DatabaseConnection, read_database_properties
from indoubt.resource_managers.files.access import PARQUET, FilesAccess
from indoubt.resource_managers.global_transaction import ResourceManagers
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.registry import make_resource_manager

APPEND, UPDATE = "append", "update"
COMMIT_MARGIN_MS = 2_000
"""A batch is not decided when one of its transactions has less time left."""
REACH_LIMIT_S = 30.0
KAFKA = KAFKA_KIND.name


def setting(help_: str, **options: Any) -> Any:
    """Return the field of a setting; ``help_`` is its line on the command line."""
    return field(metadata={"help": help_}, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """Where a query writes, and how its transactions are kept in order."""

    bootstrap_servers: str = setting("Kafka brokers, host:port, comma separated")
    checkpoint: str = setting(
        "checkpoint directory, a path or a URI (file, s3a, hdfs, gs, abfss); kept when the pipeline ends, never shared between "
        "pipelines"
    )
    prefix: str = setting("transactional id prefix; one pipeline each")
    sink: str = setting(
        f"where to write: a topic{''.join(f', {kind.name}:{kind.target}' for kind in KINDS.values() if kind is not KAFKA_KIND)}; "
        "several of them, comma separated, are written in one transaction"
    )
    kafka_properties: str = setting(
        "file of librdkafka properties (key=value lines) with security settings, for all Kafka clients", default=""
    )
    database_properties: str = setting(
        "file that says how to reach the databases of the sink (mysql.host=, postgres.user=, ... lines)", default=""
    )
    files_format: str = setting("format of the files of a sink files:DIRECTORY: parquet or jsonl", default=PARQUET)
    files_partition_by: str = setting(
        "columns by whose values files are put into directories (day=2026-11-30), comma separated; empty: none",
        default="",
    )
    delivery_guarantee: str = setting("exactly_once, at_least_once or none", default="exactly_once")
    transaction_timeout_ms: int = setting(
        "after this long the broker aborts an open transaction; at most the broker's transaction.max.timeout.ms",
        default=60_000,
    )
    trigger_interval_ms: int = setting("time between checkpoints; 0: as fast as they go", default=5_000)
    sweep_interval_ms: int = setting(
        "how often the pipeline searches for transactions without an owner", default=30_000
    )
    decisions_topic: str = setting(
        "topic of the decision log; made if it is missing, and refused if it forgets by itself",
        default="transaction_decisions",
    )
    decisions_replication_factor: int = setting(
        "copies of the decision log's topic when the pipeline makes it; -1: as many as the brokers give by default",
        default=-1,
    )
    decisions_min_insync_replicas: int = setting(
        "how many of these must have a record before it counts as written, when the pipeline makes the topic; -1: the "
        "brokers' default",
        default=-1,
    )
    decisions_keep_days: int = setting("records of the decision log that are older and settled are deleted", default=30)
    decisions_snapshot_interval_ms: int = setting(
        "how often a snapshot is written into the decision log, at which readers start", default=3_600_000
    )
    lifecycle_topic: str = setting(
        "topic of the lifecycle events; empty: none are sent", default="transaction_lifecycle"
    )
    producer_properties: str = setting(
        "how the sink's producers send, key=value, comma separated: batch.size, message.max.bytes, compression.type",
        default="",
    )
    spark_properties: str = setting("more Spark properties, key=value, comma separated", default="")

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        DeliveryGuarantee.parse(self.delivery_guarantee)
        for name in ("bootstrap_servers", "checkpoint", "sink"):
            if not getattr(self, name):
                raise SettingsError(f"{name} is empty: give it with {flag(name)}")
        names = [sink.resource_manager for sink in read_sinks(self.sink)]
        files_access(self)
        if set(names) & DATABASES.keys() and not self.database_properties:
            raise SettingsError(
                f"sink {self.sink!r} names a database: say in a file how to reach it, and name the file with "
                "--database-properties"
            )
        for name in names:
            KINDS[name].check_prefix(self.prefix)
        if self.transaction_timeout_ms <= COMMIT_MARGIN_MS:
            raise SettingsError(
                f"transaction_timeout_ms is {self.transaction_timeout_ms}; it takes more than {COMMIT_MARGIN_MS}: a batch "
                "is not decided with less time left"
            )
        self._require_positive("sweep_interval_ms")
        for name in ("decisions_replication_factor", "decisions_min_insync_replicas"):
            if getattr(self, name) != -1 and getattr(self, name) < 1:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}; it takes 1 or more, or -1 for the brokers' default"
                )
        for name in ("decisions_keep_days", "decisions_snapshot_interval_ms"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must not be negative")
        if pairs(self.spark_properties).get("spark.speculation", "").lower() == "true":
            raise SettingsError(
                "spark.speculation is on: two attempts of one task would share a transactional id and fence each other; "
                "turn it off"
            )

    def _require_positive(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be positive")

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """Return the delivery guarantee."""
        return DeliveryGuarantee.parse(self.delivery_guarantee)

    @classmethod
    def read(cls, values: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Self:
        """Return the settings with each value turned into its type. Raises SettingsError naming the setting.

        ``origins``: where a setting stands that is not a flag's.
        """
        kinds = get_type_hints(cls)
        for name in values:
            if name not in kinds:
                raise SettingsError(f"pipeline has no setting {name!r}; it has: {', '.join(kinds)}")
        required = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
        missing = [name for name in required if values.get(name) in (None, "")]
        if missing:
            raise SettingsError(f"missing: {', '.join(f'{name} ({flag(name)})' for name in missing)}")
        typed = {}
        for name, value in values.items():
            try:
                typed[name] = kinds[name](value)
            except ValueError:
                origin = (origins or {}).get(name, name)
                raise SettingsError(f"{origin} is {value!r}; it takes a whole number") from None
        return cls(**typed)


def flag(name: str) -> str:
    """Return a setting's flag on the command line."""
    return "--" + name.replace("_", "-")


def check_output_mode(mode: str) -> None:
    """Return when the sink takes this output mode of Spark's. Raises SettingsError."""
    if mode not in (APPEND, UPDATE):
        raise SettingsError(f"output_mode is {mode!r}; it takes {APPEND} or {UPDATE}")


def pairs(text: str) -> dict[str, str]:
    """Return ``key=value`` pairs of a comma separated text. Raises SettingsError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator:
            raise SettingsError(f"{part!r} is not key=value")
        found[key.strip()] = value.strip()
    return found


def connect(settings: SinkSettings) -> KafkaConnection:
    """Return the connection with the security properties of the settings' file."""
    if not settings.kafka_properties:
        return KafkaConnection(settings.bootstrap_servers)
    return KafkaConnection.from_properties_file(Path(settings.kafka_properties), settings.bootstrap_servers)


def connect_databases(settings: SinkSettings) -> dict[str, DatabaseConnection]:
    """Return the connections of the settings' file by resource manager, none without a file. Raises SettingsError."""
    return read_database_properties(Path(settings.database_properties)) if settings.database_properties else {}


def files_access(settings: SinkSettings) -> FilesAccess:
    """Return how files are written and their storage is reached. Raises SettingsError."""
    return FilesAccess.read(settings.files_format, settings.files_partition_by, pairs(settings.spark_properties))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SinkTarget:
    """One topic, table or directory, and the resource manager that holds it; empty for one that only finishes what was prepared."""

    resource_manager: str
    target: str

    def __str__(self) -> str:
        return f"{self.resource_manager}:{self.target}"


def read_sinks(text: str) -> tuple[SinkTarget, ...]:
    """Return the targets of ``topic``, ``kafka:topic``, ``mysql:table``, ``files:/directory`` …, comma separated, in order.

    Raises SettingsError for an unknown resource manager, an empty name, or two targets in one resource manager.
    """
    found: dict[str, SinkTarget] = {}
    for part in text.split(","):
        name, separator, target = part.strip().partition(":")
        if not separator:
            name, target = KAFKA, name
        kind = kind_named(name, f"sink {part.strip()!r}")
        if not target:
            forms = ", ".join(f"{kind.name}:{kind.target}" for kind in KINDS.values())
            raise SettingsError(
                f"sink {part.strip()!r} is not understood: give a topic or one of {forms}, or several, comma separated"
            )
        if kind is FILES and "://" not in target and not target.startswith(("/", "file:/")):
            raise SettingsError(
                f"sink {part.strip()!r} names a directory that is another one for each process: give its whole path, or a URI"
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
    files: FilesAccess,
    **kafka_settings: Any,
) -> ResourceManagers:
    """Return the resource managers of these sinks, in their order; ``kafka_settings`` go to KafkaResourceManager.

    Raises SettingsError for an unknown resource manager and for a database without a connection.
    """
    return ResourceManagers(
        {
            sink.resource_manager: make_resource_manager(
                sink.resource_manager, sink.target, kafka, databases, kafka_settings, files
            )
            for sink in sinks
        }
    )
