"""Silences: alerts that match are judged and shown as ever, without a notification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from collector.assess.findings import LABELS
from lifecycle.errors import IndoubtError

MIN_REASON, MAX_REASON = 3, 2_000
LONGEST_MS = 30 * 24 * 3_600_000
_FIELDS = ("matchers", "reason", "ends_at_ms", "duration_ms")


class InvalidSilence(IndoubtError):
    """A silence lacks a field or has a wrong one; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Who silenced what until when, and why. ``matchers``: label -> text, in which ``*`` stands for anything."""

    number: int
    matchers: Mapping[str, str]
    reason: str
    author: str
    starts_ms: int
    ends_ms: int

    def covers(self, labels: Mapping[str, str], now_ms: int) -> bool:
        """Say whether an alert with these labels is silenced now: every matcher must match, a missing label is empty."""
        if not self.starts_ms <= now_ms < self.ends_ms:
            return False
        return all(fnmatchcase(labels.get(name, ""), _escaped(text)) for name, text in self.matchers.items())


def covering(silences: Iterable[Silence], labels: Mapping[str, str], now_ms: int) -> Silence | None:
    """Return the silence that covers these labels for longest, or None."""
    found = [silence for silence in silences if silence.covers(labels, now_ms)]
    return max(found, key=lambda silence: (silence.ends_ms, silence.number), default=None)


def read(body: Any, author: str, now_ms: int) -> Silence:
    """Return the silence (number 0: none yet) of a JSON body. Raises InvalidSilence that names the field."""
    if not isinstance(body, dict):
        raise InvalidSilence("a silence is a JSON object")
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        raise InvalidSilence(f"a silence has no field {unknown[0]!r}; it has {', '.join(_FIELDS)}")
    return Silence(
        number=0,
        matchers=_matchers(body.get("matchers")),
        reason=read_reason(body.get("reason")),
        author=author,
        starts_ms=now_ms,
        ends_ms=_ends_ms(body, now_ms),
    )


def read_reason(value: Any) -> str:
    """Return a reason. Raises InvalidSilence."""
    reason = value.strip() if isinstance(value, str) and len(value) <= MAX_REASON else ""
    if len(reason) < MIN_REASON:
        raise InvalidSilence(f"'reason' takes {MIN_REASON} to {MAX_REASON} characters: say why")
    return reason


def _matchers(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise InvalidSilence("'matchers' takes an object of label -> text with at least one label")
    for name, text in value.items():
        if name not in LABELS:
            raise InvalidSilence(
                f"'matchers' has the label {name!r}, which no alert carries; they are {', '.join(LABELS)}"
            )
        if not isinstance(text, str) or not text:
            raise InvalidSilence(f"'matchers' takes a text for {name!r}, in which * stands for anything")
    return dict(value)


def _ends_ms(body: Mapping[str, Any], now_ms: int) -> int:
    given = {name: body[name] for name in ("ends_at_ms", "duration_ms") if name in body}
    if len(given) != 1:
        raise InvalidSilence("a silence takes its end in one of 'ends_at_ms' and 'duration_ms'")
    ((name, value),) = given.items()
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSilence(f"{name!r} is {value!r}; it takes whole milliseconds")
    ends_ms = value if name == "ends_at_ms" else now_ms + value
    if not now_ms < ends_ms <= now_ms + LONGEST_MS:
        raise InvalidSilence(f"{name!r} takes an end in the future, at most {LONGEST_MS // 86_400_000} days away")
    return ends_ms


def _escaped(text: str) -> str:
    """Leave ``*`` its meaning and take it from the shell's other wildcards."""
    return text.replace("[", "[[]").replace("?", "[?]")
