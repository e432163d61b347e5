"""Applications over time: what they ended, how long it was open, their checkpoints and their readers, with marks and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import form_of
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.views import application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.marks import Losses, losses, marks
from indoubt.collector.views.time_buckets import (
    COLLECTOR,
    PARTITIONS,
    TRANSACTIONS,
    Buckets,
    Window,
    gaps,
    values,
    watches,
)
from indoubt.collector.views.timeouts import open_now
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.durations import MINUTE_MS
from indoubt.lifecycle.identity import TransactionalId
from indoubt.lifecycle.rows.series import ApplicationSeries, MarkKind, Series

RECOUNT_MS = 2_000
KEPT = 32
"""So many different times are kept at once; who looks at an earlier one asks for a few of them."""
_DONE = ("committed", "branch committed")


@dataclass(slots=True)
class _Counted:
    """What was counted of one application, by bucket."""

    commits: dict[int, int] = field(default_factory=dict)
    undone: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    waits: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    open_ms: dict[int, int] = field(default_factory=dict)
    timeout_ms: int | None = None
    checkpoint_ms: dict[int, int] = field(default_factory=dict)
    durations_ms: list[int] = field(default_factory=list)
    last_commit_ms: int | None = None

    def opened(self, bucket: int, longest_ms: int) -> None:
        """Note a transaction that was open for so long."""
        self.open_ms[bucket] = max(longest_ms, self.open_ms.get(bucket, 0))

    def completed(self, bucket: int, took_ms: int) -> None:
        """Note a checkpoint that took so long."""
        self.checkpoint_ms[bucket] = max(took_ms, self.checkpoint_ms.get(bucket, 0))


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
    seen = watches(store, buckets)
    counted, names = _counted(current, store, buckets)
    managed = {run.facts.pipeline for run in current.newest_runs()}
    lost = losses(current, buckets.from_ms, buckets.until_ms)
    for one in lost:
        if one.kind is MarkKind.LOST:
            _note_lost(counted, one, buckets)
    for name in (*managed, *(job.pipeline for job in current.jobs() if not job.job.is_over)):
        counted.setdefault(name, _Counted())
    _note_lengths(current, store, counted, buckets)
    _note_checkpoints(current, store, counted, buckets)
    forms = {form_of(str(TransactionalId.of(name, slot=0, batch=0))): name for name in managed}
    _note_last_commits(current, counted, names | forms)
    known = {name: buckets.known(spans) for name, spans in seen.items()}
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
        gaps=gaps(store, seen, buckets),
    )


def _counted(current: CurrentState, store: Store, buckets: Buckets) -> tuple[dict[str, _Counted], dict[str, str]]:
    """Return what history has counted, by application; and the applications' names by what history counts by."""
    ends = store.rows(sql.SERIES_OF_COUNTS, *buckets.bounds)
    waits = store.rows(sql.SERIES_OF_WAITS, *buckets.bounds)
    with current.reading() as state:
        names = {form: application_names.name_of_id(state, form) for form in {row[1] for row in ends}}
    counted: dict[str, _Counted] = {}
    for bucket, form, outcome, number in ends:
        one = counted.setdefault(names[form], _Counted())
        of_outcome = one.commits if outcome in _DONE else one.undone
        of_outcome[bucket] = of_outcome.get(bucket, 0) + number
    for bucket, application, *most in waits:
        counted.setdefault(application, _Counted()).waits[bucket] = (most[0], most[1], most[2], most[3])
    return counted, names


def _note_lengths(current: CurrentState, store: Store, counted: dict[str, _Counted], buckets: Buckets) -> None:
    """Note how long transactions were open; a row that counts a longer time than a bucket stands in each of them."""
    rows = store.rows(sql.SERIES_OF_LENGTHS, buckets.from_ms, buckets.until_ms)
    running = current.transactions.open_at_coordinators() if buckets.is_now else []
    with current.reading() as state:
        name_of = partial(application_names.name_of_id, state)
        names = {
            id_: name_of(id_) for id_ in {*(row[2] for row in rows), *(each.identity.transaction for each in running)}
        }
    for begin_ms, span_ms, form, timeout_ms, longest_ms in rows:
        one = counted.setdefault(names[form], _Counted())
        one.timeout_ms = timeout_ms
        for bucket in buckets.of_span(begin_ms, begin_ms + span_ms):
            one.opened(bucket, longest_ms)
    for name, found in open_now(running, names.__getitem__).items():
        one = counted.setdefault(name, _Counted())
        if found.oldest_timeout_ms is not None:
            one.timeout_ms = found.oldest_timeout_ms
        for bucket in buckets.of_span(found.oldest_opened_ms, buckets.now_ms):
            one.opened(
                bucket, min(buckets.now_ms, buckets.from_ms + (bucket + 1) * buckets.bucket_ms) - found.oldest_opened_ms
            )


def _note_checkpoints(current: CurrentState, store: Store, counted: dict[str, _Counted], buckets: Buckets) -> None:
    """Note how long checkpoints took: by memory, and by what history counts of those that have left it."""
    for one in current.checkpoints():
        known, took_ms, ended_ms = counted.get(one.pipeline), one.duration_ms, one.ended_ms
        if known is None or took_ms is None or ended_ms is None or one.state is not CheckpointState.COMPLETED:
            continue
        if buckets.from_ms <= ended_ms < buckets.until_ms and one.kind == "checkpoint":
            known.completed((ended_ms - buckets.from_ms) // buckets.bucket_ms, took_ms)
            known.durations_ms.append(took_ms)
    if buckets.bucket_ms < MINUTE_MS:
        return  # history counts by the minute
    for bucket, name, longest_ms in store.rows(sql.SERIES_OF_CHECKPOINTS, *buckets.bounds):
        if (known := counted.get(name)) is not None:
            known.completed(bucket, longest_ms)


def _note_last_commits(current: CurrentState, counted: Mapping[str, _Counted], names: Mapping[str, str]) -> None:
    with current.reading() as state:
        ended = [
            (names[form], ended_ms) for form in names if (ended_ms := state.ends.newest_commit_ms.get(form)) is not None
        ]
    for name, ended_ms in ended:
        counted[name].last_commit_ms = max(ended_ms, counted[name].last_commit_ms or 0)


def _note_lost(counted: dict[str, _Counted], losses: Losses, buckets: Buckets) -> None:
    """Count what is lost by its verdict now: what was written again since is an abort like any other."""
    lost = counted.setdefault(losses.pipeline, _Counted()).lost
    bucket = (losses.at_ms - buckets.from_ms) // buckets.bucket_ms
    lost[bucket] = lost.get(bucket, 0) + len(losses.transactions)


def _application(name: str, managed: bool, counted: _Counted, known: Mapping[str, list[bool]]) -> ApplicationSeries:
    ends, looks = known[TRANSACTIONS], known[PARTITIONS]
    # What is lost is aborted too, and is shown once.
    aborts = {bucket: max(0, undone - counted.lost.get(bucket, 0)) for bucket, undone in counted.undone.items()}
    waiting, longest, hidden, lag = ({at: most[place] for at, most in counted.waits.items()} for place in range(4))
    return ApplicationSeries(
        pipeline=name,
        managed=managed,
        commits=values(counted.commits, ends),
        aborts=values(aborts, ends),
        lost=values(counted.lost, ends),
        waiting=values(waiting, looks),
        longest_wait_ms=values(longest, looks),
        hidden=values(hidden, looks),
        lag=values(lag, looks),
        longest_open_ms=values(counted.open_ms, ends),
        checkpoint_ms=values(counted.checkpoint_ms, known[COLLECTOR]),
        timeout_ms=counted.timeout_ms,
        checkpoint_p50_ms=median_low(counted.durations_ms) if counted.durations_ms else None,
        last_commit_ms=counted.last_commit_ms,
    )


def _by_urgency(one: ApplicationSeries) -> tuple[int, int, bool, int, str]:
    """Return the place of an application: what lost data or made readers wait first, then ours, then the busiest."""
    totals = [sum(value or 0 for value in values) for values in (one.lost, one.waiting, one.commits, one.aborts)]
    return -totals[0], -totals[1], not one.managed, -totals[2] - totals[3], one.pipeline
