"""What the collector says of Flink's jobs, as typed rows (docs/api.md). Times are epoch milliseconds.

``read_job`` raises ValueError, KeyError or TypeError when an answer lacks a field or has a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.collector_json import read_int, read_text
from app.collector_rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkJob:
    """One job; ``restored_from``: the checkpoint that it went on from last, None where it never was restored."""

    cluster: str
    job: str
    name: str
    state: str
    started_at_ms: int | None
    ended_at_ms: int | None
    restarts: int | None
    restored_from: int | None
    restored_at_ms: int | None


def read_job(value: Json) -> FlinkJob:
    """Return a row of the jobs."""
    return FlinkJob(
        cluster=read_text(value["cluster"]),
        job=read_text(value["job"]),
        name=read_text(value["name"]),
        state=read_text(value["state"]),
        started_at_ms=read_int(value["started_at_ms"]),
        ended_at_ms=read_int(value["ended_at_ms"]),
        restarts=read_int(value["restarts"]),
        restored_from=read_int(value["restored_from"]),
        restored_at_ms=read_int(value["restored_at_ms"]),
    )
