"""What the job history_rollup made of archived history: read where it put it, by application over days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from indoubt.collector.history.rollup_results import DayResult, day_results
from indoubt.collector.history.store import Store
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.lifecycle.durations import DAY_MS, MINUTE_MS
from indoubt.lifecycle.rows.trends import ApplicationTrend, CauseTrend, Counts, Trends
from indoubt.lifecycle.verdicts import AbortCause

DAYS = 90
REREAD_MS = 5 * MINUTE_MS
"""The job runs once a day or so."""
KEPT = 8
_COLUMNS = (
    "committed",
    "aborted",
    "lost",
    "open_p50_ms",
    "open_p99_ms",
    "open_longest_ms",
    "timeout_ms",
    "margin_least_ms",
    "ids",
    "new_ids",
    "branches",
    "branch_longest_ms",
)
_CAUSES = tuple(f"aborted_{cause.value}" for cause in AbortCause)


def cached_trends(store: Store) -> TtlCache[Trends, int]:
    """Return the trends of all applications over so many days, as of at most five minutes ago. It raises StoreFailed."""
    return TtlCache(partial(_trends, store), REREAD_MS, most=KEPT)


def of_pipeline(trends: Trends, pipeline: str | None, most: int) -> Trends:
    """Return of trends what is about one application, or all; at most ``most`` of them."""
    chosen = [one for one in trends.applications if pipeline in (None, one.pipeline)]
    return replace(trends, applications=tuple(chosen[:most]), more=max(0, len(chosen) - most))


def _trends(store: Store, at_ms: int, days: int) -> Trends:
    until_ms = (at_ms // DAY_MS + 1) * DAY_MS
    from_ms = until_ms - days * DAY_MS
    results = day_results(store, (*_COLUMNS, *_CAUSES), from_ms, until_ms)
    by_application: dict[str, dict[int, DayResult]] = {}
    for result in results:
        by_application.setdefault(result.application, {})[(result.day_ms - from_ms) // DAY_MS] = result
    applications = [_application(name, by_day, days) for name, by_day in by_application.items()]
    applications.sort(key=_by_weight)
    return Trends(
        now_ms=at_ms,
        from_ms=from_ms,
        until_ms=until_ms,
        bucket_ms=DAY_MS,
        made_at_ms=max((result.made_at_ms for result in results), default=None),
        is_archived=store.past.is_archived,
        applications=tuple(applications),
        more=0,
    )


def _application(name: str, by_day: Mapping[int, DayResult], days: int) -> ApplicationTrend:
    def of(column: str) -> Counts:
        return tuple(by_day[day].values[column] if day in by_day else None for day in range(days))

    causes = [(cause, of(column)) for cause, column in zip(AbortCause, _CAUSES, strict=True)]
    return ApplicationTrend(
        pipeline=name,
        causes=tuple(CauseTrend(cause=cause, aborts=aborts) for cause, aborts in causes if _total(aborts)),
        **{column: of(column) for column in _COLUMNS},
    )


def _by_weight(one: ApplicationTrend) -> tuple[int, int, str]:
    return -_total(one.lost), -_total(one.committed) - _total(one.aborted) - _total(one.branches), one.pipeline


def _total(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)
