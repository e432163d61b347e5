"""What the options name that watch, start or link to something outside: directories, REST APIs, commands, the app's address."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.checkpoint_location import SCHEMES

ALL_NAMESPACES = "*"
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
FLINK_SCHEMES = (*SCHEMES, "s3p")
"""Flink also names S3 so, by the plugin that reads it (flink-s3-fs-presto)."""


def named(option: str, given: Sequence[str], takes: str, *, once: bool = True) -> Iterator[tuple[str, str]]:
    """Yield name and text of each ``NAME=TEXT``. Raises SettingsError that never shows a text: it may hold a password."""
    seen: set[str] = set()
    for each in given:
        name, _, text = each.partition("=")
        if not name or not text:
            raise SettingsError(f"{option} {name} takes {takes}")
        if once and name in seen:
            raise SettingsError(f"{option} {name} is given twice")
        seen.add(name)
        yield name, text


def checkpoints(given: Sequence[str]) -> dict[str, str]:
    """Return path or URI of each checkpoint directory, by the pipeline's name. Raises SettingsError."""
    return dict(_locations("--checkpoint", given, SCHEMES))


def flink_checkpoints(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return paths or URIs of the directories below which Flink's jobs keep checkpoints, by the cluster's name.

    A cluster may have several. Raises SettingsError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, location in _locations("--flink-checkpoints", given, FLINK_SCHEMES, once=False):
        found[name] = (*found.get(name, ()), location)
    return found


def _locations(
    option: str, given: Sequence[str], schemes: Sequence[str], *, once: bool = True
) -> Iterator[tuple[str, str]]:
    for name, location in named(option, given, "NAME=DIR or NAME=URI", once=once):
        scheme = location.partition("://")[0] if "://" in location else "file"
        if scheme not in schemes:
            raise SettingsError(f"{option} {name} has scheme {scheme!r}; it takes {', '.join(schemes)}")
        if urlsplit(location).password:
            raise SettingsError(f"{option} {name} holds a password; the storage's own environment variables take it")
        yield name, location


def flink(given: Sequence[str]) -> dict[str, str]:
    """Return the address of each REST API, by the cluster's name. Raises SettingsError that never shows an address."""
    found: dict[str, str] = {}
    takes = "NAME=URL, with the URL of a REST API such as http://host:8081"
    for name, url in named("--flink", given, takes):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"--flink {name} takes {takes}")
        if parts.username or parts.password:
            raise SettingsError(
                f"--flink {name} holds a user, and everybody who sees the setting would see it: give --flink-properties {name}=FILE"
            )
        found[name] = url
    return found


def namespaces(given: Sequence[str]) -> tuple[str, ...]:
    """Return the namespaces of Kubernetes in which Flink's clusters are found. Raises SettingsError."""
    for name in given:
        if name != ALL_NAMESPACES and not _NAMESPACE.fullmatch(name):
            raise SettingsError(
                f"--flink-kubernetes is {name!r}; it takes a namespace of Kubernetes, or {ALL_NAMESPACES} for all"
            )
    if ALL_NAMESPACES in given and len(set(given)) > 1:
        raise SettingsError(f"--flink-kubernetes has {ALL_NAMESPACES}, which is all namespaces, and names others, too")
    return tuple(dict.fromkeys(given))


def require_cluster(
    option: str, name: str, clusters: Collection[str], namespaces: Collection[str], remedy: str = ""
) -> None:
    """Return if there is a Flink cluster of this name, or Kubernetes may find one: NAMESPACE.NAME. Raises SettingsError."""
    namespace, dot, short = name.partition(".")
    may_be_found = dot and short and (ALL_NAMESPACES in namespaces or namespace in namespaces)
    if name not in clusters and not may_be_found:
        raise SettingsError(f"{option} {name} names no cluster: give --flink {name}=URL{remedy} too")


def flink_kafka(given: Sequence[str], clusters: Collection[str], namespaces: Collection[str]) -> dict[str, bool]:
    """Return whether each Flink cluster's jobs write to this Kafka cluster only, where that is said. Raises SettingsError."""
    found: dict[str, bool] = {}
    for name, says in named("--flink-kafka", given, "NAME=only or NAME=others"):
        if says not in ("only", "others"):
            raise SettingsError(f"--flink-kafka {name} is {says!r}; it takes NAME=only or NAME=others")
        require_cluster("--flink-kafka", name, clusters, namespaces)
        found[name] = says == "only"
    return found


def start_commands(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of each command, by the pipeline's prefix. Raises SettingsError that never shows a command."""
    found: dict[str, tuple[str, ...]] = {}
    takes = "NAME=COMMAND, such as ip-count=systemctl start ip-count"
    for name, command in named("--start-command", given, takes):
        try:
            found[name] = tuple(shlex.split(command))
        except ValueError as error:
            raise SettingsError(f"--start-command {name} cannot be read: {str(error).lower()}") from None
        if not found[name]:
            raise SettingsError(f"--start-command {name} takes {takes}")
    return found


def public_url(url: str) -> str:
    """Return the app's address as people reach it, without a slash at its end; empty: there is none. Raises SettingsError."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if url and not (
        is_address and url.isascii() and url.isprintable() and not any(sign in url for sign in " <>|\"'\\")
    ):
        raise SettingsError(
            f"--public-url is {url!r}; it takes http:// or https:// with the host at which people open the app"
        )
    if url and (parts.username is not None or "?" in url or "#" in url):
        raise SettingsError(
            "--public-url takes the app's address without a user, a query or a fragment: pages are added to it"
        )
    if parts.path.strip("/"):
        raise SettingsError(
            f"--public-url is {url!r}; it takes no path: the app's pages lie at the root of their host, "
            "so give them a host name of their own"
        )
    return url.rstrip("/")
