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


def checkpoints(given: Sequence[str]) -> dict[str, str]:
    """Return path or URI of each checkpoint directory, by the pipeline's name. Raises SettingsError."""
    found: dict[str, str] = {}
    for name, location in _locations("--checkpoint", given, SCHEMES):
        if name in found:
            raise SettingsError(f"--checkpoint {name} is given twice")
        found[name] = location
    return found


def flink_checkpoints(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return paths or URIs of the directories below which Flink's jobs keep checkpoints, by the cluster's name.

    A cluster may have several. Raises SettingsError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, location in _locations("--flink-checkpoints", given, FLINK_SCHEMES):
        found[name] = (*found.get(name, ()), location)
    return found


def _locations(option: str, given: Sequence[str], schemes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, _, location = text.partition("=")
        if not name or not location:
            raise SettingsError(f"{option} is {text!r}; it takes NAME=DIR or NAME=URI")
        scheme = location.partition("://")[0] if "://" in location else "file"
        if scheme not in schemes:
            raise SettingsError(f"{option} {name} has scheme {scheme!r}; it takes {', '.join(schemes)}")
        if urlsplit(location).password:
            raise SettingsError(f"{option} {name} holds a password; the storage's own environment variables take it")
        yield name, location


def flink(given: Sequence[str]) -> dict[str, str]:
    """Return the address of each REST API, by the cluster's name. Raises SettingsError that never shows an address."""
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


def may_be_found(cluster: str, namespaces: Collection[str]) -> bool:
    """Say whether Kubernetes may find a Flink cluster of this name: NAMESPACE.NAME."""
    namespace, dot, name = cluster.partition(".")
    return bool(dot and name) and (ALL_NAMESPACES in namespaces or namespace in namespaces)


def flink_kafka(given: Sequence[str], clusters: Collection[str], namespaces: Collection[str]) -> dict[str, bool]:
    """Return whether each Flink cluster's jobs write to this Kafka cluster only, where that is said. Raises SettingsError."""
    found: dict[str, bool] = {}
    for text in given:
        name, _, says = text.partition("=")
        if not name or says not in ("only", "others"):
            raise SettingsError(f"--flink-kafka is {text!r}; it takes NAME=only or NAME=others")
        if name in found:
            raise SettingsError(f"--flink-kafka {name} is given twice")
        if name not in clusters and not may_be_found(name, namespaces):
            raise SettingsError(f"--flink-kafka {name} names no cluster: give --flink {name}=URL too")
        found[name] = says == "only"
    return found


def start_commands(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of each command, by the pipeline's prefix. Raises SettingsError that never shows a command."""
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, command = text.partition("=")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise SettingsError(f"--start-command {name} cannot be read: {str(error).lower()}") from None
        if not name or not words:
            # The command itself stays out of the message: it may hold a password.
            raise SettingsError(f"--start-command {name} takes NAME=COMMAND, such as ip-count=systemctl start ip-count")
        if name in found:
            raise SettingsError(f"--start-command {name} is given twice")
        found[name] = words
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
