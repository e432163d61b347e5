"""The picture that alert rules look at, taken from what the collector knows at a moment."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from collector import abort_causes, undone
from collector.abort_causes import AbortClues
from collector.alert_inputs import AbortSeen, AlertLimits, CheckpointHistory, IdLeak, OneSidedBatch, Picture, Source
from collector.batches import BatchVerdict, batches
from collector.current_state import CurrentState
from collector.data_loss import Loss
from collector.facts import CheckpointFacts
from collector.judging import DURATIONS_CONSIDERED, Judged, percentile
from collector.observers.observer import ObserverState, ObserverStatus
from collector.partition_alerts import blocked_partitions, hanging_transactions
from collector.partition_sights import NOTHING_SEEN, PartitionPicture
from collector.verdicts import EVENTS
from lifecycle.checkpoints import CheckpointState
from lifecycle.states import TransactionState
from lifecycle.verdicts import Verdict

SOURCES = {
    "transaction log": Source.TRANSACTIONS,
    "transaction polling": Source.TRANSACTIONS,
    "decision log": Source.DECISIONS,
    "lifecycle events": Source.CHECKPOINTS,
    "partitions": Source.PARTITIONS,
}
"""Which evidence an observer brings. One stands in for the other only where transactions are polled."""
DATABASE, FLINK, DIRECTORY = "database ", "flink ", "checkpoints of "
"""What the names of observers begin with that there may be many of."""
SAVEPOINT = "savepoint"
FAILED = "FAILED"
"""A Flink job that gave up; one that was cancelled, has finished or is gone leaves nothing to wait for."""
GAPS_CONSIDERED = 20


def picture(
    current: CurrentState,
    observers: Sequence[ObserverStatus],
    limits: AlertLimits,
    now_ms: int,
    partitions: PartitionPicture = NOTHING_SEEN,
    losses: Sequence[Loss] = (),
) -> Picture:
    """Return the picture at ``now_ms``; ``losses``: of transactions that are not ours."""
    window_ms = now_ms - limits.aborts_window_ms
    needed = [one for one in observers if one.state is not ObserverState.ABSENT]
    ended_well = {facts.job.job for facts in current.jobs() if facts.job.is_over and facts.job.state != FAILED}
    checkpoints = checkpoint_histories(c for c in current.checkpoints() if c.job not in ended_well)
    unfinished = [one.pipeline for one in checkpoints if one.newest.state is not CheckpointState.COMPLETED]
    seen = current.judged(at_ms=now_ms)
    return Picture(
        now_ms=now_ms,
        transactions=tuple(seen),
        one_sided=one_sided(current, seen, now_ms),
        pipelines=current.pipelines(unfinished),
        aborts=tuple(recent_aborts(undone.abort_clues(current, window_ms)[0], window_ms)),
        losses=tuple(losses),
        checkpoints=checkpoints,
        observers=tuple(needed),
        id_leaks=tuple(
            IdLeak(application=one.prefix, ids=one.ids, fact=one.why, since_ms=one.oldest_ms)
            for one in undone.id_reports(current, fences=False)
            if one.leaks
        ),
        blocked=blocked_partitions(partitions),
        hanging=hanging_transactions(partitions),
        blind=blind(needed, limits, now_ms),
        dark=dark(needed, checkpoints),
    )


def blind(observers: Iterable[ObserverStatus], limits: AlertLimits, now_ms: int) -> frozenset[Source]:
    """Return the sources that cannot be seen; one that nobody looks at, or that does not exist, is not among them."""
    unseen: set[Source] = set()
    transactions_seen = False
    for one in observers:
        if one.state is ObserverState.STARTING and now_ms - one.since_ms < limits.observer_down_ms:
            unseen.add(Source.OBSERVERS)
        source = Source.DATABASES if one.name.startswith(DATABASE) else SOURCES.get(one.name)
        if source is None or one.source_is_missing:
            continue
        if not _sees(one):
            unseen.add(source)
        elif source is Source.TRANSACTIONS:
            transactions_seen = True
    return frozenset(unseen - {Source.TRANSACTIONS} if transactions_seen else unseen)


def dark(observers: Iterable[ObserverStatus], checkpoints: Iterable[CheckpointHistory]) -> frozenset[str]:
    """Return the pipelines whose checkpoints are known from one observer alone, which does not see them now."""
    unseen = [one.name for one in observers if not _sees(one)]
    clusters = tuple(name.removeprefix(FLINK) + "/" for name in unseen if name.startswith(FLINK))
    directories = {name.removeprefix(DIRECTORY) for name in unseen if name.startswith(DIRECTORY)}
    found: set[str] = set()
    for one in checkpoints:
        told_by_events = EVENTS in one.newest.sources
        if one.pipeline.startswith(clusters) or (one.pipeline in directories and not told_by_events):
            found.add(one.pipeline)
    return frozenset(found)


def checkpoint_histories(checkpoints: Iterable[CheckpointFacts]) -> tuple[CheckpointHistory, ...]:
    """Return how the checkpoints of each pipeline stand, by name; savepoints, which somebody asked for, are left out.

    The newest is the one that began last: a new directory counts from 0.
    """
    by_pipeline: dict[str, list[CheckpointFacts]] = {}
    for one in checkpoints:
        if one.kind != SAVEPOINT:
            by_pipeline.setdefault(one.pipeline, []).append(one)
    return tuple(_checkpoint_history(name, of_it) for name, of_it in sorted(by_pipeline.items()))


def one_sided(current: CurrentState, seen: Iterable[Judged], now_ms: int) -> tuple[OneSidedBatch, ...]:
    """Return the batches that are committed in one resource manager and not in another."""
    undone = (TransactionState.ABORTED, TransactionState.LOST)
    doubtful = [one for one in seen if one.judgement.verdict is not Verdict.SETTLED or one.view.state in undone]
    abouts = [one.view.about for one in doubtful if one.view.ours]
    members = current.judged_of_shared({(about.life, about.batch) for about in abouts if about is not None}, now_ms)
    return tuple(
        OneSidedBatch(
            pipeline=batch.pipeline,
            batch=batch.about.batch,
            done_in=batch.committed_on,
            missing_in=batch.missing_on,
            since_ms=batch.decision[1].at_ms if batch.decision is not None else batch.updated_ms or now_ms,
        )
        for batch in batches(members, now_ms, current.commit_overdue_ms)
        if batch.verdict is BatchVerdict.ONE_SIDE_ONLY
    )


def recent_aborts(clues: Iterable[AbortClues], since_ms: int) -> list[AbortSeen]:
    """Return the aborts since then, with their causes."""
    recent = [(one, one.view.ended_ms) for one in clues]
    return [
        AbortSeen(
            application=one.view.pipeline,
            transaction=one.view.transaction,
            at_ms=ended_ms,
            cause=abort_causes.infer(one)[0],
        )
        for one, ended_ms in recent
        if ended_ms is not None and ended_ms > since_ms
    ]


def _checkpoint_history(pipeline: str, checkpoints: Sequence[CheckpointFacts]) -> CheckpointHistory:
    newest = max(checkpoints, key=lambda c: (c.begun_ms or c.ended_ms or 0, c.number))
    completed = [c for c in checkpoints if c.completed_ms is not None]
    completed_ms = max((c.completed_ms for c in completed if c.completed_ms is not None), default=None)
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
    """Return the median time between the beginnings of the last ones: Flink's REST API does not tell the interval."""
    begun = sorted(c.begun_ms for c in checkpoints if c.begun_ms is not None)[-GAPS_CONSIDERED - 1 :]
    return percentile((after - before for before, after in itertools.pairwise(begun)), 0.5) or 0


def _sees(one: ObserverStatus) -> bool:
    return one.state is ObserverState.UP and one.has_caught_up
