"""The app's settings: the collector's address and the token for its API. See docs/settings.md."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.settings_file import CLUSTER_NAME
from indoubt.lifecycle.text_files import text_of

COLLECTOR_URL = "INDOUBT_COLLECTOR_URL"
TOKEN = "INDOUBT_TOKEN"
TOKEN_FILE = "INDOUBT_TOKEN_FILE"
COLLECTOR_CA = "INDOUBT_COLLECTOR_CA"
FAULT_INJECTION_URL = "INDOUBT_FAULT_INJECTION_URL"
LOOK_ONLY = "INDOUBT_LOOK_ONLY"

DEFAULT_COLLECTOR_URL = "http://127.0.0.1:8650"
Known = TypeVar("Known")
_NAMED = re.compile(f"(?P<name>{CLUSTER_NAME.pattern})=(?P<rest>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Addresses have no trailing slash; only the demo sets ``fault_injection_url``."""

    collector_url: str
    cluster: str = ""
    """Whose collector that is; empty: it is the only one, and has no name here."""
    fault_injection_url: str | None = None
    token_file: Path | None = None
    collector_ca: Path | None = None
    look_only: bool = False
    """The pages give no orders, whatever the token may."""
    _token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings, of the first collector where there are several. Raises SettingsError with the variable's name."""
        return next(iter(cls.by_cluster(environment).values()))

    @classmethod
    def by_cluster(cls, environment: Mapping[str, str] = os.environ) -> dict[str, Settings]:
        """Return the settings for each collector, by the cluster's name. Raises SettingsError with the variable's name."""
        addresses = _by_cluster(environment.get(COLLECTOR_URL) or DEFAULT_COLLECTOR_URL)
        files = _by_cluster(environment.get(TOKEN_FILE, "").strip())
        if not files.keys() <= addresses.keys():
            files = {"": environment.get(TOKEN_FILE, "").strip()}
        if len(set(addresses.values())) < len(addresses):
            raise SettingsError(f"{COLLECTOR_URL} gives one address to two clusters")
        return {
            name: cls._of(name, url, files.get(name, files.get("", "")), environment) for name, url in addresses.items()
        }

    @classmethod
    def _of(cls, cluster: str, url: str, token_file: str, environment: Mapping[str, str]) -> Settings:
        token = environment.get(TOKEN, "").strip()
        if not token and not token_file:
            raise SettingsError(f"no token: set {TOKEN}, or set {TOKEN_FILE} (--token-file) to a file that contains it")
        fault_injection = environment.get(FAULT_INJECTION_URL, "").strip()
        return cls(
            collector_url=_address(COLLECTOR_URL, url),
            cluster=cluster,
            fault_injection_url=_address(FAULT_INJECTION_URL, fault_injection) if fault_injection else None,
            token_file=Path(token_file) if token_file else None,
            collector_ca=_authority(environment.get(COLLECTOR_CA, "").strip()),
            look_only=_is_true(LOOK_ONLY, environment),
            _token=token,
        )

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context that checks the collector's certificate, by ``collector_ca`` or the system's authorities."""
        if self.collector_url.startswith("http://"):
            # It trusts no certificate. To read the system's authorities takes 15 ms, and the pages wait for it.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context(cafile=self.collector_ca)

    def token(self) -> str:
        """Return the bearer token. Each call reads the file again, so a new token takes effect. Raises SettingsError."""
        if self.token_file is None:
            return self._token
        token = text_of(self.token_file, TOKEN_FILE).strip()
        if not token:
            raise SettingsError(f"{TOKEN_FILE} {self.token_file} is empty; write the token into it, on one line")
        return token


def of_cluster(known: Mapping[str, Known], cluster: str) -> Known | None:
    """Return what belongs to a cluster of this name; None: nothing.

    What there is one of alone also belongs to a page that names no cluster; without a name here, to any cluster.
    """
    if len(known) == 1 and (not cluster or "" in known):
        return next(iter(known.values()))
    return known.get(cluster)


def _by_cluster(text: str) -> dict[str, str]:
    """Return the parts of ``NAME=…,NAME=…`` by their names, or what has no names as one without."""
    named = [_NAMED.fullmatch(part.strip()) for part in text.split(",")]
    found = {part["name"]: part["rest"] for part in named if part is not None}
    return found if len(found) == len(named) else {"": text}


def _is_true(name: str, environment: Mapping[str, str]) -> bool:
    text = environment.get(name) or "false"
    if text not in ("true", "false"):
        raise SettingsError(f"{name} is {text!r}; it takes true or false")
    return text == "true"


def _authority(text: str) -> Path | None:
    if not text:
        return None
    try:
        ssl.create_default_context(cafile=text)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{COLLECTOR_CA} {text} cannot be used ({error.strerror or error}); it must be a PEM file of certificates"
        ) from None
    return Path(text)


def _address(name: str, text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{name} is {text!r}; it must be an address like {DEFAULT_COLLECTOR_URL}")
    if parts.username or parts.password:
        raise SettingsError(
            f"{name} contains a user name or password; set the token in {TOKEN} or {TOKEN_FILE} instead"
        )
    return text.rstrip("/")
