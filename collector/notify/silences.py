"""Silences: alerts that match are judged and shown as ever, without a notification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field

from indoubt.collector.assess.findings import LABELS
from indoubt.lifecycle.rows.order_request import Json, Reason, RequestBody, read_body, without_default

LONGEST_MS = 30 * 24 * 3_600_000
_ONE_END: Json = {"oneOf": [{"required": ["ends_at_ms"]}, {"required": ["duration_ms"]}]}


def _label(name: str) -> str:
    if name not in LABELS:
        raise ValueError(f"is a label that no alert carries; they are {', '.join(LABELS)}")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRequest(RequestBody):
    """The body of POST /silences; one of the two ends is given."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, json_schema_extra=_ONE_END)
    matchers: Annotated[
        Mapping[Annotated[str, AfterValidator(_label)], Annotated[str, Field(min_length=1)]],
        Field(
            min_length=1,
            description="Label to text, in which * stands for anything; all must match.",
            json_schema_extra={"propertyNames": {"enum": list(LABELS)}},
        ),
    ]
    reason: Reason
    ends_at_ms: Annotated[int, Field(ge=1, json_schema_extra=without_default)] = 0
    duration_ms: Annotated[int, Field(ge=1, le=LONGEST_MS, json_schema_extra=without_default)] = 0


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
    """Return the silence (number 0: none yet) of a JSON body. Raises ValueError that names the field."""
    asked = read_body(SilenceRequest, body)
    if bool(asked.ends_at_ms) == bool(asked.duration_ms):
        raise ValueError("a silence takes its end in one of 'ends_at_ms' and 'duration_ms'")
    ends_ms = asked.ends_at_ms or now_ms + asked.duration_ms
    if not now_ms < ends_ms <= now_ms + LONGEST_MS:
        raise ValueError(f"'ends_at_ms' takes an end in the future, at most {LONGEST_MS // 86_400_000} days away")
    return Silence(
        number=0,
        matchers=asked.matchers,
        reason=asked.reason,
        author=author,
        starts_ms=now_ms,
        ends_ms=ends_ms,
    )


def _escaped(text: str) -> str:
    """Leave ``*`` its meaning and take it from the shell's other wildcards."""
    return text.replace("[", "[[]").replace("?", "[?]")
