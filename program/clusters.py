"""The clusters that ``watch`` is told of: tables ``[clusters.NAME]`` of the settings file, and variables as Kafbat has them.

``INDOUBT_CLUSTERS_0_NAME=eu`` says of which cluster the other variables of number 0 are. Behind the number stands what the
variable of a collector is called, or its flag. What is said of a cluster wins over what is said of all.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from indoubt.collector.config import settings as collector_settings
from indoubt.collector.config import tokens, variables
from indoubt.collector.config.settings import RELOADED
from indoubt.collector.config.variables import BOOTSTRAP_SERVERS, ENVIRONMENT_PREFIX, KAFKA_PREFIX
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.program import session

VARIABLE = re.compile(r"INDOUBT_CLUSTERS_([0-9]+)_([A-Z0-9_]+)")
_NAME, _PROPERTIES = "NAME", "PROPERTIES_"
_NOT_OF_A_CLUSTER = frozenset(
    {
        "host",
        "port",
        "cluster",
        "settings_file",
        "public_url",
        "trusted_proxy",
        "tls_certificate",
        "tls_key",
        "tls_by_proxy",
    }
    | {name.removeprefix(ENVIRONMENT_PREFIX).lower() for name in tokens.NAMES}
)
"""What ``watch`` says itself, for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster; two are equal if a collector of one would run as that of the other."""

    name: str
    """Empty: it has none, and there is no other."""
    servers: str
    directory: Path
    words: tuple[str, ...] = ()
    """Of its collector's command line, besides these."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is said of this cluster alone, by the variables of its collector."""
    keys: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Its table of the settings file, which its collector reads itself."""

    def becomes(self, other: Cluster) -> bool:
        """Say whether its collector becomes that of the other one by reading its settings again."""
        return _at_start(self) == _at_start(other)

    def environment(self, of_all: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of its collector: what is said of all, where nothing is said of this cluster."""
        if not self.name:
            return dict(of_all)
        own = {f"{ENVIRONMENT_PREFIX}{key.upper()}" for key in self.keys} | {BOOTSTRAP_SERVERS}
        has_properties = any(name.startswith(KAFKA_PREFIX) for name in own | self.variables.keys())
        kept = {
            name: text
            for name, text in of_all.items()
            if name not in own
            and not VARIABLE.fullmatch(name)
            and not (has_properties and name.startswith(KAFKA_PREFIX))
        }
        return {**kept, **self.variables}


def _at_start(cluster: Cluster) -> Cluster:
    """Return a cluster without the keys that a running collector takes over."""
    return replace(cluster, keys={key: value for key, value in cluster.keys.items() if key not in RELOADED})


def read(words: Sequence[str], environment: Mapping[str, str]) -> list[Cluster]:
    """Return the clusters that have names, those of the file first. Raises SettingsError."""
    tables, numbered = settings_file.clusters(words, environment), _variables(environment)
    found = [
        _cluster(name, tables.get(name), numbered.get(name, {}), environment)
        for name in dict.fromkeys([*tables, *numbered])
    ]
    directories: dict[Path, str] = {}
    for cluster in found:
        other = directories.setdefault(cluster.directory.absolute(), cluster.name)
        if other != cluster.name:
            raise SettingsError(
                f"clusters {other} and {cluster.name} have the same history, {cluster.directory}: are they one cluster?"
            )
    return found


def is_known(variable: str) -> bool:
    """Say whether a variable is one of a numbered cluster, and says something that a collector knows."""
    match = VARIABLE.fullmatch(variable)
    if match is None:
        return False
    what = match[2]
    return (
        what == _NAME
        or what.startswith((_PROPERTIES, "KAFKA_"))
        or what.lower() in {action.dest for action in collector_settings.command_line()._actions}
        or f"{ENVIRONMENT_PREFIX}{what}" in variables.known()
    )


def directory_of(servers: str, environment: Mapping[str, str]) -> Path:
    """Return where history is kept unless something else is said."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", servers)[:100]
    return session.state_directory(environment) / "history" / name


def _variables(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what the variables say, by the clusters' names and what stands behind the number."""
    by_number: dict[int, dict[str, str]] = {}
    for variable, text in environment.items():
        if match := VARIABLE.fullmatch(variable):
            by_number.setdefault(int(match[1]), {})[match[2]] = text
    found: dict[str, dict[str, str]] = {}
    for number, texts in sorted(by_number.items()):
        variable = f"INDOUBT_CLUSTERS_{number}_{_NAME}"
        name = texts.pop(_NAME, "")
        settings_file.check_cluster(variable, name)
        if name in found:
            raise SettingsError(f"{variable}: there is a cluster {name} already")
        found[name] = texts
    return found


def _cluster(
    name: str, table: settings_file.SettingsTable | None, texts: Mapping[str, str], environment: Mapping[str, str]
) -> Cluster:
    keys = table.keys if table is not None else {}
    flags = {action.dest: action for action in collector_settings.command_line()._actions}
    if wrong := sorted(_NOT_OF_A_CLUSTER & {*keys, *(what.lower() for what in texts)}):
        raise SettingsError(
            f"{wrong[0]} of cluster {name}: watch says that for all clusters; it is not for one of them"
        )
    words, own = list[str](), dict[str, str]()
    for what, text in texts.items():
        if what.startswith(_PROPERTIES):
            what = f"KAFKA_{what.removeprefix(_PROPERTIES)}"
        variable, flag = f"{ENVIRONMENT_PREFIX}{what}", flags.get(what.lower())
        if flag is None or variable in collector_settings.VARIABLES_OF_FLAGS.values():
            own[variable] = text
        else:
            words += _words(flag, text)
    servers = own.pop(BOOTSTRAP_SERVERS, "") or str(keys.get("bootstrap_servers", ""))
    if not servers:
        raise SettingsError(f"cluster {name} has no bootstrap_servers; they are HOST:PORT of its brokers")
    directory = next((word.partition("=")[2] for word in words if word.startswith("--directory=")), "")
    return Cluster(
        name=name,
        servers=servers,
        directory=Path(directory or keys.get("directory", "") or directory_of(servers, environment)),
        words=tuple(word for word in words if not word.startswith("--directory=")),
        variables=own,
        keys=keys,
    )


def _words(flag: argparse.Action, text: str) -> Iterator[str]:
    option = flag.option_strings[0]
    if flag.const is True:
        if text not in ("true", "false"):
            raise SettingsError(f"{option} of a cluster is {text!r}; it takes true or false")
        yield from [option] if text == "true" else []
        return
    for part in text.split(",") if isinstance(flag.default, list) else [text]:
        yield f"{option}={part.strip()}"
