"""The collector's settings: typed, validated once, at start.

A flag of the command line wins over INDOUBT_* of the environment, and that over the table ``[collector]`` of a settings file.
"""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from indoubt.collector.config import named_locations, receivers, standing_orders, tokens, variables
from indoubt.collector.config.databases import FILES_OPTION, OPTION, read_databases, read_files
from indoubt.collector.config.flink_access import OPTION as FLINK_OPTION
from indoubt.collector.config.flink_access import FlinkAccess, is_loopback, read_flink_access
from indoubt.collector.config.flink_store import OPTION as STORE_OPTION
from indoubt.collector.config.flink_store import PROPERTIES_OPTION as STORE_PROPERTIES_OPTION
from indoubt.collector.config.flink_store import ConfigMapsAddress, StoreAddress, read_flink_stores
from indoubt.collector.config.receivers import ReceiverSettings
from indoubt.collector.config.standing_orders import StandingOrders
from indoubt.collector.config.tls import TlsFiles
from indoubt.collector.config.tokens import Tokens
from indoubt.collector.config.variables import (
    BOOTSTRAP_SERVERS,
    ENVIRONMENT_PREFIX,
    KAFKA_PREFIX,
    KAFKA_PROPERTIES,
    PASSWORDS,
    PUBLIC_URL,
    TunableSettings,
)
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.settings_file import CLUSTER_OPTION, CLUSTER_VARIABLE, SettingsTable
from indoubt.lifecycle.version import VERSION
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.history_archive import read_location

VARIABLES_OF_FLAGS = {
    "bootstrap_servers": BOOTSTRAP_SERVERS,
    "standing_orders": standing_orders.VARIABLE,
    "public_url": PUBLIC_URL,
    "kafka_properties": KAFKA_PROPERTIES,
}
"""The variable that stands for a flag, or for a key of the file."""


RELOADED = {
    "checkpoint": "checkpoints",
    "flink": "flink",
    "flink_properties": "flink_access",
    "flink_checkpoints": "flink_checkpoints",
    "flink_store": "flink_stores",
    "flink_store_properties": "flink_stores",
    "flink_kafka": "flink_writes_here",
    "flink_kubernetes": "flink_kubernetes",
    "database_properties": "databases",
    "files": "files",
}
"""What a running collector takes over at SIGHUP: the keys of the settings file, each with its field of the settings."""


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
    flink_stores: Mapping[str, StoreAddress | ConfigMapsAddress]
    """Where the high-availability store of a Flink cluster is, by the cluster's name."""
    flink_writes_here: Mapping[str, bool]
    """Whether a Flink cluster's jobs write to this Kafka cluster only, by its name; without those of which nothing is said."""
    flink_kubernetes: tuple[str, ...]
    """Namespaces in which Flink's operator says which clusters there are; ``*``: all."""
    databases: Mapping[str, DatabaseConnection]
    files: Mapping[str, str]
    """Path or URI of each directory of a files sink, by the name of its instance."""
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
    cluster: str
    """What this Kafka cluster is called, in notifications, metrics and addresses; empty: it has no name."""
    kafka_properties: str
    """File of Kafka properties; empty: none."""
    authority: str
    """PEM file by which another collector's certificate is known; empty: the system's."""
    public_url: str
    """The app's address as people reach it, without a slash at its end; empty: notifications have no links."""


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings. Raises SettingsError that names the setting and says what it takes."""
    parser = command_line()
    table = settings_file.read("collector", arguments, environment, VARIABLES_OF_FLAGS)
    of_file = _variables(table, table.set_defaults(parser))
    origins = {variable: table.origin(key) for variable, key in of_file.items() if variable not in environment}
    environment = {**{variable: table.text(key) for variable, key in of_file.items()}, **environment}
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
    namespaces = named_locations.namespaces(given.flink_kubernetes)
    return Settings(
        bootstrap_servers=bootstrap_servers,
        directory=given.directory,
        host=given.host,
        port=given.port,
        checkpoints=named_locations.checkpoints(given.checkpoint),
        flink=flink,
        flink_access=read_flink_access(given.flink_properties, flink, namespaces),
        flink_checkpoints=checkpoints_of_flink,
        flink_stores=read_flink_stores(
            given.flink_store, given.flink_store_properties, {*flink, *checkpoints_of_flink}, namespaces
        ),
        flink_writes_here=named_locations.flink_kafka(given.flink_kafka, {*flink, *checkpoints_of_flink}, namespaces),
        flink_kubernetes=namespaces,
        databases=read_databases(given.database_properties, environment),
        files=read_files(given.files),
        read_only=given.read_only,
        tunable=_with_archive(_with_standby(variables.read(environment, origins), given)),
        tls=_tls(given),
        trusted_proxies=tuple(given.trusted_proxy),
        tokens=tokens.read(environment),
        receivers=receivers.read(environment),
        standing_orders=standing_orders.read(given.standing_orders or environment.get(standing_orders.VARIABLE, "")),
        start_commands=named_locations.start_commands(given.start_command),
        cluster=settings_file.cluster_of(arguments, environment),
        kafka_properties=given.kafka_properties or environment.get(KAFKA_PROPERTIES, ""),
        authority=environment.get("INDOUBT_COLLECTOR_CA", ""),
        public_url=named_locations.public_url(given.public_url or environment.get(PUBLIC_URL, "")),
    )


def taken_over(before: Settings, after: Settings) -> tuple[Settings, list[str]]:
    """Return the settings of a collector that goes on with ``after``, and the names of what changed and takes a restart."""
    changed = [each.name for each in fields(Settings) if getattr(before, each.name) != getattr(after, each.name)]
    kept = {name: getattr(before, name) for name in changed if name not in RELOADED.values()}
    of_tunable = [
        f"{ENVIRONMENT_PREFIX}{each.name.upper()}"
        for each in fields(TunableSettings)
        if getattr(before.tunable, each.name) != getattr(after.tunable, each.name)
    ]
    return replace(after, **kept), [*(name for name in kept if name != "tunable"), *of_tunable]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SettingsError(f"{message}; see indoubt collector --help")

    def many(self, option: str, takes: str, text: str) -> None:
        """Add an option that may be given several times."""
        self.add_argument(option, action="append", default=[], metavar=takes, help=text)


def _add_tls(parser: _Parser) -> None:
    parser.add_argument("--tls-certificate", type=Path, help="PEM file of the API's certificate, with its chain")
    parser.add_argument("--tls-key", type=Path, help="PEM file of its key")
    parser.add_argument("--tls-by-proxy", action="store_true", help="plain HTTP beyond loopback: a proxy does TLS")
    parser.many("--trusted-proxy", "ADDRESS", "its X-Forwarded-For says who calls")


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
    if not is_loopback(given.host) and not given.tls_by_proxy:
        raise SettingsError(
            f"--host {given.host} without TLS would send tokens in clear: give --tls-certificate and --tls-key, or --tls-by-proxy "
            "when a proxy before the collector does TLS"
        )
    return None


def _with_standby(tunable: TunableSettings, given: argparse.Namespace) -> TunableSettings:
    """Return the settings. Raises SettingsError where a standby is named by half, or tokens would go to it in clear."""
    if bool(tunable.standby_name) != bool(tunable.standby_peer):
        raise SettingsError(
            "INDOUBT_STANDBY_NAME and INDOUBT_STANDBY_PEER go together: the name of both, and the address of the other"
        )
    peer = urlsplit(tunable.standby_peer)
    if peer.scheme == "http" and not is_loopback(peer.hostname or "") and not given.tls_by_proxy:
        raise SettingsError(
            f"INDOUBT_STANDBY_PEER is {tunable.standby_peer}: tokens would go there in clear; give an https:// address, or "
            "--tls-by-proxy"
        )
    return tunable


def _with_archive(tunable: TunableSettings) -> TunableSettings:
    """Return the settings. Raises SettingsError for an archive that is no path and no URI."""
    if tunable.history_archive:
        try:
            read_location(tunable.history_archive)
        except SettingsError as error:
            raise SettingsError(f"INDOUBT_HISTORY_ARCHIVE: {error}") from None
    return tunable


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line; each option has a line in docs/settings.md."""
    parser = _Parser(prog="indoubt collector", description="Observe transactions, keep their history, judge and act.")
    parser.add_argument("--bootstrap-servers", default="", help="HOST:PORT of the Kafka cluster, comma separated")
    parser.add_argument("--kafka-properties", default="", metavar="FILE", help="properties of the connection to Kafka")
    parser.add_argument("--directory", type=Path, help="where history and tokens are kept")
    settings_file.add_option(parser, "collector")
    parser.add_argument(
        CLUSTER_OPTION, default="", metavar="NAME", help=f"what to call this cluster (or {CLUSTER_VARIABLE})"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address of the API (default: loopback)")
    parser.add_argument("--port", type=int, default=8650, help="port of the API; 0 takes a free one")
    parser.many("--checkpoint", "NAME=URI", "a Spark query's directory, path or URI")
    parser.many("--flink", "NAME=URL", "a Flink JobManager's REST API")
    parser.many(FLINK_OPTION, "NAME=FILE", "authority and login of that REST API")
    parser.many(
        "--flink-checkpoints",
        "NAME=URI",
        "where a Flink cluster keeps checkpoints (state.checkpoints.dir), path or URI",
    )
    parser.many(
        STORE_OPTION,
        "NAME=zookeeper://…",
        "a Flink cluster's high-availability store, with path.root and cluster-id as the path; or in Kubernetes: "
        "kubernetes://NAMESPACE/CLUSTER",
    )
    parser.many(STORE_PROPERTIES_OPTION, "NAME=FILE", "authority and login of that store")
    parser.many(
        "--flink-kafka",
        "NAME=only|others",
        "whether the jobs of a Flink cluster write to this Kafka cluster only, or to others, too",
    )
    parser.many(
        "--flink-kubernetes",
        "NAMESPACE",
        "where Flink's Kubernetes operator says which Flink clusters there are; *: in all namespaces",
    )
    parser.many(OPTION, "[NAME=]FILE", "databases to watch")
    parser.many(FILES_OPTION, "[NAME=]DIR", "directory of a files sink to watch, path or URI")
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
    parser.many(
        "--start-command",
        "NAME=COMMAND",
        "what starts the pipeline of this prefix, when an operator orders it; it must return",
    )
    parser.add_argument("--read-only", action="store_true", help="refuse every order")
    parser.add_argument("--version", action="version", version=f"indoubt {VERSION}", help="say which version this is")
    return parser


def _variables(table: SettingsTable, keys: Iterable[str]) -> dict[str, str]:
    """Return the key of each variable that the file sets. Raises SettingsError for one that may be a secret."""
    secrets = PASSWORDS | receivers.NAMES | tokens.NAMES
    found = {f"{ENVIRONMENT_PREFIX}{key.upper()}": key for key in keys}
    for variable, key in found.items():
        if variable in secrets or variable.startswith(KAFKA_PREFIX):
            raise SettingsError(
                f"{table.origin(key)} may be a secret: it is read from the environment alone, as {variable}"
            )
    return found
