"""The rule about checkpoints that fail, or that do not end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.remedies import remedy_of_pipeline
from indoubt.collector.assess.rule import Rule, Source, sees
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.observe.source import ObserverState
from indoubt.collector.records.facts import CheckpointFacts
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.judging import DURATIONS_CONSIDERED, percentile
from indoubt.collector.verdicts.verdict_case import CHECKPOINTS, EVENTS, PipelineHistory
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.verdicts import Evidence

SAVEPOINT = "savepoint"
FAILED = "FAILED"
"""A Flink job that gave up; one that was cancelled, has finished or is gone leaves nothing to wait for."""
GAPS_CONSIDERED = 20
ONLY_FROM_EVENTS = frozenset({EVENTS})
"""The sources of a checkpoint that only events report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHistory:
    """How one pipeline's checkpoints stand: the newest, the last completion, and how many attempts failed since.

    ``p99_ms``: of the completed ones; ``gap_ms``: what usually lies between two, 0 where the pipeline reports its interval itself.
    """

    pipeline: str
    newest: CheckpointFacts
    completed_ms: int | None
    failures: int
    p99_ms: int = 0
    gap_ms: int = 0


def checkpoint_histories(situation: Situation) -> tuple[CheckpointHistory, ...]:
    """Return how the checkpoints of each pipeline and job stand that may go on, by name."""
    current = situation.current
    ended_well = {facts.job.job for facts in current.jobs() if facts.job.is_over and facts.job.state != FAILED}
    managed = {run.facts.pipeline for run in current.newest_runs()}
    # Any client that may write events can claim checkpoints of a pipeline that never ran.
    return by_pipeline(
        c
        for c in current.checkpoints()
        if (c.job not in ended_well if c.job else c.sources != ONLY_FROM_EVENTS or c.pipeline in managed)
    )


def by_pipeline(checkpoints: Iterable[CheckpointFacts]) -> tuple[CheckpointHistory, ...]:
    """Return how the checkpoints of each pipeline stand, by name; savepoints, which a person asked for, are left out.

    The newest is the one that began last: a new directory counts from 0.
    """
    found: dict[str, list[CheckpointFacts]] = {}
    for checkpoint in checkpoints:
        if checkpoint.kind != SAVEPOINT:
            found.setdefault(checkpoint.pipeline, []).append(checkpoint)
    return tuple(_checkpoint_history(name, of_it) for name, of_it in sorted(found.items()))


def unfinished_pipelines(situation: Situation) -> Mapping[str, PipelineHistory]:
    """Return what is known of the pipelines whose newest checkpoint is not completed, by name."""
    checkpoints = situation.read(checkpoint_histories)
    return situation.current.pipelines(
        [history.pipeline for history in checkpoints if history.newest.state is not CheckpointState.COMPLETED]
    )


def unobserved_pipelines(situation: Situation) -> frozenset[str]:
    """Return the pipelines whose checkpoints are known from one observer alone, which does not see them now."""
    there = (observer for observer in situation.observers if observer.state is not ObserverState.ABSENT)
    unseen = [observer for observer in there if not sees(observer)]
    clusters = tuple(f"{observer.instance}/" for observer in unseen if observer.kind is ObserverKind.FLINK)
    directories = {observer.instance for observer in unseen if observer.kind is ObserverKind.CHECKPOINT_DIRECTORY}
    found: set[str] = set()
    for history in situation.read(checkpoint_histories):
        is_from_events = EVENTS in history.newest.sources
        if history.pipeline.startswith(clusters) or (history.pipeline in directories and not is_from_events):
            found.add(history.pipeline)
    return frozenset(found)


def _checkpoint_history(pipeline: str, checkpoints: Sequence[CheckpointFacts]) -> CheckpointHistory:
    newest = max(checkpoints, key=lambda c: (c.begun_ms or c.ended_ms or 0, c.number))
    completed = [c for c in checkpoints if c.completed_ms is not None]
    completed_ms = max((c.completed_ms or 0 for c in completed), default=None)
    failed_since = [c for c in checkpoints if c.failed_ms is not None and c.failed_ms > (completed_ms or -1)]
    failures = sum(max(1, c.failures) for c in failed_since)
    if newest.state is CheckpointState.COMPLETED:
        return CheckpointHistory(pipeline=pipeline, newest=newest, completed_ms=completed_ms, failures=failures)
    # What is usual is asked for only where something is not.
    recent = sorted(completed, key=lambda c: c.completed_ms or 0)[-DURATIONS_CONSIDERED:]
    return CheckpointHistory(
        pipeline=pipeline,
        newest=newest,
        completed_ms=completed_ms,
        failures=failures,
        p99_ms=percentile((c.duration_ms for c in recent), 0.99) or 0,
        gap_ms=_usual_gap_ms(checkpoints) if newest.job else 0,
    )


def _usual_gap_ms(checkpoints: Iterable[CheckpointFacts]) -> int:
    """Return the median time between the beginnings of the last ones: Flink's REST API does not report the interval."""
    begun = sorted(c.begun_ms for c in checkpoints if c.begun_ms is not None)[-GAPS_CONSIDERED - 1 :]
    return percentile((after - before for before, after in itertools.pairwise(begun)), 0.5) or 0


def a6_failing_checkpoints(situation: Situation) -> Iterator[Finding]:
    """Checkpoints fail again and again, one failed and its driver does not retry it, or one runs for far too long."""
    histories = situation.read(unfinished_pipelines)
    for checkpoints in situation.read(checkpoint_histories):
        history = histories.get(checkpoints.pipeline)
        evidence = _checkpoint_evidence(checkpoints, history, situation.now_ms, situation.limits)
        if evidence is None:
            continue
        completed = Evidence("last completed checkpoint", CHECKPOINTS, checkpoints.completed_ms)
        yield Finding(
            subject=checkpoints.pipeline,
            group=application_group(checkpoints.pipeline),
            severity=Severity.CRITICAL,
            summary=(
                f"checkpoint {checkpoints.newest.number} of {checkpoints.pipeline} {evidence.fact}: "
                "nothing new becomes visible"
            ),
            evidence=(evidence, completed) if checkpoints.completed_ms is not None else (evidence,),
            subject_labels={"pipeline": checkpoints.pipeline, "batch": str(checkpoints.newest.number)},
            remedy=remedy_of_pipeline(situation, checkpoints.pipeline),
            object_path=page_paths.pipeline(checkpoints.pipeline),
        )


def _checkpoint_evidence(
    checkpoints: CheckpointHistory, history: PipelineHistory | None, now_ms: int, limits: AlertSettings
) -> Evidence | None:
    newest = checkpoints.newest
    if newest.state is CheckpointState.COMPLETED or _was_stopped_since(newest.begun_ms or newest.failed_ms, history):
        return None
    if checkpoints.failures >= limits.checkpoint_failures:
        fact = f"failed: {checkpoints.failures} failures since the last one completed"
        return Evidence(fact, CHECKPOINTS, newest.failed_ms)
    if newest.state is CheckpointState.FAILED and newest.failed_ms is not None:
        recovery_ms = history.recovery_ms if history is not None else limits.foreign_recovery_ms
        waited_ms = now_ms - _could_run_from(newest.failed_ms, history)
        if waited_ms < max(recovery_ms, 3 * checkpoints.gap_ms):
            return None
        return Evidence(f"failed and was not tried again for {seconds(waited_ms)}", CHECKPOINTS, newest.failed_ms)
    interval_ms = history.interval_ms if history is not None else 0
    usual_ms = 3 * max(interval_ms, checkpoints.p99_ms)
    if newest.begun_ms is None:
        return None
    runs_ms = now_ms - _could_run_from(newest.begun_ms, history)
    if runs_ms < max(limits.checkpoint_stalled_ms, usual_ms):
        return None
    return Evidence(f"has not completed after {seconds(runs_ms)}", CHECKPOINTS, newest.begun_ms)


def _was_stopped_since(at_ms: int | None, history: PipelineHistory | None) -> bool:
    """Say whether an operator stopped the pipeline after that: its last checkpoint waits for the next start."""
    if history is None or at_ms is None or history.facts.stopped_on_request_ms is None:
        return False
    return history.facts.stopped_on_request_ms >= max(at_ms, history.facts.started_ms or 0)


def _could_run_from(at_ms: int, history: PipelineHistory | None) -> int:
    """Return from when on its pipeline could go on with what was begun or failed then: not while it was stopped on request."""
    stopped_ms = history.facts.stopped_on_request_ms if history is not None else None
    if history is None or stopped_ms is None or stopped_ms < at_ms:
        return at_ms
    return max(at_ms, history.facts.started_ms or 0)


A6 = Rule(
    number="A6",
    name="failing checkpoints",
    find=a6_failing_checkpoints,
    consequence="Nothing new becomes visible until a checkpoint completes.",
    sources=(Source.CHECKPOINTS,),
    unseen=unobserved_pipelines,
)
