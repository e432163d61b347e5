"""How a Flink REST API is reached that does not answer everybody: ``--flink-properties NAME=FILE``."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from indoubt.collector.config.named_locations import named, require_cluster
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.text_files import known_properties

OPTION = "--flink-properties"
CA, CERTIFICATE, KEY, KEY_PASSWORD = "ca.location", "certificate.location", "key.location", "key.password"
USERNAME, PASSWORD, BEARER_TOKEN = "username", "password", "bearer.token"
_TLS = (CA, CERTIFICATE, KEY, KEY_PASSWORD)
_LOGIN = (USERNAME, PASSWORD, BEARER_TOKEN)
KEYS = (*_TLS, *_LOGIN)
PAIRS = ((CERTIFICATE, KEY), (KEY, CERTIFICATE), (KEY_PASSWORD, KEY), (USERNAME, PASSWORD), (PASSWORD, USERNAME))
"""What is given needs the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkAccess:
    """Authority, client certificate and login for one REST API; ``properties`` are never shown."""

    file: str
    properties: Mapping[str, str] = field(repr=False)

    def tls(self) -> ssl.SSLContext:
        """Return what verifies the server and holds the client's certificate. Raises SettingsError naming file and key."""
        context = ssl.create_default_context()
        if CA in self.properties:
            try:
                context = ssl.create_default_context(cafile=self.properties[CA])
            except (OSError, ValueError) as error:
                raise self._wrong(CA, error) from None
        if CERTIFICATE in self.properties:
            for key in (CERTIFICATE, KEY):
                try:
                    Path(self.properties[key]).read_bytes()
                except OSError as error:
                    raise self._wrong(key, error) from None
            try:
                # An empty password for an encrypted key: without one Python would ask for it on the terminal.
                context.load_cert_chain(
                    self.properties[CERTIFICATE], self.properties[KEY], self.properties.get(KEY_PASSWORD, "")
                )
            except (OSError, ValueError) as error:
                raise self._wrong(f"{CERTIFICATE} or {KEY}", error) from None
        return context

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the login, none where there is no login."""
        if USERNAME in self.properties:
            pair = f"{self.properties[USERNAME]}:{self.properties[PASSWORD]}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {"Authorization": f"Bearer {self.properties[BEARER_TOKEN]}"} if BEARER_TOKEN in self.properties else {}

    def check(self, url: str) -> None:
        """Return if these properties go together and with the URL. Raises SettingsError naming file and key."""
        require_pairs(self.file, self.properties, PAIRS)
        if USERNAME in self.properties and BEARER_TOKEN in self.properties:
            raise SettingsError(f"{self.file}: {USERNAME} and {BEARER_TOKEN} exclude each other: give one")
        if urlsplit(url).scheme == "http":
            for key in self.properties:
                if key in _TLS:
                    raise SettingsError(f"{self.file}: {key} needs an address with https://")
                if not is_loopback(urlsplit(url).hostname or ""):
                    raise SettingsError(f"{self.file}: {key} would be sent in clear; it needs an address with https://")
        self.tls()

    def _wrong(self, key: str, error: Exception) -> SettingsError:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        return SettingsError(f"{self.file}: {key} cannot be used ({reason}); it takes a PEM file")


def require_pairs(file: str, properties: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> None:
    """Return if the properties of a file go together. Raises SettingsError naming file and key."""
    for given, other in pairs:
        if given in properties and other not in properties:
            raise SettingsError(f"{file}: {other} is missing; {given} needs it")


def is_loopback(host: str) -> bool:
    """Say whether only this machine is reached so."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_flink_access(
    given: Sequence[str], clusters: Mapping[str, str], namespaces: Collection[str] = ()
) -> dict[str, FlinkAccess]:
    """Return the access of ``NAME=FILE`` options by the cluster's name; ``clusters`` are the addresses of ``--flink``.

    ``namespaces``: of ``--flink-kubernetes``; what is found there is named before it is found.

    A file has lines ``key=value`` (``#`` comments). Raises SettingsError that names file, line and key, never a value.
    """
    found: dict[str, FlinkAccess] = {}
    for name, file in named(OPTION, given, "NAME=FILE"):
        require_cluster(OPTION, name, clusters, namespaces)
        found[name] = FlinkAccess(file=file, properties=_properties(file))
        found[name].check(clusters.get(name, "https://"))
    return found


def _properties(file: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for where, key, value in known_properties(file, OPTION, KEYS):
        if not value or not (value.isascii() or key in (CA, CERTIFICATE, KEY)) or not value.isprintable():
            raise SettingsError(f"{where}: {key} is empty, or has characters that cannot be sent")
        found[key] = value
    return found
