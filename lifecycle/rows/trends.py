"""The answer of GET /trends: what the job history_rollup made of archived history, by application and day (UTC)."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.rows.series import TimeAxis
from indoubt.lifecycle.verdicts import AbortCause

Counts = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseTrend:
    """How many transactions were aborted for one cause, a value for each day."""

    cause: AbortCause
    aborts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTrend:
    """One application: a value for each day, the oldest first; None where the job made nothing of it.

    ``open_…_ms``: how long its transactions were open, of those that ended on the day. ``margin_least_ms``: what the one that was
    committed nearest to its timeout had left, ``timeout_ms``: the shortest timeout. ``ids``: transactional ids that it used,
    ``new_ids``: those of them that the seven days before did not have. ``branches``: of databases, that left their lists;
    ``branch_longest_ms``: how long the longest of them had been prepared. ``lost`` ones are among the ``aborted``.
    """

    pipeline: str
    committed: Counts
    aborted: Counts
    lost: Counts
    causes: tuple[CauseTrend, ...]
    open_p50_ms: Counts
    open_p99_ms: Counts
    open_longest_ms: Counts
    timeout_ms: Counts
    margin_least_ms: Counts
    ids: Counts
    new_ids: Counts
    branches: Counts
    branch_longest_ms: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends(TimeAxis):
    """Applications over days: those first that lost most, then the busiest; ``more`` of them are left out.

    ``made_at_ms``: when the job made the newest of these days, None where it has made none. ``is_archived``: whether this
    collector's history is archived at all.
    """

    made_at_ms: int | None
    is_archived: bool
    applications: tuple[ApplicationTrend, ...]
    more: int
