"""What the app is told at start: where the collector is, and the token that it asks with. See docs/settings.md."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lifecycle.errors import SettingsError

COLLECTOR_URL = "INDOUBT_COLLECTOR_URL"
TOKEN = "INDOUBT_TOKEN"
TOKEN_FILE = "INDOUBT_TOKEN_FILE"
COLLECTOR_CA = "INDOUBT_COLLECTOR_CA"
TROUBLE_URL = "INDOUBT_TROUBLE_URL"

DEFAULT_COLLECTOR_URL = "http://127.0.0.1:8650"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Addresses without a trailing slash; ``trouble_url`` is set in the demo only."""

    collector_url: str
    trouble_url: str | None = None
    token_file: Path | None = None
    collector_ca: Path | None = None
    _token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the settings. Raises SettingsError that names the variable."""
        token, token_file = environment.get(TOKEN, "").strip(), environment.get(TOKEN_FILE, "").strip()
        if not token and not token_file:
            raise SettingsError(f"no token: set {TOKEN}, or {TOKEN_FILE} (--token-file) to a file that holds it")
        trouble = environment.get(TROUBLE_URL, "").strip()
        return cls(
            collector_url=_address(COLLECTOR_URL, environment.get(COLLECTOR_URL) or DEFAULT_COLLECTOR_URL),
            trouble_url=_address(TROUBLE_URL, trouble) if trouble else None,
            token_file=Path(token_file) if token_file else None,
            collector_ca=_authority(environment.get(COLLECTOR_CA, "").strip()),
            _token=token,
        )

    def tls(self) -> ssl.SSLContext:
        """Return what the collector's certificate is checked by: its own authority where one is named, else the system's."""
        return ssl.create_default_context(cafile=self.collector_ca)

    def token(self) -> str:
        """Return the bearer token, read anew from its file so that a changed one is taken up. Raises SettingsError."""
        if self.token_file is None:
            return self._token
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(f"{TOKEN_FILE} {self.token_file} cannot be read: {error.strerror}") from None
        if not token:
            raise SettingsError(f"{TOKEN_FILE} {self.token_file} is empty; it takes the token on one line")
        return token


def _authority(text: str) -> Path | None:
    if not text:
        return None
    try:
        ssl.create_default_context(cafile=text)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{COLLECTOR_CA} {text} cannot be used ({error.strerror or error}); it takes a PEM file of certificates"
        ) from None
    return Path(text)


def _address(name: str, text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{name} is {text!r}; it takes an address like {DEFAULT_COLLECTOR_URL}")
    if parts.username or parts.password:
        raise SettingsError(f"{name} holds a user name or password; the token goes to {TOKEN} or {TOKEN_FILE}")
    return text.rstrip("/")
