"""One TOML file for the settings of every part: a table each, so that they need not be typed as flags or variables.

A key is the name of a flag, with underscores. A flag wins over the environment, and the environment over the file.
Variables that Kubernetes puts there are no program's settings: every pod gets them, of every Service in its namespace (one named
``indoubt-collector`` becomes INDOUBT_COLLECTOR_…), unless it has ``enableServiceLinks: false``.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.text_files import text_of

OPTION = "--settings-file"
VARIABLE = "INDOUBT_SETTINGS_FILE"
TABLES = ("collector", "app", "pipeline")
CLUSTERS = "clusters"
CLUSTER_OPTION, CLUSTER_VARIABLE = "--cluster", "INDOUBT_CLUSTER"
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""What a cluster may be called: it stands in addresses, labels and names of files."""
_BY_NAME = re.compile(
    r"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_PORT, _ADDRESS = re.compile(r"[A-Z0-9_]+_PORT"), re.compile(r"(?:tcp|udp|sctp)://\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    """One part's table of the file; empty where no file is named. Errors say ``table.key in file``."""

    table: str
    file: str
    keys: Mapping[str, Any]
    of_cluster: Mapping[str, str] = field(default_factory=dict)
    """The cluster's table of each key that stands there."""

    def origin(self, key: str) -> str:
        """Return where a key stands."""
        return f"{self.of_cluster.get(key, self.table)}.{key} in {self.file}"

    def text(self, key: str) -> str:
        """Return a key's value as text. Raises SettingsError unless it is a text or a whole number."""
        return _text(self.origin(key), self.keys[key])

    def set_defaults(self, parser: argparse.ArgumentParser) -> list[str]:
        """Give the parser's flags the values of their keys; return the keys that are no flag's. Raises SettingsError."""
        flags = {action.dest: action for action in parser._actions if action.dest not in ("help", "version")}
        parser.set_defaults(**{key: self._default(key, flags[key]) for key in self.keys if key in flags})
        return [key for key in self.keys if key not in flags]

    def _default(self, key: str, flag: argparse.Action) -> object:
        origin, value = self.origin(key), self.keys[key]
        if flag.const is True:
            if not isinstance(value, bool):
                raise SettingsError(f"{origin} is {value!r}; it takes true or false")
            return value
        if not isinstance(flag.default, list):
            return _text(origin, value)
        if isinstance(value, dict):
            return [f"{name}={_text(origin, text)}" for name, text in value.items()]
        if isinstance(value, str) and str(flag.metavar).startswith("[NAME=]"):
            return [value]
        if isinstance(value, list):
            return [_text(origin, text) for text in value]
        raise SettingsError(f"{origin} is {value!r}; it takes a list, or a table of names")


def add_option(parser: argparse.ArgumentParser, table: str) -> None:
    """Let the command line name the file."""
    parser.add_argument(OPTION, default="", metavar="FILE", help=f"TOML file with a table [{table}] (or {VARIABLE})")


def read(
    table: str, arguments: Sequence[str], environment: Mapping[str, str], variables: Mapping[str, str]
) -> SettingsTable:
    """Return the table of the file that flag or variable names. Raises SettingsError that names the file.

    ``variables``: by flag, the variable that stands for it; where the environment has it, the file's key counts no more. A
    collector of a named cluster has the keys of ``[clusters.NAME]``, and those of ``[collector]`` that are not there.
    """
    file = _named_file(arguments, environment)
    tables = _tables(file) if file else {}
    cluster = cluster_of(arguments, environment) if table == "collector" else ""
    own = tables.get(CLUSTERS, {}).get(cluster, {})
    keys = {
        key: value
        for key, value in {**tables.get(table, {}), **own}.items()
        if not environment.get(variables.get(key, ""))
    }
    return SettingsTable(table=table, file=file, keys=keys, of_cluster=dict.fromkeys(own, f"{CLUSTERS}.{cluster}"))


def clusters(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, SettingsTable]:
    """Return the tables ``[clusters.NAME]`` of the file by their names, in its order. Raises SettingsError."""
    file = _named_file(arguments, environment)
    found = _tables(file).get(CLUSTERS, {}) if file else {}
    return {name: SettingsTable(table=f"{CLUSTERS}.{name}", file=file, keys=keys) for name, keys in found.items()}


def cluster_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the name of the cluster that flag or variable names, or an empty text. Raises SettingsError where it can be none."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument(CLUSTER_OPTION, default=environment.get(CLUSTER_VARIABLE, ""))
    name: str = finder.parse_known_args(arguments)[0].cluster
    if name:
        check_cluster(CLUSTER_OPTION, name)
    return name


def check_cluster(origin: str, name: str) -> None:
    """Return if a cluster may be called so. Raises SettingsError."""
    if not CLUSTER_NAME.fullmatch(name):
        raise SettingsError(f"{origin} is {name!r}; it takes a name of letters, digits, '.', '_' and '-'")


def _named_file(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_option(finder, "")
    return str(finder.parse_known_args(arguments)[0].settings_file or environment.get(VARIABLE, ""))


def _tables(file: str) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(text_of(file, OPTION))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{OPTION} {file} is not TOML: {error}") from None
    for name, keys in tables.items():
        if name == CLUSTERS and isinstance(keys, dict):
            _check_clusters(file, keys)
        elif name not in TABLES or not isinstance(keys, dict):
            known = ", ".join(f"[{known}]" for known in (*TABLES, f"{CLUSTERS}.NAME"))
            raise SettingsError(f"{name!r} in {file} is not one of the tables {known}")
    return tables


def _check_clusters(file: str, tables: Mapping[str, Any]) -> None:
    for name, keys in tables.items():
        check_cluster(f"{CLUSTERS}.{name} in {file}", name)
        if not isinstance(keys, dict):
            raise SettingsError(f"{CLUSTERS}.{name} in {file} is {keys!r}; it takes a table [{CLUSTERS}.{name}]")


def _text(origin: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise SettingsError(f"{origin} is {value!r}; it takes a text or a whole number")
    return str(value)


def is_of_a_service(name: str, value: str) -> bool:
    """Say whether Kubernetes named a variable so for a Service: by its name, and of ``…_PORT`` by its value too.

    ``INDOUBT_PORT=tcp://10.0.0.1:8650`` is a Service's, ``INDOUBT_PORT=8650`` was written by a person.
    """
    if _BY_NAME.fullmatch(name):
        return True
    return bool(_PORT.fullmatch(name) and _ADDRESS.fullmatch(value))
