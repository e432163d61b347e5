"""What is wrong with each pipeline's checkpoints over time, gathered from memory and from when its source was observed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from collector.history import sql
from collector.history.store import Store
from collector.records.facts import CheckpointFacts
from collector.records.flink_job_facts import FlinkJobFacts
from collector.records.observer_kind import ObserverKind
from collector.runtime.timed_cache import TtlCache
from collector.verdicts.checkpoint_gaps import checkpoint_gaps
from collector.verdicts.verdict_case import PipelineHistory
from collector.verdicts.watched_times import Span, covered, uncovered
from collector.views.current_state import CurrentState
from lifecycle.rows.series import CheckpointGapsRow

RECOUNT_MS = 2_000


def cached_checkpoint_gaps(current: CurrentState, store: Store) -> TtlCache[Sequence[CheckpointGapsRow]]:
    """Return the rows of every pipeline with a checkpoint in memory, by name, as of at most 2 s ago. It raises StoreFailed."""

    def found(at_ms: int) -> Sequence[CheckpointGapsRow]:
        of_each: dict[str, list[CheckpointFacts]] = {}
        for checkpoint in current.checkpoints():
            of_each.setdefault(checkpoint.pipeline, []).append(checkpoint)
        ours = current.pipelines(run.facts.pipeline for run in current.newest_runs())
        jobs: dict[str, list[FlinkJobFacts]] = {}
        for job in current.jobs():
            jobs.setdefault(job.pipeline, []).append(job)
        watches = store.rows(sql.SOURCE_WATCHES, 0, at_ms) if jobs else []
        return [_row(of_each[name], ours.get(name), jobs.get(name, ()), watches, at_ms) for name in sorted(of_each)]

    return TtlCache(found, RECOUNT_MS)


def _row(
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
    return checkpoint_gaps(checkpoints, interval_ms, _end_ms(history, jobs, at_ms), unobserved)


def _end_ms(history: PipelineHistory | None, jobs: Collection[FlinkJobFacts], at_ms: int) -> int:
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
