"""Every setting of a pipeline: typed, checked once at start, documented in docs/settings.md."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from lifecycle.branch_id import check_xa_prefix
from lifecycle.errors import SettingsError
from lifecycle.guarantees import DeliveryGuarantee
from lifecycle.identity import check_prefix
from pipeline.sinks import KAFKA, MYSQL, read_sinks

ROOT = Path(__file__).resolve().parent.parent
SPARK_CLASSES = ROOT / ".run" / "classes" / "spark.jsa"


def _setting(help_: str, **options: Any) -> Any:
    return field(metadata={"help": help_}, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What a pipeline is and how it runs; ``name`` on the command line is ``--name`` with dashes."""

    job: str = _setting("job to run: ip_count, passthrough or word_count")
    bootstrap_servers: str = _setting("Kafka brokers, host:port, comma separated")
    checkpoint: str = _setting("checkpoint directory; kept when the pipeline ends, never shared between pipelines")
    prefix: str = _setting("transactional id prefix; one pipeline each")
    source: str = _setting("topic to read")
    sink: str = _setting(
        "where to write: a topic, mysql:TABLE or postgres:TABLE; several of them, comma separated, are written in one transaction"
    )
    kafka_properties: str = _setting(
        "file of librdkafka properties (key=value lines) with security settings, for all Kafka clients", default=""
    )
    database_properties: str = _setting(
        "file that says how to reach the databases of the sink (mysql.host=, postgres.user=, ... lines)", default=""
    )
    delivery_guarantee: str = _setting("exactly_once, at_least_once or none", default="exactly_once")
    transaction_timeout_ms: int = _setting(
        "after this long the broker aborts an open transaction; at most the broker's transaction.max.timeout.ms",
        default=60_000,
    )
    timeout_warning_ratio: float = _setting(
        "warn when a transaction's age passes this part of its timeout (0 to 1)", default=0.5
    )
    commit_margin_ms: int = _setting(
        "a batch is not decided when one of its transactions has less time left than this", default=2_000
    )
    commit_limit_ms: int = _setting("how long transient answers to a commit are retried", default=30_000)
    trigger_interval_ms: int = _setting("time between checkpoints; 0: as fast as they go", default=5_000)
    max_offsets_per_trigger: int = _setting(
        "records read per checkpoint at most; a bound is needed, because all of a batch is in doubt at once",
        default=1_000_000,
    )
    starting_offsets: str = _setting("where a new pipeline starts: earliest or latest", default="earliest")
    tasks: int = _setting("shuffle partitions: the slots of ip_count", default=2)
    restart_attempts: int = _setting("restarts in a row before the pipeline gives up", default=3)
    restart_delay_ms: int = _setting("pause before a restart", default=10_000)
    sweep_interval_ms: int = _setting("how often transactions that nobody owns are looked for", default=30_000)
    decisions_topic: str = _setting("topic of the decision log", default="transaction_decisions")
    lifecycle_topic: str = _setting(
        "topic of the lifecycle events; empty: none are sent", default="transaction_lifecycle"
    )
    orders_topic: str = _setting(
        "topic from which the supervisor takes operators' orders to restart or stop; empty: it takes none",
        default="pipeline_orders",
    )
    producer_properties: str = _setting(
        "librdkafka properties for the sink's producers, key=value, comma separated", default=""
    )
    spark_master: str = _setting("Spark master", default="local[2]")
    spark_properties: str = _setting("more Spark properties, key=value, comma separated", default="")
    spark_jars: str = _setting("directory of the Kafka source's jars", default=str(ROOT / ".run" / "jars" / "spark"))
    spark_classes: str = _setting(
        "class data archive of Spark's JVM, which starts faster with it; empty, or no such file: none",
        default=str(SPARK_CLASSES),
    )
    status_file: str = _setting("file that always says how the pipeline stands, as JSON; empty: none", default="")

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        DeliveryGuarantee.parse(self.delivery_guarantee)
        for name in ("bootstrap_servers", "checkpoint", "source", "sink"):
            if not getattr(self, name):
                raise SettingsError(f"{name} is empty: give it with --{name.replace('_', '-')}")
        sinks = {sink.resource_manager: sink.target for sink in read_sinks(self.sink)}
        if self.source == sinks.get(KAFKA):
            raise SettingsError(f"source and sink are both {self.source!r}: the pipeline would read what it writes")
        if sinks.keys() - {KAFKA} and not self.database_properties:
            raise SettingsError(
                f"sink {self.sink!r} names a database: say in a file how to reach it, and name the file with "
                "--database-properties"
            )
        if MYSQL in sinks:
            check_xa_prefix(self.prefix)
        if not 0 < self.timeout_warning_ratio <= 1:
            raise SettingsError(
                f"timeout_warning_ratio is {self.timeout_warning_ratio}; it takes more than 0, at most 1"
            )
        if self.max_offsets_per_trigger <= 0:
            raise SettingsError(
                "max_offsets_per_trigger must be positive: without a bound one batch can outlive its timeout"
            )
        if self.starting_offsets not in ("earliest", "latest"):
            raise SettingsError(f"starting_offsets is {self.starting_offsets!r}; it takes earliest or latest")
        if self.commit_margin_ms >= self.transaction_timeout_ms:
            raise SettingsError(
                f"commit_margin_ms ({self.commit_margin_ms}) must be below transaction_timeout_ms "
                f"({self.transaction_timeout_ms}): no batch could be decided"
            )
        for name in ("transaction_timeout_ms", "tasks", "commit_limit_ms", "sweep_interval_ms"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be positive")
        if pairs(self.spark_properties).get("spark.speculation", "").lower() == "true":
            raise SettingsError(
                "spark.speculation is on: two attempts of one task would share a transactional id and fence each other; "
                "turn it off"
            )

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """Return the delivery guarantee."""
        return DeliveryGuarantee.parse(self.delivery_guarantee)

    def to_json(self) -> str:
        """Return all settings as a JSON object."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def read(cls, values: dict[str, Any]) -> PipelineSettings:
        """Return the settings with each value turned into its type. Raises SettingsError naming the setting."""
        kinds = get_type_hints(cls)
        for name in values:
            if name not in kinds:
                raise SettingsError(f"pipeline has no setting {name!r}; it has: {', '.join(kinds)}")
        required = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
        missing = [name for name in required if values.get(name) in (None, "")]
        if missing:
            raise SettingsError("missing: " + ", ".join("--" + name.replace("_", "-") for name in missing))
        typed = {}
        for name, value in values.items():
            try:
                typed[name] = kinds[name](value)
            except ValueError:
                raise SettingsError(f"{name} is {value!r}; it takes a {kinds[name].__name__}") from None
        return cls(**typed)


def pairs(text: str) -> dict[str, str]:
    """Return ``key=value`` pairs of a comma separated text. Raises SettingsError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator:
            raise SettingsError(f"{part!r} is not key=value")
        found[key.strip()] = value.strip()
    return found


CRASH_POINTS_VARIABLE = "INDOUBT_CRASH_POINTS"
"""Environment variable that arms crash points (for tests and the demo); see crash_points.py."""


def crash_points_directory() -> str:
    """Return the directory of armed crash points, or an empty text when there is none."""
    return os.environ.get(CRASH_POINTS_VARIABLE, "")
