"""The collector's settings: typed, validated once, at start. Command line first, then INDOUBT_* of the environment."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from collector.databases import OPTION, PASSWORDS, read_databases
from collector.notifiers import receivers
from collector.notifiers.receivers import ReceiverSettings
from collector.request_log import LogLevel
from collector.tls import TlsFiles
from lifecycle.errors import SettingsError
from resource_managers.database_connection import DatabaseConnection

ENVIRONMENT_PREFIX = "INDOUBT_"
THEIRS = frozenset(
    {
        "INDOUBT_BOOTSTRAP_SERVERS",
        "INDOUBT_COLLECTOR_CA",
        "INDOUBT_COLLECTOR_URL",
        "INDOUBT_TOKEN",
        "INDOUBT_TOKEN_FILE",
        "INDOUBT_TROUBLE_URL",
        "INDOUBT_CRASH_POINTS",
        "INDOUBT_DEMO_RUN",
    }
)
"""Variables that the Kafka connection, the app, the pipeline or the demo may have in the same environment: theirs to judge."""
KAFKA_PREFIX = "INDOUBT_KAFKA_"
BODY_BYTES_MOST = 4_194_304
CHECKPOINT_SCHEMES = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Filesystems that pyarrow opens by URI."""


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
    """Also whoever asks from this machine, without a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by the name of their holder. Never printed: repr shows names only."""

    operators: Mapping[str, str]
    viewers: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Tokens(operators={sorted(self.operators)}, viewers={sorted(self.viewers)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunableSettings:
    """What the environment may set, by the upper-case name behind INDOUBT_; each has a line in docs/settings.md."""

    commit_overdue_ms: int = 2_000
    driver_silent_ms: int = 30_000
    foreign_old_ms: int = 30_000
    settled_kept: int = 10_000
    checkpoints_kept: int = 2_000
    order_limit_ms: int = 10_000
    follow_up_pause_ms: int = 1_000
    follow_up_most_ms: int = 86_400_000
    history_days: int = 30
    history_megabytes: int = 10_000
    transaction_polling_ms: int = 1_000
    checkpoint_polling_ms: int = 500
    remote_checkpoint_polling_ms: int = 5_000
    flink_polling_ms: int = 2_000
    offsets_polling_ms: int = 2_000
    database_polling_ms: int = 1_000
    database_answer_ms: int = 5_000
    retry_most_ms: int = 2_000
    requests_per_second: int = 100
    orders_per_minute: int = 120
    failed_authentications_per_minute: int = 10
    body_bytes_most: int = BODY_BYTES_MOST
    log_level: LogLevel = LogLevel.INFO
    alert_interval_ms: int = 1_000
    alert_commit_overdue_ms: int = 10_000
    alert_foreign_recovery_ms: int = 20_000
    alert_blocked_ms: int = 30_000
    alert_aborts: int = 5
    alert_aborts_window_ms: int = 600_000
    alert_checkpoint_failures: int = 3
    alert_checkpoint_stalled_ms: int = 60_000
    alert_observer_down_ms: int = 15_000
    alert_keep_firing_ms: int = 15_000
    alert_group_wait_ms: int = 2_000
    alert_group_interval_ms: int = 15_000
    alert_repeat_ms: int = 3_600_000
    alert_resolved_kept_ms: int = 86_400_000
    notification_limit_ms: int = 5_000
    notification_retry_ms: int = 1_000
    notification_retry_most_ms: int = 60_000
    notification_give_up_ms: int = 86_400_000
    metrics_access: MetricsAccess = MetricsAccess.TOKEN
    metrics_pipelines: int = 100
    partition_look_ms: int = 1_000
    partition_round_ms: int = 5_000
    partitions_per_look: int = 2_000
    hanging_confirm_ms: int = 2_000
    reader_stalled_ms: int = 30_000
    transaction_source: TransactionSource = TransactionSource.AUTO
    lifecycle_topic: str = "transaction_lifecycle"
    decision_topic: str = "transaction_decisions"
    pipeline_order_topic: str = "pipeline_orders"
    pipeline_order_limit_ms: int = 25_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything the collector was told at start."""

    bootstrap_servers: str
    directory: Path
    host: str
    port: int
    checkpoints: Mapping[str, str]
    """Path or URI of each, by the pipeline's name."""
    flink: Mapping[str, str]
    """Address of each REST API, by the cluster's name."""
    databases: Mapping[str, DatabaseConnection]
    read_only: bool
    tunable: TunableSettings
    tls: TlsFiles | None
    trusted_proxies: tuple[str, ...]
    tokens: Tokens | None
    """None: none were given, so they are made at start."""
    receivers: ReceiverSettings


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings. Raises SettingsError that names the setting and says what it takes."""
    given = _parser().parse_args(arguments)
    bootstrap_servers = given.bootstrap_servers or environment.get("INDOUBT_BOOTSTRAP_SERVERS", "")
    if not bootstrap_servers:
        raise SettingsError("--bootstrap-servers is missing; it takes HOST:PORT of the Kafka cluster")
    if not 0 <= given.port <= 65_535:
        raise SettingsError(f"--port is {given.port}; it takes 0 to 65535")
    tunable, tokens = _from_environment(environment)
    return Settings(
        bootstrap_servers=bootstrap_servers,
        directory=given.directory,
        host=given.host,
        port=given.port,
        checkpoints=_checkpoints(given.checkpoint),
        flink=_flink(given.flink),
        databases=read_databases(given.database_properties, environment),
        read_only=given.read_only,
        tunable=tunable,
        tls=_tls(given),
        trusted_proxies=tuple(given.trusted_proxy),
        tokens=tokens,
        receivers=receivers.read(environment),
    )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tls-certificate", type=Path, help="PEM file of the API's certificate, with its chain")
    parser.add_argument("--tls-key", type=Path, help="PEM file of its key")
    parser.add_argument("--tls-by-proxy", action="store_true", help="plain HTTP beyond loopback: a proxy does TLS")
    parser.add_argument(
        "--trusted-proxy", action="append", default=[], metavar="ADDRESS", help="its X-Forwarded-For says who calls"
    )


def _tls(given: argparse.Namespace) -> TlsFiles | None:
    """Return the files of TLS, None for plain HTTP, which leaves loopback only where somebody says that a proxy does TLS."""
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
        raise SettingsError(f"{message}; see python -m collector --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m collector", description="Observe transactions, keep their history, judge and act.")
    parser.add_argument("--bootstrap-servers", default="", help="HOST:PORT of the Kafka cluster, comma separated")
    parser.add_argument("--directory", type=Path, required=True, help="where history and tokens are kept")
    parser.add_argument("--host", default="127.0.0.1", help="address of the API (default: loopback)")
    parser.add_argument("--port", type=int, default=8650, help="port of the API; 0 takes a free one")
    parser.add_argument(
        "--checkpoint", action="append", default=[], metavar="NAME=URI", help="a Spark query's directory, path or URI"
    )
    parser.add_argument(
        "--flink", action="append", default=[], metavar="NAME=URL", help="a Flink JobManager's REST API"
    )
    parser.add_argument(OPTION, action="append", default=[], metavar="[NAME=]FILE", help="databases to watch")
    _add_tls(parser)
    parser.add_argument("--read-only", action="store_true", help="refuse every order")
    return parser


def _checkpoints(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, _, location = text.partition("=")
        if not name or not location:
            raise SettingsError(f"--checkpoint is {text!r}; it takes NAME=DIR or NAME=URI")
        if name in found:
            raise SettingsError(f"--checkpoint {name} is given twice")
        scheme = location.partition("://")[0] if "://" in location else "file"
        if scheme not in CHECKPOINT_SCHEMES:
            raise SettingsError(f"--checkpoint {name} has scheme {scheme!r}; it takes {', '.join(CHECKPOINT_SCHEMES)}")
        if urlsplit(location).password:
            raise SettingsError(
                f"--checkpoint {name} holds a password; the storage's own environment variables take it"
            )
        found[name] = location
    return found


def _flink(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, _, url = text.partition("=")
        parts = urlsplit(url)
        if not name or parts.scheme not in ("http", "https") or not parts.hostname:
            # The address itself stays out of the message: it may hold a password.
            raise SettingsError(f"--flink {name} takes NAME=URL, with the URL of a REST API such as http://host:8081")
        if name in found:
            raise SettingsError(f"--flink {name} is given twice")
        if parts.username or parts.password:
            raise SettingsError(
                f"--flink {name} holds a user: Flink's REST API knows none, and this would be seen by anybody"
            )
        found[name] = url
    return found


def _from_environment(environment: Mapping[str, str]) -> tuple[TunableSettings, Tokens | None]:
    kinds = {field.name: type(field.default) for field in fields(TunableSettings)}
    values: dict[str, object] = {}
    tokens: dict[str, dict[str, str]] = {}
    for key, text in environment.items():
        if (
            not key.startswith(ENVIRONMENT_PREFIX)
            or key.startswith(KAFKA_PREFIX)
            or key in THEIRS | PASSWORDS | receivers.NAMES
        ):
            continue
        name = key.removeprefix(ENVIRONMENT_PREFIX).lower()
        if key in ("INDOUBT_OPERATOR_TOKEN", "INDOUBT_VIEWER_TOKEN"):
            tokens[key] = _token_pairs(key, text)
        elif name in kinds:
            values[name] = _typed(key, text, kinds[name])
        else:
            known = ", ".join(f"{ENVIRONMENT_PREFIX}{known.upper()}" for known in kinds)
            raise SettingsError(f"{key} is not a setting of the collector; it knows INDOUBT_OPERATOR_TOKEN, {known}")
    tunable = TunableSettings(**values)  # type: ignore[arg-type]
    operators, viewers = tokens.get("INDOUBT_OPERATOR_TOKEN", {}), tokens.get("INDOUBT_VIEWER_TOKEN", {})
    if set(operators.values()) & set(viewers.values()):
        raise SettingsError("INDOUBT_VIEWER_TOKEN repeats a token of INDOUBT_OPERATOR_TOKEN; each token has one role")
    return tunable, Tokens(operators=operators, viewers=viewers) if operators or viewers else None


def _typed(key: str, text: str, kind: type) -> object:
    if kind is int:
        if not text.isascii() or not text.isdigit() or int(text) == 0:
            raise SettingsError(f"{key} is {text!r}; it takes a whole number above 0")
        return int(text)
    if issubclass(kind, Enum):
        try:
            return kind(text.lower())
        except ValueError:
            raise SettingsError(f"{key} is {text!r}; it takes one of: {', '.join(m.value for m in kind)}") from None
    if not text:
        raise SettingsError(f"{key} is empty; it takes a name")
    return text


def _token_pairs(key: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, pair in enumerate(text.split(","), 1):
        name, _, token = pair.strip().partition(":")
        if not name or len(token) < 8:
            # The pair itself stays out of the message: it may hold a secret.
            raise SettingsError(f"{key}: pair {number} is not name:token with a token of 8 or more characters")
        if name in pairs:
            raise SettingsError(f"{key}: the name {name!r} is given twice")
        pairs[name] = token
    return pairs
