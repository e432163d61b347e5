"""What the collector says of alerts, silences and receivers, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_*`` raise ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.collector_json import read_evidence, read_int, read_text
from app.collector_rows import Json
from lifecycle.verdicts import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What one rule found; ``since_ms``: in this state, ``silenced_by``: the number of a silence, or None."""

    key: str
    rule: str
    name: str
    state: str
    severity: str
    summary: str
    evidence: tuple[Evidence, ...]
    labels: Mapping[str, str]
    since_ms: int | None
    silenced_by: int | None

    @property
    def is_over(self) -> bool:
        """True once it is resolved."""
        return self.state == "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Who has whom not told of which alerts until when."""

    number: int
    matchers: Mapping[str, str]
    reason: str
    author: str
    ends_ms: int
    is_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """How one that is told of alerts stands: what waits for it, what was given up, and why its newest attempt failed."""

    name: str
    waiting: int
    oldest_ms: int | None
    given_up: int
    error: str


def read_alert(value: Json) -> Alert:
    """Return a row of the alerts."""
    return Alert(
        key=str(value["key"]),
        rule=read_text(value["rule"]),
        name=read_text(value["name"]),
        state=read_text(value["state"]),
        severity=read_text(value["severity"]),
        summary=read_text(value["summary"]),
        evidence=read_evidence(value),
        labels=_labels(value["labels"]),
        since_ms=read_int(value["since_ms"]),
        silenced_by=read_int(value["silenced_by"]),
    )


def read_silence(value: Json) -> Silence:
    """Return a row of the silences."""
    return Silence(
        number=int(value["silence"]),
        matchers=_labels(value["matchers"]),
        reason=read_text(value["reason"]),
        author=read_text(value["author"]),
        ends_ms=int(value["ends_at_ms"]),
        is_active=value["state"] == "active",
    )


def read_receiver(value: Json) -> Receiver:
    """Return a row of the receivers."""
    return Receiver(
        name=read_text(value["receiver"]),
        waiting=int(value["waiting"]),
        oldest_ms=read_int(value["oldest_at_ms"]),
        given_up=int(value["given_up"]),
        error=read_text(value["error"]),
    )


def _labels(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()}
