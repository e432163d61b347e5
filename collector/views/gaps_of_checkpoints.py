"""What is wrong with each pipeline's checkpoints over time, by memory and by when their source was observed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
from indoubt.lifecycle.rows.series import CheckpointGapsRow

RECOUNT_MS = 2_000
START_MS = 60_000
"""A run needs so long to start, or as long as the longest measured restart."""


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
