"""What the collector says of batches, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_batch`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The part of a batch in one resource manager: how many transactions, and how many of them ended in which way."""

    resource_manager: str
    transactions: int
    committed: int
    aborted: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One attempt at a batch; ``settle``: what the order of that name would do now, empty where there is nothing to order."""

    key: str
    pipeline: str
    batch: int
    attempt: int
    verdict: str
    explanation: str
    settle: str
    decided_ms: int | None
    decided_by: str
    sides: tuple[Side, ...]
    rows: int | None
    opened_ms: int | None
    revision: str

    @property
    def is_over(self) -> bool:
        """True when nothing of it waits for anybody."""
        return self.verdict in ("aborted", "replayed", "complete")


def read_batch(value: Json) -> Batch:
    """Return a row of the batches."""
    return Batch(
        key=str(value["key"]),
        pipeline=read_text(value["pipeline"]),
        batch=int(value["batch"]),
        attempt=int(value["attempt"]),
        verdict=read_text(value["verdict"]),
        explanation=read_text(value["explanation"]),
        settle=read_text(value["settle"]),
        decided_ms=read_int(value["decided_at_ms"]),
        decided_by=read_text(value["decided_by"]),
        sides=tuple(
            Side(
                resource_manager=read_text(one["resource_manager"]),
                transactions=int(one["transactions"]),
                committed=int(one["committed"]),
                aborted=int(one["aborted"]),
                open=int(one["open"]),
            )
            for one in value["sides"]
        ),
        rows=read_int(value["rows"]),
        opened_ms=read_int(value["opened_at_ms"]),
        revision=read_text(value["revision"]),
    )
