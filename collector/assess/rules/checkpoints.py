"""The alert rule about checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from collector.assess.findings import Finding, Severity, application_group
from collector.assess.remedies import remedy_of_pipeline
from collector.assess.snapshot import AlertSnapshot, CheckpointHistory
from collector.config.alerts import AlertSettings
from collector.runtime.time_format import seconds
from collector.verdicts.verdict_case import CHECKPOINTS, PipelineHistory
from lifecycle import page_paths
from lifecycle.checkpoints import CheckpointState
from lifecycle.verdicts import Evidence


def a6_failing_checkpoints(snapshot: AlertSnapshot, limits: AlertSettings) -> Iterator[Finding]:
    """Checkpoints fail again and again, one failed and its driver does not retry it, or one runs for far too long."""
    for checkpoints in snapshot.checkpoints:
        history = snapshot.pipelines.get(checkpoints.pipeline)
        evidence = _checkpoint_evidence(checkpoints, history, snapshot.now_ms, limits)
        if evidence is None:
            continue
        completed = Evidence(fact="last completed checkpoint", source=CHECKPOINTS, at_ms=checkpoints.completed_ms)
        yield Finding(
            rule="A6",
            subject=checkpoints.pipeline,
            group=application_group(checkpoints.pipeline),
            severity=Severity.CRITICAL,
            summary=(
                f"checkpoint {checkpoints.newest.number} of {checkpoints.pipeline} {evidence.fact}: "
                "nothing new becomes visible"
            ),
            evidence=(evidence, completed) if checkpoints.completed_ms is not None else (evidence,),
            subject_labels={"pipeline": checkpoints.pipeline, "batch": str(checkpoints.newest.number)},
            remedy=remedy_of_pipeline(history, snapshot.now_ms),
            object_path=page_paths.pipeline(checkpoints.pipeline),
        )


def _checkpoint_evidence(
    checkpoints: CheckpointHistory, history: PipelineHistory | None, now_ms: int, limits: AlertSettings
) -> Evidence | None:
    newest = checkpoints.newest
    if newest.state is CheckpointState.COMPLETED or _was_stopped_since(newest.begun_ms or newest.failed_ms, history):
        return None
    if checkpoints.failures >= limits.checkpoint_failures:
        fact = f"failed: {checkpoints.failures} failures since the last one that completed"
        return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.failed_ms)
    if newest.state is CheckpointState.FAILED and newest.failed_ms is not None:
        recovery_ms = history.recovery_ms if history is not None else limits.foreign_recovery_ms
        waited_ms = now_ms - _could_run_from(newest.failed_ms, history)
        if waited_ms < max(recovery_ms, 3 * checkpoints.gap_ms):
            return None
        fact = f"failed and was not tried again for {seconds(waited_ms)}"
        return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.failed_ms)
    interval_ms = history.interval_ms if history is not None else 0
    usual_ms = 3 * max(interval_ms, checkpoints.p99_ms)
    if newest.begun_ms is None:
        return None
    runs_ms = now_ms - _could_run_from(newest.begun_ms, history)
    if runs_ms < max(limits.checkpoint_stalled_ms, usual_ms):
        return None
    fact = f"is not completed after {seconds(runs_ms)}"
    return Evidence(fact=fact, source=CHECKPOINTS, at_ms=newest.begun_ms)


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
