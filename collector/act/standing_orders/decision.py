"""What a standing order does about each transaction now: act, try it in a dry run, or hold back and why. Pure.

It acts on certainty alone. Whatever is in doubt holds it back: a person can still act then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from indoubt.collector.config.standing_orders import StandingOrder
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.durations import MINUTE_MS, duration
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.verdicts import Certainty, Judgement, Verdict

WAITING = {
    Action.COMMIT: frozenset({Verdict.IN_PROGRESS, Verdict.AT_RISK, Verdict.FOREIGN}),
    Action.ABORT: frozenset({Verdict.IN_PROGRESS, Verdict.AT_RISK}),
}
"""Verdicts before which the present one is the first, not another one. *Foreign*: no evidence was there yet, as of a Flink job
whose JobManager died before its last ``_metadata`` was read. An abort has the time to wait all the same."""
COORDINATORS = frozenset({ObserverKind.TRANSACTION_LOG, ObserverKind.TRANSACTION_POLLING})
"""Of these one that sees is enough."""
OF_NO_VERDICT = {
    Action.COMMIT: frozenset({ObserverKind.CLOCKS, ObserverKind.PARTITIONS, ObserverKind.OFFSETS}),
    Action.ABORT: frozenset({ObserverKind.CLOCKS, ObserverKind.OFFSETS}),
}
"""No verdict that asks for this act rests on them: who waits, and whose offsets are held; what was lost; how far clocks are off."""


class Move(Enum):
    """What is to be done about one transaction."""

    ACT = "act"
    DRY_RUN = "dry_run"
    HOLD_BACK = "hold back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A transaction as it is judged now. ``driver_gone``: its driver is silent, or its job is not running."""

    judged: Judged
    application: str
    driver_gone: bool = False
    verdicts: tuple[Verdict, ...] = ()
    """The verdicts that it had within the last minute, oldest first, the present one last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Everything else that a decision rests on.

    ``counted``: the keys that it acted on within the last hour (of one in dry run: its dry runs), refused ones left out.
    ``done``: keys that need nothing more of it; ``failed``: key -> why its last attempt, a moment ago, did not end it.
    """

    now_ms: int
    observers: Sequence[ObserverStatus]
    silent_ms: int
    """An observer whose last good poll is older than this does not see."""
    stopped: bool = False
    read_only: bool = False
    clock_doubt: str = ""
    counted: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done about one transaction, and why."""

    candidate: Candidate
    move: Move
    why: str


def decide(order: StandingOrder, candidates: Iterable[Candidate], at: Circumstances) -> list[Decision]:
    """Return what is to be done about each transaction that is due, the nearest deadline first."""
    due = [
        (candidate, why)
        for candidate in candidates
        if order.covers(candidate.application)
        and candidate.judged.view.key not in at.done
        and is_certain(order.act, candidate.judged.judgement)
        and (why := due_because(order, candidate, at.now_ms))
    ]
    due.sort(key=lambda each: _urgency(each[0]))
    doubt = doubt_of_all(order.act, at)
    left = order.most_per_hour - len(at.counted)
    made: list[Decision] = []
    for candidate, why in due:
        held = doubt or doubt_of_one(order.act, candidate, at)
        is_new = candidate.judged.view.key not in at.counted
        if not held and is_new and left <= 0:
            held = f"its limit of {order.most_per_hour} in an hour is reached"
        if held:
            made.append(Decision(candidate=candidate, move=Move.HOLD_BACK, why=held))
            continue
        left -= is_new
        made.append(Decision(candidate=candidate, move=Move.DRY_RUN if order.dry_run else Move.ACT, why=why))
    return made


def is_certain(act: Action, judgement: Judgement) -> bool:
    """Say whether the verdict asks for this act, allows it, and is certain: no person would have to confirm a condition."""
    if judgement.certainty is not Certainty.CERTAIN:
        return False
    if act is Action.COMMIT:
        return judgement.verdict is Verdict.COMMIT_IT and judgement.may_commit and not judgement.commit_confirmation
    return judgement.verdict is Verdict.ABORT_IT and judgement.may_abort and not judgement.loses_data


def due_because(order: StandingOrder, candidate: Candidate, now_ms: int) -> str:
    """Return why the act is due now; empty: it is not."""
    view = candidate.judged.view
    if order.act is Action.ABORT:
        limit_ms = (order.older_than_minutes or 0) * MINUTE_MS
        age_ms = now_ms - view.opened_ms if view.opened_ms is not None else 0
        return f"it is open for {duration(age_ms)}" if limit_ms and age_ms > limit_ms else ""
    if order.driver_gone and candidate.driver_gone:
        return "its driver is gone"
    if order.less_than_s_left is None or view.deadline_ms is None:
        return ""
    left_ms = view.deadline_ms - now_ms
    return f"{duration(max(0, left_ms))} left before its timeout" if left_ms < order.less_than_s_left * 1000 else ""


def doubt_of_all(act: Action, at: Circumstances) -> str:
    """Return what holds every transaction back now, or nothing."""
    if at.stopped:
        return "all standing orders are stopped"
    if at.read_only:
        return "the collector runs read-only"
    if at.clock_doubt:
        return at.clock_doubt
    return _unseen(act, at)


def doubt_of_one(act: Action, candidate: Candidate, at: Circumstances) -> str:
    """Return what holds this transaction back now, or nothing."""
    earlier = candidate.verdicts[:-1]
    if any(verdict not in WAITING[act] for verdict in earlier):
        words = ", ".join(verdict.value for verdict in candidate.verdicts)
        return f"its verdict changed within the last minute ({words})"
    return at.failed.get(candidate.judged.view.key, "")


def _unseen(act: Action, at: Circumstances) -> str:
    """Return which observer does not see its source, or nothing.

    Flink's REST API may be down for a commit: a JobManager that is gone is what the order is for, and the verdict rests on what
    it said before. But it must have answered since the collector's start: else a restore may have gone unseen.
    """
    sees_coordinators = any(
        observer.kind in COORDINATORS and _sees(observer, at.silent_ms) for observer in at.observers
    )
    if not sees_coordinators:
        return "no observer sees the transaction coordinators"
    for observer in at.observers:
        if observer.kind in COORDINATORS | OF_NO_VERDICT[act]:
            continue
        if observer.kind is ObserverKind.FLINK and act is Action.COMMIT and observer.has_caught_up:
            continue
        if not _is_absent(observer) and not _sees(observer, at.silent_ms):
            return f"observer {observer.name!r} does not see its source"
    return ""


def _is_absent(observer: ObserverStatus) -> bool:
    """Say whether it is normal that the source does not exist: a pipeline may be told to send no events."""
    is_missing = observer.kind is ObserverKind.LIFECYCLE_EVENTS and observer.source_is_missing
    return observer.state is ObserverState.ABSENT or is_missing


def _sees(observer: ObserverStatus, silent_ms: int) -> bool:
    is_fresh = observer.delay_ms is not None and observer.delay_ms <= silent_ms
    return observer.state is ObserverState.UP and observer.has_caught_up and is_fresh


def _urgency(candidate: Candidate) -> tuple[bool, int, int, str]:
    view = candidate.judged.view
    return (view.deadline_ms is None, view.deadline_ms or 0, view.opened_ms or 0, view.key)
