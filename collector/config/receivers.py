"""Which receivers there are: addresses and secrets, from the environment alone. No message and no repr shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError

WEBHOOK_URL, WEBHOOK_SECRET = "INDOUBT_WEBHOOK_URL", "INDOUBT_WEBHOOK_SECRET"
SLACK_URL = "INDOUBT_SLACK_URL"
ALERTMANAGER_URL, ALERTMANAGER_TOKEN = "INDOUBT_ALERTMANAGER_URL", "INDOUBT_ALERTMANAGER_TOKEN"
NAMES = frozenset({WEBHOOK_URL, WEBHOOK_SECRET, SLACK_URL, ALERTMANAGER_URL, ALERTMANAGER_TOKEN})
MIN_SECRET = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One HTTP POST: its headers may hold a token and its address may be one, so repr shows neither."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)


class Notifier(Protocol):
    """Says what a receiver is sent; sends nothing itself."""

    @property
    def name(self) -> str:
        """Return the receiver's name, as the outbox, logs and metrics have it."""

    def post(self, notification: Mapping[str, Any], now_ms: int) -> Post:
        """Return the POST of a notification (its JSON) as of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """Addresses and secrets as they were given; empty: not given."""

    webhook_url: str = field(default="", repr=False)
    webhook_secret: str = field(default="", repr=False)
    slack_url: str = field(default="", repr=False)
    alertmanager_url: str = field(default="", repr=False)
    alertmanager_token: str = field(default="", repr=False)


def read(environment: Mapping[str, str]) -> ReceiverSettings:
    """Return the settings. Raises SettingsError that names the variable and never its value."""
    given = {name.removeprefix("INDOUBT_").lower(): environment.get(name, "") for name in NAMES}
    for name in (WEBHOOK_URL, SLACK_URL, ALERTMANAGER_URL):
        if environment.get(name):
            _check_url(name, environment[name])
    if bool(environment.get(WEBHOOK_URL)) != bool(environment.get(WEBHOOK_SECRET)):
        raise SettingsError(f"{WEBHOOK_URL} and {WEBHOOK_SECRET} go together: what is sent is signed")
    if environment.get(WEBHOOK_SECRET) and len(environment[WEBHOOK_SECRET]) < MIN_SECRET:
        raise SettingsError(f"{WEBHOOK_SECRET} takes {MIN_SECRET} characters or more")
    if environment.get(ALERTMANAGER_TOKEN) and not environment.get(ALERTMANAGER_URL):
        raise SettingsError(f"{ALERTMANAGER_TOKEN} is given without {ALERTMANAGER_URL}")
    return ReceiverSettings(**given)


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or any(character.isspace() for character in url):
        raise SettingsError(f"{name} is not an address; it takes http:// or https:// with a host")
