"""The app's settings: the collector's address and the token for its API. See docs/settings.md."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.text_files import text_of

COLLECTOR_URL = "INDOUBT_COLLECTOR_URL"
TOKEN = "INDOUBT_TOKEN"
TOKEN_FILE = "INDOUBT_TOKEN_FILE"
COLLECTOR_CA = "INDOUBT_COLLECTOR_CA"
FAULT_INJECTION_URL = "INDOUBT_FAULT_INJECTION_URL"

DEFAULT_COLLECTOR_URL = "http://127.0.0.1:8650"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Addresses have no trailing slash; only the demo sets ``fault_injection_url``."""

    collector_url: str
    fault_injection_url: str | None = None
    token_file: Path | None = None
    collector_ca: Path | None = None
    _token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings. Raises SettingsError with the variable's name."""
        token, token_file = environment.get(TOKEN, "").strip(), environment.get(TOKEN_FILE, "").strip()
        if not token and not token_file:
            raise SettingsError(f"no token: set {TOKEN}, or set {TOKEN_FILE} (--token-file) to a file that contains it")
        fault_injection = environment.get(FAULT_INJECTION_URL, "").strip()
        return cls(
            collector_url=_address(COLLECTOR_URL, environment.get(COLLECTOR_URL) or DEFAULT_COLLECTOR_URL),
            fault_injection_url=_address(FAULT_INJECTION_URL, fault_injection) if fault_injection else None,
            token_file=Path(token_file) if token_file else None,
            collector_ca=_authority(environment.get(COLLECTOR_CA, "").strip()),
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
