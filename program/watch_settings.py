"""The settings of ``watch``: what its words mean for the collector and for the pages, and who may do what."""

from __future__ import annotations

import argparse
import contextlib
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from indoubt.app.sign_in import settings as sign_in_settings
from indoubt.app.sign_in.settings import is_loopback
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.program import clusters
from indoubt.program.access import Access, access
from indoubt.program.clusters import Cluster

BOOTSTRAP_SERVERS, LOG_LEVEL = "INDOUBT_BOOTSTRAP_SERVERS", "INDOUBT_LOG_LEVEL"
LOOPBACK, ANY_ADDRESS = "127.0.0.1", ("0.0.0.0", "::")
_NOT_OF_THE_APP = ("help", "settings_file", "bootstrap_servers", "directory", "collector_port", "read_only")
_NOT_OF_WATCH = {
    **dict.fromkeys(("--tls-certificate", "--tls-key", "--tls-by-proxy"), "only this machine reaches its collector"),
    **dict.fromkeys(("--collector", "--token-file"), "its pages ask its own collector"),
    "--sign-in-by-proxy": "nobody would learn who orders: give --trusted-proxy or --oidc-issuer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The collector of one cluster: the ``words`` of its command line, and its ``environment``."""

    cluster: Cluster
    port: int
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    @property
    def url(self) -> str:
        """Return the address of its API."""
        return f"http://{LOOPBACK}:{self.port}"

    def goes_on_as(self, other: Watched) -> bool:
        """Say whether its process becomes that of the other one by reading its settings again (SIGHUP)."""
        is_alike = (self.words, self.environment) == (other.words, other.environment)
        return is_alike and self.cluster.becomes(other.cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What is started, where, and who may do what."""

    collectors: Mapping[str, Watched]
    """By the cluster's name; one alone may have none."""
    host: str
    port: int
    public_url: str
    is_local: bool
    """Only this machine reaches the pages."""
    pages: tuple[str, ...]
    """Words of the app's command line, but for its collectors."""
    of_collectors: tuple[str, ...]
    """Words of each collector's command line."""
    access: Access

    def watching(self, wanted: Sequence[Cluster], first_port: int = 0) -> WatchSettings:
        """Return the settings with these clusters: one that is watched keeps its port. Raises SettingsError.

        ``first_port``: of the first collector, the others have those behind it as far as they are free; 0: free ones.
        """
        found: dict[str, Watched] = {}
        for cluster in wanted:
            known = self.collectors.get(cluster.name)
            ports = {one.port for one in (*self.collectors.values(), *found.values())}
            port = known.port if known is not None else _collector_port(first_port, ports)
            words = [*cluster.words, *self.of_collectors, f"--bootstrap-servers={cluster.servers}"]
            words += [f"--directory={cluster.directory}", f"--port={port}"]
            words += [f"{settings_file.CLUSTER_OPTION}={cluster.name}"] if cluster.name else []
            environment = cluster.environment(self.access.of_collector)
            found[cluster.name] = Watched(cluster=cluster, port=port, words=tuple(words), environment=environment)
        return replace(self, collectors=found)

    @property
    def of_app(self) -> tuple[str, ...]:
        """Return the words of the app's command line."""
        named = [f"{name}={one.url}" if name else one.url for name, one in self.collectors.items()]
        return (*self.pages, *(f"--collector={text}" for text in named))

    @property
    def local_url(self) -> str:
        """Return the address at which this machine reaches the pages."""
        host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def address(self) -> str:
        """Return the address at which people open the pages."""
        return self.public_url or (
            f"http://{socket.gethostname()}:{self.port}" if self.host in ANY_ADDRESS else self.local_url
        )


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line; each option has a line in docs/settings.md."""
    parser = argparse.ArgumentParser(
        prog="indoubt watch",
        allow_abbrev=False,
        description="Run a collector and its pages until Ctrl-C: processes of their own, each started again when it dies. Of "
        "several clusters each has a table [clusters.NAME] in the settings file, and a collector of its own.",
        epilog="Every other option is the collector's, such as --checkpoint, --flink and --database-properties: "
        "'indoubt collector --help'.",
    )
    parser.add_argument("--bootstrap-servers", default="", help=f"HOST:PORT of the cluster (or {BOOTSTRAP_SERVERS})")
    parser.add_argument("--directory", help="for history (default: in ~/.local/state/indoubt, by the cluster's name)")
    parser.add_argument("--read-only", action="store_true", help="refuse every order")
    parser.add_argument(
        "--collector-port", type=int, default=8650, help="of its API on loopback; 0: a free one (default: %(default)s)"
    )
    settings_file.add_option(parser, "app")
    pages = parser.add_argument_group("pages")
    pages.add_argument("--host", default=LOOPBACK, help="address to listen on (default: %(default)s)")
    pages.add_argument("--port", type=int, default=8651, help="of the pages; 0: a free one (default: %(default)s)")
    pages.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME", help="another name that browsers use; repeatable"
    )
    sign_in_settings.add_options(parser.add_argument_group("sign-in, for orders on the pages by several persons"))
    return parser


def read(words: Sequence[str], environment: Mapping[str, str]) -> WatchSettings:
    """Return the settings. Raises SettingsError that names the setting and says what it takes."""
    parser = command_line()
    flags = {name: action for action in parser._actions for name in action.option_strings}
    defaults = {action.dest: action.default for action in flags.values()}
    # INDOUBT_CLUSTER is for commands where there are several: none of them is asked for more than the others.
    of_all = {name: text for name, text in environment.items() if name != settings_file.CLUSTER_VARIABLE}
    file = settings_file.read("collector", words, of_all, {"bootstrap_servers": BOOTSTRAP_SERVERS}).keys
    settings_file.read("app", words, environment, {}).set_defaults(parser)
    given, others = parser.parse_known_args(words)
    for name in (word.partition("=")[0] for word in others):
        if name in _NOT_OF_WATCH:
            raise SettingsError(f"{name} is not for watch: {_NOT_OF_WATCH[name]}")
    watched = clusters.read(words, environment)
    if watched and (wrong := [*others, *_given(given, "--bootstrap-servers", "--directory")]):
        raise SettingsError(
            f"{wrong[0].partition('=')[0]} does not say of which cluster: write it into [clusters.NAME]"
        )
    watched = watched or [_only_cluster(given, file, settings_file.cluster_of(words, environment), environment)]
    public_url = sign_in_settings.public_url(given)
    names = [given.host, *given.allowed_host, *([urlsplit(public_url).hostname or ""] if public_url else [])]
    allowed = access(
        environment,
        is_local=all(map(is_loopback, names)),
        signs_in=sign_in_settings.read(given, environment) is not None,
        read_only=given.read_only or file.get("read_only") is True,
    )
    given.port = _port(given.host, given.port, "--port")
    if given.host in ANY_ADDRESS:
        given.allowed_host = [*given.allowed_host, socket.gethostname()]
    to_both = [f"{settings_file.OPTION}={given.settings_file}"] if given.settings_file else []
    of_collectors = [*others, *to_both, f"--host={LOOPBACK}", *([f"--public-url={public_url}"] if public_url else [])]
    of_collectors += ["--read-only"] if allowed.read_only else []
    pages = [*to_both, *_words(flags.values(), given, defaults), *(["--look-only"] if allowed.looks_only else [])]
    quiet = {} if "log_level" in file else {LOG_LEVEL: "warning"}
    settings = WatchSettings(
        collectors={},
        host=given.host,
        port=given.port,
        public_url=public_url,
        is_local=all(map(is_loopback, names)),
        pages=tuple(pages),
        of_collectors=tuple(of_collectors),
        access=replace(allowed, of_collector=quiet | dict(allowed.of_collector)),
    )
    return settings.watching(watched, given.collector_port)


def _only_cluster(
    given: argparse.Namespace, file: Mapping[str, Any], name: str, environment: Mapping[str, str]
) -> Cluster:
    servers = given.bootstrap_servers or environment.get(BOOTSTRAP_SERVERS) or str(file.get("bootstrap_servers", ""))
    if not servers:
        raise SettingsError("--bootstrap-servers is missing; it takes HOST:PORT of the Kafka cluster")
    directory = Path(given.directory or file.get("directory") or clusters.directory_of(servers, environment))
    return Cluster(name=name, servers=servers, directory=directory)


def _given(given: argparse.Namespace, *options: str) -> list[str]:
    return [option for option in options if getattr(given, option[2:].replace("-", "_"))]


def _port(host: str, port: int, option: str) -> int:
    """Return the port, or a free one for 0. Raises SettingsError where it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "it takes 0 to 65535"
            raise SettingsError(f"{option} {port} of {host} cannot be listened on: {why}; give another") from None
        return int(tried.getsockname()[1])


def _collector_port(wanted: int, taken: Collection[int]) -> int:
    if not taken:
        return _port(LOOPBACK, wanted, "--collector-port")
    if wanted:
        with contextlib.suppress(SettingsError):
            return _port(LOOPBACK, wanted + len(taken), "--collector-port")
    while (port := _port(LOOPBACK, 0, "--collector-port")) in taken:
        pass
    return port


def _words(actions: Iterable[argparse.Action], given: argparse.Namespace, defaults: Mapping[str, object]) -> list[str]:
    """Return the options of the app that say something else than their defaults."""
    found = []
    for action in actions:
        value = getattr(given, action.dest, None)
        if action.dest in _NOT_OF_THE_APP or value == defaults[action.dest]:
            continue
        texts = value if isinstance(value, list) else [value]
        found += [f"{action.option_strings[0]}={text}" for text in texts]
    return found
