"""The collector's settings: typed, validated once, at start.

A flag of the command line wins over INDOUBT_* of the environment, and that over the table ``[collector]`` of a settings file.
"""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from indoubt.collector.config import alerts, named_locations, receivers, standing_orders, tokens
from indoubt.collector.config.alerts import AlertSettings, Whole
from indoubt.collector.config.databases import OPTION, PASSWORDS, read_databases
from indoubt.collector.config.flink_access import OPTION as FLINK_OPTION
from indoubt.collector.config.flink_access import FlinkAccess, read_flink_access
from indoubt.collector.config.receivers import ReceiverSettings
from indoubt.collector.config.standing_orders import StandingOrders
from indoubt.collector.config.tls import TlsFiles
from indoubt.collector.config.tokens import Tokens
from indoubt.collector.runtime.logs import LogLevel
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.offsets_topics import CONNECT_OFFSETS, CONSUMER_OFFSETS
from indoubt.lifecycle.settings_file import SettingsTable, is_of_a_service
from indoubt.lifecycle.version import VERSION
from indoubt.resource_managers.database.connection import DatabaseConnection

ENVIRONMENT_PREFIX = "INDOUBT_"
BOOTSTRAP_SERVERS = "INDOUBT_BOOTSTRAP_SERVERS"
PUBLIC_URL = "INDOUBT_PUBLIC_URL"
FOREIGN_VARIABLES = frozenset(
    {
        BOOTSTRAP_SERVERS,
        standing_orders.VARIABLE,
        PUBLIC_URL,
        "INDOUBT_COLLECTOR_CA",
        "INDOUBT_COLLECTOR_URL",
        settings_file.VARIABLE,
        "INDOUBT_TOKEN",
        "INDOUBT_TOKEN_FILE",
        "INDOUBT_OIDC_CLIENT_SECRET",
        "INDOUBT_OIDC_CLIENT_SECRET_FILE",
        "INDOUBT_FAULT_INJECTION_URL",
        "INDOUBT_CRASH_POINTS",
        "INDOUBT_DEMO_RUN",
    }
)
"""Variables that are no tunable setting: of a flag here, or of the Kafka connection, the app, the pipeline or the demo."""
KAFKA_PREFIX = "INDOUBT_KAFKA_"


Name = Annotated[str, Field(min_length=1)]


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
    transaction_polling_ms: Whole = 1_000
    remote_checkpoint_polling_ms: Whole = 5_000
    flink_polling_ms: Whole = 2_000
    database_polling_ms: Whole = 1_000
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

    @property
    def offsets_topics(self) -> tuple[str, ...]:
        """Return the topics with the offsets of what applications read, ``__consumer_offsets`` first."""
        names = (name.strip() for name in self.connect_offsets_topics.split(","))
        return (CONSUMER_OFFSETS, *(name for name in names if name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that is set at start."""

    bootstrap_servers: str
    directory: Path
    host: str
    port: int
    checkpoints: Mapping[str, str]
    """Path or URI of each, by the pipeline's name."""
    flink: Mapping[str, str]
    """Address of each REST API, by the cluster's name."""
    flink_access: Mapping[str, FlinkAccess]
    """Authority and login of those that do not answer everybody, by the cluster's name."""
    flink_checkpoints: Mapping[str, tuple[str, ...]]
    """Paths or URIs of the directories of Flink's checkpoints, by the cluster's name."""
    flink_writes_here: Mapping[str, bool]
    """Whether a Flink cluster's jobs write to this Kafka cluster only, by its name; without those of which nothing is said."""
    databases: Mapping[str, DatabaseConnection]
    read_only: bool
    tunable: TunableSettings
    tls: TlsFiles | None
    trusted_proxies: tuple[str, ...]
    tokens: Tokens | None
    """None: none were given, so they are made at start."""
    receivers: ReceiverSettings
    standing_orders: StandingOrders
    start_commands: Mapping[str, tuple[str, ...]]
    """What starts a pipeline, by its prefix."""
    public_url: str
    """The app's address as people reach it, without a slash at its end; empty: notifications have no links."""


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings. Raises SettingsError that names the setting and says what it takes."""
    parser = _parser()
    of_flags = {
        "bootstrap_servers": BOOTSTRAP_SERVERS,
        "standing_orders": standing_orders.VARIABLE,
        "public_url": PUBLIC_URL,
    }
    table = settings_file.read("collector", arguments, environment, of_flags)
    variables = _variables(table, table.set_defaults(parser))
    origins = {variable: table.origin(key) for variable, key in variables.items() if variable not in environment}
    environment = {**{variable: table.text(key) for variable, key in variables.items()}, **environment}
    given = parser.parse_args(arguments)
    if given.directory is None:
        raise SettingsError("--directory is missing; it takes the directory where history and tokens are kept")
    bootstrap_servers = given.bootstrap_servers or environment.get(BOOTSTRAP_SERVERS, "")
    if not bootstrap_servers:
        raise SettingsError("--bootstrap-servers is missing; it takes HOST:PORT of the Kafka cluster")
    if not 0 <= given.port <= 65_535:
        raise SettingsError(f"--port is {given.port}; it takes 0 to 65535")
    flink = named_locations.flink(given.flink)
    checkpoints_of_flink = named_locations.flink_checkpoints(given.flink_checkpoints)
    return Settings(
        bootstrap_servers=bootstrap_servers,
        directory=given.directory,
        host=given.host,
        port=given.port,
        checkpoints=named_locations.checkpoints(given.checkpoint),
        flink=flink,
        flink_access=read_flink_access(given.flink_properties, flink),
        flink_checkpoints=checkpoints_of_flink,
        flink_writes_here=named_locations.flink_kafka(given.flink_kafka, {*flink, *checkpoints_of_flink}),
        databases=read_databases(given.database_properties, environment),
        read_only=given.read_only,
        tunable=_from_environment(environment, origins),
        tls=_tls(given),
        trusted_proxies=tuple(given.trusted_proxy),
        tokens=tokens.read(environment),
        receivers=receivers.read(environment),
        standing_orders=standing_orders.read(given.standing_orders or environment.get(standing_orders.VARIABLE, "")),
        start_commands=named_locations.start_commands(given.start_command),
        public_url=named_locations.public_url(given.public_url or environment.get(PUBLIC_URL, "")),
    )


def defaults() -> dict[str, object]:
    """Return the default of each setting, by its name."""
    own = {each.name: each.default for each in fields(TunableSettings) if each.name != "alert"}
    of_alerts = {each.name: each.default for each in fields(AlertSettings) if each.name not in alerts.NO_SETTINGS}
    return own | {f"alert_{name}": default for name, default in of_alerts.items()}


def _add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls-certificate", type=Path, help="PEM file of the API's certificate, with its chain")
    parser.add_argument("--tls-key", type=Path, help="PEM file of its key")
    parser.add_argument("--tls-by-proxy", action="store_true", help="plain HTTP beyond loopback: a proxy does TLS")
    parser.add_argument(
        "--trusted-proxy", action="append", default=[], metavar="ADDRESS", help="its X-Forwarded-For says who calls"
    )


def _tls(given: argparse.Namespace) -> TlsFiles | None:
    """Return the files of TLS, None for plain HTTP, which leaves loopback only with --tls-by-proxy."""
    if (given.tls_certificate is None) != (given.tls_key is None):
        missing = "--tls-key" if given.tls_key is None else "--tls-certificate"
        raise SettingsError(f"{missing} is missing; --tls-certificate and --tls-key go together")
    for proxy in given.trusted_proxy:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            raise SettingsError(f"--trusted-proxy is {proxy!r}; it takes an address or a network") from None
    if given.tls_certificate is not None:
        return TlsFiles(certificate=given.tls_certificate, key=given.tls_key)
    if not _is_loopback(given.host) and not given.tls_by_proxy:
        raise SettingsError(
            f"--host {given.host} without TLS would send tokens in clear: give --tls-certificate and --tls-key, or --tls-by-proxy "
            "when a proxy before the collector does TLS"
        )
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SettingsError(f"{message}; see python -m indoubt.collector --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m indoubt.collector", description="Observe transactions, keep their history, judge and act."
    )
    parser.add_argument("--bootstrap-servers", default="", help="HOST:PORT of the Kafka cluster, comma separated")
    parser.add_argument("--directory", type=Path, help="where history and tokens are kept")
    settings_file.add_option(parser, "collector")
    parser.add_argument("--host", default="127.0.0.1", help="address of the API (default: loopback)")
    parser.add_argument("--port", type=int, default=8650, help="port of the API; 0 takes a free one")
    parser.add_argument(
        "--checkpoint", action="append", default=[], metavar="NAME=URI", help="a Spark query's directory, path or URI"
    )
    parser.add_argument(
        "--flink", action="append", default=[], metavar="NAME=URL", help="a Flink JobManager's REST API"
    )
    parser.add_argument(
        FLINK_OPTION, action="append", default=[], metavar="NAME=FILE", help="authority and login of that REST API"
    )
    parser.add_argument(
        "--flink-checkpoints",
        action="append",
        default=[],
        metavar="NAME=URI",
        help="where a Flink cluster keeps checkpoints (state.checkpoints.dir), path or URI",
    )
    parser.add_argument(
        "--flink-kafka",
        action="append",
        default=[],
        metavar="NAME=only|others",
        help="whether the jobs of a Flink cluster write to this Kafka cluster only, or to others, too",
    )
    parser.add_argument(OPTION, action="append", default=[], metavar="[NAME=]FILE", help="databases to watch")
    _add_tls(parser)
    parser.add_argument(
        standing_orders.OPTION, default="", metavar="FILE", help="TOML file: what may be done without a person"
    )
    parser.add_argument(
        "--public-url",
        default="",
        metavar="URL",
        help="address at which people open the app: notifications link to it",
    )
    parser.add_argument(
        "--start-command",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="what starts the pipeline of this prefix, when an operator orders it; it must return",
    )
    parser.add_argument("--read-only", action="store_true", help="refuse every order")
    parser.add_argument("--version", action="version", version=f"indoubt {VERSION}", help="say which version this is")
    return parser


def _variables(table: SettingsTable, keys: Iterable[str]) -> dict[str, str]:
    """Return the key of each variable that the file sets. Raises SettingsError for one that may be a secret."""
    secrets = PASSWORDS | receivers.NAMES | tokens.NAMES
    variables = {f"{ENVIRONMENT_PREFIX}{key.upper()}": key for key in keys}
    for variable, key in variables.items():
        if variable in secrets or variable.startswith(KAFKA_PREFIX):
            raise SettingsError(
                f"{table.origin(key)} may be a secret: it is read from the environment alone, as {variable}"
            )
    return variables


def _from_environment(environment: Mapping[str, str], origins: Mapping[str, str]) -> TunableSettings:
    """``origins``: where a variable's value stands that does not come from the environment itself."""
    known = defaults()
    values: dict[str, str] = {}
    for key, text in environment.items():
        if (
            not key.startswith(ENVIRONMENT_PREFIX)
            or key.startswith(KAFKA_PREFIX)
            or key in FOREIGN_VARIABLES | PASSWORDS | receivers.NAMES | tokens.NAMES
        ):
            continue
        name = key.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in known:
            values[name] = text.lower() if isinstance(known[name], Enum) else text
        elif not is_of_a_service(key, text):
            names = ", ".join(f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in known)
            origin = origins.get(key, key)
            raise SettingsError(f"{origin} is not a setting of the collector; it knows INDOUBT_OPERATOR_TOKEN, {names}")
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
