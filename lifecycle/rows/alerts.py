"""Rows of GET /alerts, /silences and /receivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indoubt.lifecycle.verdicts import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """What one rule found; ``since_ms``: in this state, ``silenced_by``: the number of a silence.

    ``group``: the batch or application that it is about, in words. ``path``: the page of what it is about. ``remedy``: what ends
    it: commit, abort, restart, start or open. ``absent_at_ms``: since when it fires and is not found any more, None while it is.
    """

    key: str
    rule: str
    state: str
    severity: str
    summary: str
    evidence: tuple[Evidence, ...]
    labels: Mapping[str, str]
    since_ms: int
    found_at_ms: int
    fired_at_ms: int | None
    absent_at_ms: int | None
    name: str
    group: str
    remedy: str
    path: str
    silenced_by: int | None

    @property
    def subject(self) -> str:
        """Return what names it within its rule."""
        return self.key.partition("|")[2]

    @property
    def is_over(self) -> bool:
        """True once it is resolved."""
        return self.state == "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRow:
    """A silence by its number: no notification is sent about alerts whose labels match, until it ends."""

    silence: int
    matchers: Mapping[str, str]
    reason: str
    author: str
    starts_at_ms: int
    ends_at_ms: int
    state: str

    @property
    def is_active(self) -> bool:
        """True from its start to its end."""
        return self.state == "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverRow:
    """One receiver of notifications: those that wait for it, those given up, and why its newest one failed."""

    receiver: str
    waiting: int
    oldest_at_ms: int | None
    given_up: int
    error: str
