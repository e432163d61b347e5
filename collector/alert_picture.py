"""The picture that alert rules look at, taken from what the collector knows at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector import abort_causes
from collector.abort_causes import AbortClues
from collector.alert_inputs import AbortSeen, AlertLimits, CheckpointHistory, IdLeak, Picture, Source
from collector.current_state import CurrentState
from collector.facts import CheckpointFacts
from collector.observers.observer import ObserverState, ObserverStatus
from collector.partition_alerts import blocked_partitions, hanging_transactions
from collector.partition_sights import NOTHING_SEEN, PartitionPicture
from collector.verdicts import LogSight
from lifecycle.checkpoints import CheckpointState

SOURCES = {
    "transaction log": Source.TRANSACTIONS,
    "transaction polling": Source.TRANSACTIONS,
    "decision log": Source.DECISIONS,
    "lifecycle events": Source.CHECKPOINTS,
    "partitions": Source.PARTITIONS,
}
"""Which evidence an observer brings. A checkpoint directory is one pipeline's alone: A9 tells when it cannot be read."""
NEEDLESS = frozenset({"decision log", "lifecycle events"})
"""Where the decision log never existed no pipeline of ours runs, and nobody misses these topics."""


def picture(
    current: CurrentState,
    observers: Sequence[ObserverStatus],
    limits: AlertLimits,
    now_ms: int,
    partitions: PartitionPicture = NOTHING_SEEN,
) -> Picture:
    """Return the picture at ``now_ms``."""
    no_pipeline_of_ours = current.decision_log_sight[0] is LogSight.ABSENT
    needed = [o for o in observers if not (no_pipeline_of_ours and o.source_is_missing and o.name in NEEDLESS)]
    checkpoints = checkpoint_histories(current.checkpoints())
    unfinished = [one.pipeline for one in checkpoints if one.newest.state is not CheckpointState.COMPLETED]
    return Picture(
        now_ms=now_ms,
        transactions=tuple(current.judged(at_ms=now_ms)),
        pipelines=current.pipelines(unfinished),
        aborts=tuple(recent_aborts(current.abort_clues(), now_ms - limits.aborts_window_ms)),
        checkpoints=checkpoints,
        observers=tuple(needed),
        id_leaks=tuple(
            IdLeak(application=one.prefix, ids=one.ids, fact=one.why, since_ms=one.oldest_ms)
            for one in current.id_reports(fences=False)
            if one.leaks
        ),
        blocked=blocked_partitions(partitions),
        hanging=hanging_transactions(partitions),
        blind=blind(needed, limits, now_ms),
    )


def blind(observers: Iterable[ObserverStatus], limits: AlertLimits, now_ms: int) -> frozenset[Source]:
    """Return the sources of which no observer is up and has caught up; one that nobody looks at is not among them."""
    looked_at: set[Source] = set()
    seen: set[Source] = set()
    starting: set[Source] = set()
    for one in observers:
        if one.state is ObserverState.STARTING and now_ms - one.since_ms < limits.observer_down_ms:
            starting.add(Source.OBSERVERS)
        source = SOURCES.get(one.name)
        if source is None or one.source_is_missing:
            continue
        looked_at.add(source)
        if one.state is ObserverState.UP and one.has_caught_up:
            seen.add(source)
    return frozenset((looked_at - seen) | starting)


def checkpoint_histories(checkpoints: Iterable[CheckpointFacts]) -> tuple[CheckpointHistory, ...]:
    """Return how the checkpoints of each pipeline stand, by name.

    The newest is the one that began last: a new directory counts from 0.
    """
    by_pipeline: dict[str, list[CheckpointFacts]] = {}
    for one in checkpoints:
        by_pipeline.setdefault(one.pipeline, []).append(one)
    return tuple(_checkpoint_history(name, of_it) for name, of_it in sorted(by_pipeline.items()))


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
    completed_ms = max((c.completed_ms for c in checkpoints if c.completed_ms is not None), default=None)
    failed_since = [c for c in checkpoints if c.failed_ms is not None and c.failed_ms > (completed_ms or -1)]
    return CheckpointHistory(
        pipeline=pipeline,
        newest=newest,
        completed_ms=completed_ms,
        failures=sum(max(1, c.failures) for c in failed_since),
    )
