"""Records that the collector could not understand and kept aside, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_kept_aside`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAside:
    """One such record: where it stands, what is wrong with it, and the beginning of its value."""

    at_ms: int | None
    source: str
    partition: int | None
    offset: int | None
    error: str
    value: str


def read_kept_aside(value: Json) -> KeptAside:
    """Return a row of the malformed records."""
    return KeptAside(
        at_ms=read_int(value["at_ms"]),
        source=read_text(value["source"]),
        partition=read_int(value["partition"]),
        offset=read_int(value["offset"]),
        error=read_text(value["error"]),
        value=read_text(value["value"]),
    )
