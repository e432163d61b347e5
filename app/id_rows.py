"""What the collector says of transactional ids by prefix, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_ids`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixIds:
    """The transactional ids of one prefix: how many, how they grow, which never came back."""

    prefix: str
    ids: int
    growth_per_hour: float | None
    created_last_hour: int
    stale_ids: int
    leaks: bool
    shared: bool
    why: str
    fenced_last_hour: int
    newest_at_ms: int | None
    example: str


def read_ids(value: Json) -> PrefixIds:
    """Return a row of the ids."""
    growth = value["growth_per_hour"]
    return PrefixIds(
        prefix=read_text(value["prefix"]),
        ids=int(value["ids"]),
        growth_per_hour=None if growth is None else float(growth),
        created_last_hour=int(value["created_last_hour"]),
        stale_ids=int(value["stale_ids"]),
        leaks=bool(value["leaks"]),
        shared=bool(value["shared"]),
        why=read_text(value["why"]),
        fenced_last_hour=int(value["fenced_last_hour"]),
        newest_at_ms=read_int(value["newest_at_ms"]),
        example=read_text(value["example"]),
    )
