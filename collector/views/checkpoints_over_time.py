"""The checkpoints in memory over time, by pipeline: what is wrong with them, and how long they took, for a plot of thousands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import ceil

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.verdicts.checkpoint_gaps import checkpoint_gaps
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.collector.verdicts.watched_times import Span, covered, uncovered
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.time_buckets import bucket_length_ms
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.durations import DAY_MS
from indoubt.lifecycle.rows.pipelines import CheckpointDurationsRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow

RECOUNT_MS = 2_000
START_MS = 60_000
"""A run needs so long to start, or as long as the longest measured restart."""
MOST_BUCKETS = 240
KEPT = 32
_Ended = tuple[int, int]
"""When a checkpoint was completed (epoch ms), and how long it took (ms)."""


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
    due_until_ms = _due_until_ms(history, jobs, at_ms)
    return checkpoint_gaps(checkpoints, interval_ms, due_until_ms, unobserved, _starting(history, jobs))


def _starting(history: PipelineHistory | None, jobs: Collection[FlinkJobFacts]) -> list[Span]:
    """Return when runs and jobs started, each for as long as that may take."""
    began = [restore.at_ms for facts in jobs for restore in facts.restores]
    began += [facts.job.started_ms for facts in jobs]
    takes_ms = START_MS
    if history is not None:
        began += [run.began_ms for run in history.facts.runs.values() if run.began_ms is not None]
        if history.restarts is not None:
            takes_ms = max(takes_ms, history.restarts.longest_ms)
    return covered([(begin, begin + takes_ms) for begin in began], 0)


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


def cached_checkpoint_durations(
    current: CurrentState,
) -> TtlCache[Sequence[CheckpointDurationsRow], str | None, int | None, int | None]:
    """Return the rows of a pipeline (None: of all) from then until then, as ``checkpoint_durations`` does, at most 2 s old."""

    def found(
        at_ms: int, pipeline: str | None, from_ms: int | None, until_ms: int | None
    ) -> Sequence[CheckpointDurationsRow]:
        chosen = [c for c in current.checkpoints() if c.kind == "checkpoint" and pipeline in (None, c.pipeline)]
        return checkpoint_durations(chosen, at_ms, from_ms, until_ms)

    return TtlCache(found, RECOUNT_MS, most=KEPT)


def checkpoint_durations(
    checkpoints: Iterable[CheckpointFacts], now_ms: int, from_ms: int | None, until_ms: int | None
) -> list[CheckpointDurationsRow]:
    """Return a row for each of their pipelines, by name, all of the same time.

    ``from_ms``: None: since the first of them began, a day at most. ``until_ms``: None: until now.
    """
    known_from_ms: dict[str, int] = {}
    ended: dict[str, list[_Ended]] = {}
    for one in checkpoints:
        begun_ms = one.begun_ms if one.begun_ms is not None else one.ended_ms
        if begun_ms is None:
            continue
        known_from_ms[one.pipeline] = min(begun_ms, known_from_ms.get(one.pipeline, begun_ms))
        if one.completed_ms is not None and one.state is CheckpointState.COMPLETED and one.duration_ms is not None:
            ended.setdefault(one.pipeline, []).append((one.completed_ms, one.duration_ms))
    end_ms = now_ms if until_ms is None else until_ms
    begin_ms = max(end_ms - DAY_MS, min(known_from_ms.values(), default=end_ms)) if from_ms is None else from_ms
    bucket_ms = bucket_length_ms(end_ms - begin_ms, MOST_BUCKETS)
    begin_ms, end_ms = begin_ms // bucket_ms * bucket_ms, (end_ms // bucket_ms + 1) * bucket_ms
    return [
        _row(name, ended.get(name, []), known_from_ms[name], range(begin_ms, end_ms, bucket_ms))
        for name in sorted(known_from_ms)
    ]


def _row(pipeline: str, ended: Sequence[_Ended], known_from_ms: int, buckets: range) -> CheckpointDurationsRow:
    of_each: list[list[int]] = [[] for _ in buckets]
    for at_ms, took_ms in ended:
        if buckets.start <= at_ms < buckets.stop:
            of_each[(at_ms - buckets.start) // buckets.step].append(took_ms)
    for lengths in of_each:
        lengths.sort()
    together = sorted(took_ms for lengths in of_each for took_ms in lengths)
    return CheckpointDurationsRow(
        pipeline=pipeline,
        from_ms=buckets.start,
        until_ms=buckets.stop,
        bucket_ms=buckets.step,
        known_from_ms=known_from_ms,
        completed=len(together),
        p50_ms=_percentile(together, 50),
        p99_ms=_percentile(together, 99),
        longest_ms=_percentile(together, 100),
        bucket_completed=tuple(len(lengths) for lengths in of_each),
        bucket_p50_ms=tuple(_percentile(lengths, 50) for lengths in of_each),
        bucket_longest_ms=tuple(_percentile(lengths, 100) for lengths in of_each),
    )


def _percentile(lengths: Sequence[int], percent: int) -> int | None:
    """Return the value that so many of a hundred do not exceed, of values in order; None without any."""
    return lengths[ceil(len(lengths) * percent / 100) - 1] if lengths else None
