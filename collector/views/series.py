"""Applications over time: commits, aborts, losses, readers that wait and hidden records in buckets, with marks and gaps.

And what is wrong with each pipeline's checkpoints over time, by memory and by when their source was observed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial

from indoubt.collector.history import sql
from indoubt.collector.history.rollups import WAITS_PER_TEN_SECONDS_MS
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.verdicts.checkpoint_gaps import checkpoint_gaps
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.collector.verdicts.watched_times import BRIDGED_MS, Span, covered, overlap_ms, uncovered
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.marks import Losses, losses, marks
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS, duration
from indoubt.lifecycle.rows.series import ApplicationSeries, CheckpointGapsRow, MarkKind, Series, SeriesGap

RECOUNT_MS = 2_000
KEPT = 32
"""So many different times are kept at once; who looks at an earlier one asks for a few of them."""
COLLECTOR, TRANSACTIONS, PARTITIONS = "collector", "transactions", ObserverKind.PARTITIONS.value
_SOURCES = {
    COLLECTOR: (COLLECTOR,),
    TRANSACTIONS: (ObserverKind.TRANSACTION_LOG.value, ObserverKind.TRANSACTION_POLLING.value),
    PARTITIONS: (PARTITIONS,),
}
_UNDONE = ("aborted", "branch aborted")
_DONE = ("committed", "branch committed")


class Window(IntEnum):
    """How long a time is shown, in ms."""

    QUARTER_HOUR = 15 * MINUTE_MS
    HOUR = HOUR_MS
    SIX_HOURS = 6 * HOUR_MS
    DAY = DAY_MS


_BUCKETS = {Window.QUARTER_HOUR: MINUTE_MS, Window.HOUR: MINUTE_MS, Window.SIX_HOURS: 180_000, Window.DAY: 720_000}
SHORT_BUCKET_MS = 10_000
"""Of a quarter of an hour that has not passed long ago: later only minutes are kept apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """A time in buckets. Times are epoch ms; the last bucket may end after ``now_ms``."""

    from_ms: int
    until_ms: int
    bucket_ms: int
    now_ms: int

    @classmethod
    def of(cls, window: Window, until_ms: int | None, at_ms: int) -> Buckets:
        """Return the buckets of a window that ends then, or now."""
        end_ms = at_ms if until_ms is None else min(until_ms, at_ms)
        bucket_ms = _BUCKETS[window]
        if window is Window.QUARTER_HOUR and at_ms - end_ms + window <= WAITS_PER_TEN_SECONDS_MS:
            bucket_ms = SHORT_BUCKET_MS
        end_ms = -(-end_ms // bucket_ms) * bucket_ms
        return cls(from_ms=end_ms - window, until_ms=end_ms, bucket_ms=bucket_ms, now_ms=at_ms)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return (self.until_ms - self.from_ms) // self.bucket_ms

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Return what the queries of series take."""
        return self.from_ms, self.bucket_ms, self.from_ms, self.until_ms

    def known(self, spans: Sequence[Span]) -> list[bool]:
        """Say of each bucket whether half of it, as far as it is over, lies in these spans."""
        begins = range(self.from_ms, self.until_ms, self.bucket_ms)
        ends = [min(begin + self.bucket_ms, self.now_ms) for begin in begins]
        return [2 * overlap_ms(spans, begin, end) >= end - begin for begin, end in zip(begins, ends, strict=True)]


@dataclass(slots=True)
class _Counted:
    """What was counted of one application, by bucket."""

    commits: dict[int, int] = field(default_factory=dict)
    undone: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    waits: dict[int, tuple[int, int, int]] = field(default_factory=dict)


def cached_series(current: CurrentState, store: Store) -> TtlCache[Series, Window, int | None]:
    """Return the series of all applications by window and end (epoch ms; None: now), as of at most 2 s ago.

    It raises StoreFailed.
    """
    return TtlCache(partial(_series_at, current, store), RECOUNT_MS, most=KEPT)


def of_pipeline(series: Series, pipeline: str | None, most: int) -> Series:
    """Return of a series what is about one application, or all; at most ``most`` of them."""
    chosen = [one for one in series.applications if pipeline in (None, one.pipeline)]
    shown = tuple(mark for mark in series.marks if pipeline in (None, mark.pipeline))
    return replace(series, applications=tuple(chosen[:most]), more=max(0, len(chosen) - most), marks=shown)


def _series_at(current: CurrentState, store: Store, at_ms: int, window: Window, until_ms: int | None) -> Series:
    buckets = Buckets.of(window, until_ms, at_ms)
    watches = _watches(store, buckets)
    counted = _counted(current, store, buckets)
    managed = {run.facts.pipeline for run in current.newest_runs()}
    lost = losses(current, buckets.from_ms, buckets.until_ms)
    for one in lost:
        if one.kind is MarkKind.LOST and one.pipeline not in managed:
            _note_lost(counted, one, buckets)
    for name in (*managed, *(job.pipeline for job in current.jobs() if not job.job.is_over)):
        counted.setdefault(name, _Counted())
    known = {name: buckets.known(spans) for name, spans in watches.items()}
    applications = [_application(name, name in managed, found, known) for name, found in counted.items()]
    applications.sort(key=_by_urgency)
    return Series(
        now_ms=at_ms,
        from_ms=buckets.from_ms,
        until_ms=buckets.until_ms,
        bucket_ms=buckets.bucket_ms,
        applications=tuple(applications),
        more=0,
        marks=tuple(marks(current, store, lost, buckets.from_ms, buckets.until_ms)),
        gaps=_gaps(store, watches, buckets),
    )


def _counted(current: CurrentState, store: Store, buckets: Buckets) -> dict[str, _Counted]:
    """Return what history has counted, by application."""
    if buckets.bucket_ms < MINUTE_MS:
        ends = store.rows(sql.SERIES_OF_RECORDS, *buckets.bounds) + store.rows(sql.SERIES_OF_EVENTS, *buckets.bounds)
    else:
        ends = store.rows(sql.SERIES_OF_COUNTS, *buckets.bounds)
    waits = store.rows(sql.SERIES_OF_WAITS, *buckets.bounds)
    with current.reading() as state:
        names = {form: application_names.name_of_id(state, form) for form in {row[1] for row in ends}}
    counted: dict[str, _Counted] = {}
    for bucket, form, outcome, number in ends:
        one = counted.setdefault(names[form], _Counted())
        of_outcome = one.commits if outcome in _DONE else one.undone if outcome in _UNDONE else one.lost
        of_outcome[bucket] = of_outcome.get(bucket, 0) + number
    for bucket, application, *most in waits:
        counted.setdefault(application, _Counted()).waits[bucket] = (most[0], most[1], most[2])
    return counted


def _note_lost(counted: dict[str, _Counted], losses: Losses, buckets: Buckets) -> None:
    """Count losses that no pipeline reported: those of a foreign application are known by their verdict alone."""
    lost = counted.setdefault(losses.pipeline, _Counted()).lost
    bucket = (losses.at_ms - buckets.from_ms) // buckets.bucket_ms
    lost[bucket] = lost.get(bucket, 0) + len(losses.transactions)


def _application(name: str, managed: bool, counted: _Counted, known: Mapping[str, list[bool]]) -> ApplicationSeries:
    ends, looks = known[TRANSACTIONS], known[PARTITIONS]
    # What is lost is aborted too, and is shown once.
    aborts = {bucket: max(0, undone - counted.lost.get(bucket, 0)) for bucket, undone in counted.undone.items()}
    waiting, longest, hidden = ({bucket: most[place] for bucket, most in counted.waits.items()} for place in range(3))
    return ApplicationSeries(
        pipeline=name,
        managed=managed,
        commits=_values(counted.commits, ends),
        aborts=_values(aborts, ends),
        lost=_values(counted.lost, ends),
        waiting=_values(waiting, looks),
        longest_wait_ms=_values(longest, looks),
        hidden=_values(hidden, looks),
    )


def _values(found: Mapping[int, int], known: Sequence[bool]) -> tuple[int | None, ...]:
    """Return the value of each bucket: none is a zero only where it was looked for."""
    return tuple(found.get(bucket, 0 if is_known else None) for bucket, is_known in enumerate(known))


def _by_urgency(one: ApplicationSeries) -> tuple[int, int, bool, int, str]:
    """Return the place of an application: what lost data or made readers wait first, then ours, then the busiest."""
    totals = [sum(value or 0 for value in values) for values in (one.lost, one.waiting, one.commits, one.aborts)]
    return -totals[0], -totals[1], not one.managed, -totals[2] - totals[3], one.pipeline


def _watches(store: Store, buckets: Buckets) -> dict[str, list[Span]]:
    """Return when the collector ran, and when it saw transactions and partitions."""
    until_ms = min(buckets.until_ms, buckets.now_ms)
    rows = store.rows(sql.SOURCE_WATCHES, buckets.from_ms - BRIDGED_MS, until_ms)
    return {
        name: covered([(begin, end) for source, begin, end in rows if source in sources], until_ms)
        for name, sources in _SOURCES.items()
    }


def _gaps(store: Store, watches: Mapping[str, Sequence[Span]], buckets: Buckets) -> tuple[SeriesGap, ...]:
    from_ms, until_ms = buckets.from_ms, min(buckets.until_ms, buckets.now_ms)
    ((first_ms,),) = store.rows(sql.FIRST_WATCH)
    away = uncovered(watches[COLLECTOR], from_ms, until_ms)
    found = [_gap(COLLECTOR, span, first_ms) for span in away]
    for source in (TRANSACTIONS, PARTITIONS):
        holes = uncovered(covered([*watches[source], *away], until_ms), from_ms, until_ms)
        found += [_gap(source, span, first_ms) for span in holes]
    return tuple(sorted(found, key=lambda gap: (gap.from_ms, gap.source)))


def _gap(source: str, span: Span, first_ms: int | None) -> SeriesGap:
    length = duration(span[1] - span[0])
    if source != COLLECTOR:
        text = f"{source} could not be observed for {length}"
    elif first_ms is None or span[1] <= first_ms:
        text = f"no record of the collector's running for {length}"
    else:
        text = f"the collector did not run for {length}"
    return SeriesGap(source=source, from_ms=span[0], until_ms=span[1], text=text)


def cached_checkpoint_gaps(current: CurrentState, store: Store) -> TtlCache[Sequence[CheckpointGapsRow]]:
    """Return the rows of every pipeline with a checkpoint in memory, by name, as of at most 2 s ago. It raises StoreFailed."""

    def found(at_ms: int) -> Sequence[CheckpointGapsRow]:
        of_each: dict[str, list[CheckpointFacts]] = {}
        for checkpoint in current.checkpoints():
            of_each.setdefault(checkpoint.pipeline, []).append(checkpoint)
        managed = current.pipelines(run.facts.pipeline for run in current.newest_runs())
        jobs: dict[str, list[FlinkJobFacts]] = {}
        for job in current.jobs():
            jobs.setdefault(job.pipeline, []).append(job)
        watches = store.rows(sql.SOURCE_WATCHES, 0, at_ms) if jobs else []
        return [
            _gaps_row(of_each[name], managed.get(name), jobs.get(name, ()), watches, at_ms) for name in sorted(of_each)
        ]

    return TtlCache(found, RECOUNT_MS)


def _gaps_row(
    checkpoints: Sequence[CheckpointFacts],
    history: PipelineHistory | None,
    jobs: Collection[FlinkJobFacts],
    watches: Sequence[tuple[str, int, int]],
    at_ms: int,
) -> CheckpointGapsRow:
    interval_ms = history.interval_ms if history is not None else None
    first_ms = min((c.begun_ms for c in checkpoints if c.begun_ms is not None), default=at_ms)
    # Flink reports its last ten alone; what a pipeline wrote is read later, too.
    unobserved = _unobserved(next(iter(jobs)).job.cluster, watches, first_ms, at_ms) if jobs else []
    return checkpoint_gaps(checkpoints, interval_ms, _due_until_ms(history, jobs, at_ms), unobserved)


def _due_until_ms(history: PipelineHistory | None, jobs: Collection[FlinkJobFacts], at_ms: int) -> int:
    """Return until when checkpoints were due: not after a stop on request, nor after the end of all its jobs."""
    if history is not None:
        stopped_ms, started_ms = history.facts.stopped_on_request_ms, history.facts.started_ms or 0
        return at_ms if stopped_ms is None or stopped_ms < started_ms else min(at_ms, stopped_ms)
    if jobs and all(facts.job.is_over for facts in jobs):
        return min(at_ms, max(facts.job.ended_ms or facts.job.changed_ms for facts in jobs))
    return at_ms


def _unobserved(cluster: str, watches: Sequence[tuple[str, int, int]], from_ms: int, until_ms: int) -> list[Span]:
    name = f"{ObserverKind.FLINK.value} {cluster}"
    spans = covered([(begin, end) for source, begin, end in watches if source == name], until_ms)
    return uncovered(spans, from_ms, until_ms)
