"""What the collector says of undone transactions and of what they held, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_loss`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Where a transaction wrote: from ``first`` to before ``next``, None where that is not known."""

    partition: str
    first: int | None
    next: int | None
    certainty: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A transaction that has ended, and whether what it held is missing; ``checkpoint``: of its application, where known."""

    at_ms: int | None
    key: str
    transaction: str
    pipeline: str
    checkpoint: int | None
    verdict: str
    certainty: str
    why: str
    rows: int | None
    partitions: tuple[str, ...]
    offsets: tuple[OffsetRange, ...]


def read_loss(value: Json) -> Loss:
    """Return a row of the losses."""
    return Loss(
        at_ms=read_int(value["at_ms"]),
        key=str(value["key"]),
        transaction=read_text(value["transaction"]),
        pipeline=read_text(value["pipeline"]),
        checkpoint=read_int(value["checkpoint"]),
        verdict=read_text(value["verdict"]),
        certainty=read_text(value["certainty"]),
        why=read_text(value["why"]),
        rows=read_int(value["rows"]),
        partitions=tuple(read_text(one) for one in value["partitions"]),
        offsets=tuple(
            OffsetRange(
                partition=read_text(one["partition"]),
                first=read_int(one["first"]),
                next=read_int(one["next"]),
                certainty=read_text(one["certainty"]),
                how=read_text(one["how"]),
            )
            for one in value["offsets"]
        ),
    )
