"""What variables of the environment may set: the collector's tunable settings, and the names of all others.

A key of the settings file's table ``[collector]`` that is no flag's counts as the variable of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from indoubt.collector.config import alerts, receivers, standing_orders, tokens
from indoubt.collector.config.alerts import AlertSettings, Whole
from indoubt.collector.runtime.logs import LogLevel
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.offsets_topics import CONNECT_OFFSETS, CONSUMER_OFFSETS
from indoubt.lifecycle.resource_manager_kinds import DATABASES
from indoubt.lifecycle.settings_file import is_of_a_service

ENVIRONMENT_PREFIX = "INDOUBT_"
BOOTSTRAP_SERVERS = "INDOUBT_BOOTSTRAP_SERVERS"
PUBLIC_URL = "INDOUBT_PUBLIC_URL"
KAFKA_PROPERTIES = "INDOUBT_KAFKA_PROPERTIES"
FOREIGN_VARIABLES = frozenset(
    {
        BOOTSTRAP_SERVERS,
        standing_orders.VARIABLE,
        PUBLIC_URL,
        "INDOUBT_COLLECTOR_CA",
        "INDOUBT_COLLECTOR_URL",
        settings_file.VARIABLE,
        settings_file.CLUSTER_VARIABLE,
        "INDOUBT_TOKEN",
        "INDOUBT_TOKEN_FILE",
        "INDOUBT_OIDC_CLIENT_SECRET",
        "INDOUBT_OIDC_CLIENT_SECRET_FILE",
        "INDOUBT_FAULT_INJECTION_URL",
        KAFKA_PROPERTIES,
        "INDOUBT_LOOK_ONLY",
        "INDOUBT_CRASH_POINTS",
        "INDOUBT_DEMO_RUN",
    }
)
"""Variables that are no tunable setting: of a flag here, or of the Kafka connection, the app, the pipeline or the demo."""
KAFKA_PREFIX = "INDOUBT_KAFKA_"
PASSWORDS = frozenset(kind.password_variable for kind in DATABASES.values())
"""Variables that hold passwords: they win over every file."""


Name = Annotated[str, Field(min_length=1)]
StandbyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,100}$")]
Address = Annotated[str, Field(pattern=r"^(https?://[A-Za-z0-9.:\[\]_-]+)?$")]


class TransactionSource(Enum):
    """Where the state of every transaction on the cluster is read."""

    AUTO = "auto"
    """The log where it may be read, polling where it may not."""
    LOG = "log"
    POLLING = "polling"


class MetricsAccess(Enum):
    """Who may read /metrics."""

    TOKEN = "token"
    """Who has a viewer's or an operator's token."""
    LOOPBACK = "loopback"
    """Also any client on this machine, without a token."""
    ANYONE = "anyone"
    """Whoever reaches the API's port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunableSettings:
    """What environment and settings file may set; each has a line in docs/settings.md.

    A setting's name is its field's, or that of the field that holds a group of settings, ``_`` and the name within the group.
    """

    commit_overdue_ms: Whole = 2_000
    flink_commit_overdue_ms: Whole = 1_500
    driver_silent_ms: Whole = 30_000
    foreign_old_ms: Whole = 30_000
    history_days: Whole = 30
    history_megabytes: Whole = 10_000
    history_archive: str = ""
    transaction_polling_ms: Whole = 1_000
    remote_checkpoint_polling_ms: Whole = 5_000
    flink_polling_ms: Whole = 2_000
    database_polling_ms: Whole = 1_000
    files_polling_ms: Whole = 5_000
    requests_per_second: Whole = 300
    log_level: LogLevel = LogLevel.INFO
    alert: AlertSettings = field(default_factory=AlertSettings)
    metrics_access: MetricsAccess = MetricsAccess.TOKEN
    metrics_pipelines: Whole = 100
    partition_round_ms: Whole = 5_000
    reader_stalled_ms: Whole = 30_000
    transaction_source: TransactionSource = TransactionSource.AUTO
    lifecycle_topic: Name = "transaction_lifecycle"
    decision_topic: Name = "transaction_decisions"
    pipeline_order_topic: Name = "pipeline_orders"
    connect_offsets_topics: Name = CONNECT_OFFSETS
    iceberg_control_topics: Name = "control-iceberg"
    paimon_warehouses: str = ""
    kubernetes_url: Address = ""
    kubernetes_credentials: Name = "/var/run/secrets/kubernetes.io/serviceaccount"
    kubernetes_polling_ms: Whole = 5_000
    standby_name: StandbyName = ""
    standby_peer: Address = ""

    @property
    def offsets_topics(self) -> tuple[str, ...]:
        """Return the topics with the offsets of what applications read, ``__consumer_offsets`` first."""
        return (CONSUMER_OFFSETS, *_names(self.connect_offsets_topics))

    @property
    def control_topics(self) -> tuple[str, ...]:
        """Return the control topics of Iceberg's sinks for Kafka Connect."""
        return _names(self.iceberg_control_topics)

    @property
    def warehouses_of_paimon(self) -> tuple[str, ...]:
        """Return the directories below which Paimon tables are searched for."""
        return _names(self.paimon_warehouses)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def defaults() -> dict[str, object]:
    """Return the default of each setting, by its name."""
    own = {each.name: each.default for each in fields(TunableSettings) if each.name != "alert"}
    of_alerts = {each.name: each.default for each in fields(AlertSettings) if each.name not in alerts.NO_SETTINGS}
    return own | {f"alert_{name}": default for name, default in of_alerts.items()}


def known() -> frozenset[str]:
    """Return the name of every variable but those of Kafka's properties."""
    tunable = {f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in defaults()}
    return FOREIGN_VARIABLES | PASSWORDS | receivers.NAMES | tokens.NAMES | tunable


def unknown(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the variables that are named like one of ours, and that no part knows."""
    ours = {
        name
        for name, text in environment.items()
        # Who connects to Kafka checks its properties.
        if name.startswith(ENVIRONMENT_PREFIX) and not name.startswith(KAFKA_PREFIX) and not is_of_a_service(name, text)
    }
    return frozenset(ours - known())


def read(environment: Mapping[str, str], origins: Mapping[str, str]) -> TunableSettings:
    """Return the tunable settings; ``origins``: where a variable's value stands that does not come from the environment itself.

    Raises SettingsError for a wrong value, and for a key of the file that is no setting.
    """
    for key in sorted(unknown(environment) & origins.keys()):
        names = ", ".join(defaults())
        raise SettingsError(f"{origins[key]} is not a setting of the collector; it knows {names}")
    values: dict[str, str] = {}
    for name, default in defaults().items():
        text = environment.get(f"{ENVIRONMENT_PREFIX}{name.upper()}")
        if text is not None:
            values[name] = text.lower() if isinstance(default, Enum) else text
    return _validated(values, origins)


def _validated(values: Mapping[str, str], origins: Mapping[str, str]) -> TunableSettings:
    of_alerts = {name: text for name, text in values.items() if name.startswith("alert_")}
    others = {name: text for name, text in values.items() if name not in of_alerts}
    nested = {**others, "alert": {name.removeprefix("alert_"): text for name, text in of_alerts.items()}}
    try:
        return TypeAdapter(TunableSettings).validate_python(nested)
    except ValidationError as error:
        first = error.errors()[0]
        key = f"{ENVIRONMENT_PREFIX}{'_'.join(map(str, first['loc'])).upper()}"
        raise SettingsError(f"{origins.get(key, key)} is {first['input']!r}: {first['msg'].lower()}") from None
