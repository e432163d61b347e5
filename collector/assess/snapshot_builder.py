"""Builds the snapshot that alert rules evaluate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial

from collector.assess.assessment import Assessment
from collector.assess.partition_snapshot import blocked_partitions, hanging_transactions
from collector.assess.snapshot import (
    AbortSeen,
    AlertSnapshot,
    CheckpointHistory,
    IdLeak,
    OneSidedBatch,
    Source,
    UnreadCheckpoints,
)
from collector.config.alerts import AlertSettings
from collector.records.facts import CheckpointFacts
from collector.records.formats.flink_records import UnreadCheckpoint
from collector.records.observer_kind import ObserverKind
from collector.runtime.remembered import Remembered
from collector.sources.source import ObserverState, ObserverStatus
from collector.verdicts import abort_causes
from collector.verdicts.abort_causes import AbortClues
from collector.verdicts.data_loss import Loss
from collector.verdicts.judging import DURATIONS_CONSIDERED, Judged, percentile
from collector.verdicts.verdict_case import EVENTS
from collector.views import aborts_and_losses
from collector.views.application_names import applications_of_hanging
from collector.views.batches import BatchVerdict, batches
from collector.views.current_state import CurrentState
from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Verdict

SOURCES = {
    ObserverKind.TRANSACTION_LOG: Source.TRANSACTIONS,
    ObserverKind.TRANSACTION_POLLING: Source.TRANSACTIONS,
    ObserverKind.DECISION_LOG: Source.DECISIONS,
    ObserverKind.LIFECYCLE_EVENTS: Source.CHECKPOINTS,
    ObserverKind.PARTITIONS: Source.PARTITIONS,
    ObserverKind.DATABASE: Source.DATABASES,
}
"""Which evidence an observer brings. One stands in for the other only where transactions are polled."""
SAVEPOINT = "savepoint"
FAILED = "FAILED"
"""A Flink job that gave up; one that was cancelled, has finished or is gone leaves nothing to wait for."""
GAPS_CONSIDERED = 20
ONLY_FROM_EVENTS = frozenset({EVENTS})
"""The sources of a checkpoint that only events report."""


def take_snapshot(
    current: CurrentState,
    assessed: Assessment,
    limits: AlertSettings,
    losses: Sequence[Loss] = (),
    remembered: Remembered[CheckpointHistory | None] | None = None,
) -> AlertSnapshot:
    """Return the snapshot of what is open as it was assessed; ``losses``: of transactions that are not ours.

    ``remembered``: what checkpoints came to in the snapshot before.
    """
    now_ms, seen, partitions = assessed.now_ms, assessed.judged, assessed.situation.partitions
    window_ms = now_ms - limits.aborts_window_ms
    needed = [observer for observer in assessed.observers if observer.state is not ObserverState.ABSENT]
    ended_well = {facts.job.job for facts in current.jobs() if facts.job.is_over and facts.job.state != FAILED}
    ours = {run.facts.pipeline for run in current.newest_runs()}
    # Any client that may write events can claim checkpoints of a pipeline that never ran.
    of_spark, of_jobs = current.checkpoints_in_parts()
    checkpoints = checkpoint_histories(
        (c for c in of_spark if c.sources != ONLY_FROM_EVENTS or c.pipeline in ours),
        (rows for rows in of_jobs if rows and rows[0].job not in ended_well),
        remembered,
    )
    unfinished = [history.pipeline for history in checkpoints if history.newest.state is not CheckpointState.COMPLETED]
    with current.reading() as state:
        applications = applications_of_hanging(state, partitions.hanging)
    return AlertSnapshot(
        now_ms=now_ms,
        transactions=tuple(seen),
        one_sided=one_sided(current, seen, now_ms),
        unread_checkpoints=unread_checkpoints(current, needed),
        log_settings=current.log_settings,
        pipelines=current.pipelines(unfinished),
        aborts=tuple(recent_aborts(aborts_and_losses.abort_clues(current, window_ms)[0], window_ms)),
        losses=tuple(losses),
        checkpoints=checkpoints,
        observers=tuple(needed),
        id_leaks=tuple(
            IdLeak(application=report.prefix, ids=report.ids, fact=report.why, since_ms=report.oldest_ms)
            for report in aborts_and_losses.id_reports(current, fences=False)
            if report.leaks
        ),
        blocked=blocked_partitions(partitions),
        hanging=hanging_transactions(partitions, applications),
        unavailable_sources=unavailable_sources(needed, limits, now_ms),
        unobserved_pipelines=unobserved_pipelines(needed, checkpoints),
    )


def unread_checkpoints(current: CurrentState, observers: Iterable[ObserverStatus]) -> tuple[UnreadCheckpoints, ...]:
    """Return the checkpoints of Flink that cannot be read and that no later one has replaced, by the directory they lie in."""
    found: dict[tuple[str, str], list[tuple[UnreadCheckpoint, str]]] = {}
    for observer in observers:
        if observer.kind is ObserverKind.FLINK_CHECKPOINTS:
            for unread, pipeline in current.flink.unread_checkpoints(observer.instance):
                directory = unread.path.rstrip("/").rpartition("/")[0]
                found.setdefault((observer.name, directory), []).append((unread, pipeline))
    return tuple(
        UnreadCheckpoints(
            observer=observer,
            directory=directory,
            pipeline=of_it[0][1] if len({pipeline for _, pipeline in of_it}) == 1 else "",
            unread=tuple(unread for unread, _ in of_it),
        )
        for (observer, directory), of_it in found.items()
    )


def unavailable_sources(observers: Iterable[ObserverStatus], limits: AlertSettings, now_ms: int) -> frozenset[Source]:
    """Return the sources that cannot be read now; one without an observer, or that does not exist, is not among them."""
    unseen: set[Source] = set()
    transactions_seen = False
    for observer in observers:
        if observer.state is ObserverState.STARTING and now_ms - observer.since_ms < limits.observer_down_ms:
            unseen.add(Source.OBSERVERS)
        source = SOURCES.get(observer.kind)
        if source is None or observer.source_is_missing:
            continue
        if not _sees(observer):
            unseen.add(source)
        elif source is Source.TRANSACTIONS:
            transactions_seen = True
    return frozenset(unseen - {Source.TRANSACTIONS} if transactions_seen else unseen)


def unobserved_pipelines(
    observers: Iterable[ObserverStatus], checkpoints: Iterable[CheckpointHistory]
) -> frozenset[str]:
    """Return the pipelines whose checkpoints are known from one observer alone, which does not see them now."""
    unseen = [observer for observer in observers if not _sees(observer)]
    clusters = tuple(f"{observer.instance}/" for observer in unseen if observer.kind is ObserverKind.FLINK)
    directories = {observer.instance for observer in unseen if observer.kind is ObserverKind.CHECKPOINT_DIRECTORY}
    found: set[str] = set()
    for history in checkpoints:
        is_from_events = EVENTS in history.newest.sources
        if history.pipeline.startswith(clusters) or (history.pipeline in directories and not is_from_events):
            found.add(history.pipeline)
    return frozenset(found)


def checkpoint_histories(
    checkpoints: Iterable[CheckpointFacts],
    of_jobs: Iterable[tuple[CheckpointFacts, ...]] = (),
    remembered: Remembered[CheckpointHistory | None] | None = None,
) -> tuple[CheckpointHistory, ...]:
    """Return how the checkpoints of each pipeline stand, by name; savepoints, which a person asked for, are left out.

    ``of_jobs``: those of each Flink job. The newest is the one that began last: a new directory counts from 0.
    """
    remembered = remembered if remembered is not None else Remembered()
    remembered.next_round()
    of_spark: dict[str, list[CheckpointFacts]] = {}
    for checkpoint in checkpoints:
        of_spark.setdefault(checkpoint.pipeline, []).append(checkpoint)
    parts: dict[str, list[tuple[CheckpointFacts, ...]]] = {name: [tuple(of_it)] for name, of_it in of_spark.items()}
    for rows in of_jobs:
        parts.setdefault(rows[0].pipeline, []).append(rows)
    found = (
        remembered.of(name, tuple(of_it), partial(_checkpoint_history, name, of_it))
        for name, of_it in sorted(parts.items())
    )
    return tuple(history for history in found if history is not None)


def one_sided(current: CurrentState, seen: Iterable[Judged], now_ms: int) -> tuple[OneSidedBatch, ...]:
    """Return the batches that are committed in one resource manager and not in another."""
    # What was lost is settled only once its batch was replayed.
    batch_attempts = [
        judged.view.batch_attempt
        for judged in seen
        if judged.judgement.verdict is not Verdict.SETTLED or judged.view.state is TransactionState.ABORTED
    ]
    members = current.judged_of_shared(
        {
            (batch_attempt.checkpoint_id, batch_attempt.batch)
            for batch_attempt in batch_attempts
            if batch_attempt is not None
        },
        now_ms,
    )
    return tuple(
        OneSidedBatch(
            pipeline=batch.pipeline,
            batch=batch.batch_attempt.batch,
            done_in=batch.committed_on,
            missing_in=batch.missing_on,
            since_ms=batch.decision[1].at_ms if batch.decision is not None else batch.updated_ms or now_ms,
        )
        for batch in batches(members, now_ms, current.commit_overdue_ms)
        if batch.verdict is BatchVerdict.ONE_SIDE_ONLY
    )


def recent_aborts(clues: Iterable[AbortClues], since_ms: int) -> list[AbortSeen]:
    """Return the aborts since then, with their causes."""
    return [
        AbortSeen(
            application=clue.view.pipeline,
            transaction=clue.view.transaction,
            at_ms=ended_ms,
            cause=abort_causes.explain(clue).cause,
        )
        for clue in clues
        if (ended_ms := clue.view.ended_ms) is not None and ended_ms > since_ms
    ]


def _checkpoint_history(pipeline: str, parts: Iterable[Sequence[CheckpointFacts]]) -> CheckpointHistory | None:
    checkpoints = [c for part in parts for c in part if c.kind != SAVEPOINT]
    if not checkpoints:
        return None
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


def _sees(observer: ObserverStatus) -> bool:
    return observer.state is ObserverState.UP and observer.has_caught_up
