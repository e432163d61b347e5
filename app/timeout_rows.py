"""What the collector says of applications' timeouts, as typed rows (docs/api.md). Lengths are ms, times epoch milliseconds.

``read_timeout`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutRow:
    """One application of the last 24 hours: its timeout, how long its transactions were open, and what a restart needs."""

    pipeline: str
    risk: str
    advice: str
    timeout_ms: int
    left_ms: int
    recovery_ms: int
    recovery: str
    transactions: int
    timed_out: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    longest_ms: int | None
    longest_transaction: str
    open: int
    oldest_key: str
    oldest_opened_at_ms: int | None
    oldest_deadline_ms: int | None


def read_timeout(value: Json) -> TimeoutRow:
    """Return a row of the timeouts."""
    return TimeoutRow(
        pipeline=read_text(value["pipeline"]),
        risk=read_text(value["risk"]),
        advice=read_text(value["advice"]),
        timeout_ms=int(value["timeout_ms"]),
        left_ms=int(value["left_ms"]),
        recovery_ms=int(value["recovery_ms"]),
        recovery=read_text(value["recovery"]),
        transactions=int(value["transactions"]),
        timed_out=int(value["timed_out"]),
        p50_ms=read_int(value["p50_ms"]),
        p95_ms=read_int(value["p95_ms"]),
        p99_ms=read_int(value["p99_ms"]),
        longest_ms=read_int(value["longest_ms"]),
        longest_transaction=read_text(value["longest_transaction"]),
        open=int(value["open"]),
        oldest_key=read_text(value["oldest_key"]),
        oldest_opened_at_ms=read_int(value["oldest_opened_at_ms"]),
        oldest_deadline_ms=read_int(value["oldest_deadline_ms"]),
    )
