"""What a standing order does about a transaction: the case table."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from indoubt.collector.act.standing_orders.decision import Candidate, Circumstances, Move, decide
from indoubt.collector.config.standing_orders import StandingOrder
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.verdicts import Assumption, Judgement, Verdict
from tests.unit.collector.observations import T0, broker_record, only_view

ACT, DRY_RUN, HOLD_BACK = Move.ACT, Move.DRY_RUN, Move.HOLD_BACK
APPLICATION = "orders"
SILENT_MS = 15_000
CERTAIN_COMMIT = Judgement(verdict=Verdict.COMMIT_IT, rule=23, rests_on=(), may_commit=True, loses_data=True)
CERTAIN_ABORT = Judgement(verdict=Verdict.ABORT_IT, rule=22, rests_on=(), may_abort=True)
COMMIT = StandingOrder(
    name="save", act=Action.COMMIT, applications=frozenset({APPLICATION}), most_per_hour=10, less_than_s_left=20, dry_run=False
)  # fmt: skip
ABORT = StandingOrder(
    name="clear", act=Action.ABORT, applications=frozenset({APPLICATION}), most_per_hour=10, older_than_minutes=10, dry_run=False
)  # fmt: skip
DUE_S = 45
"""Seconds after its opening at which 15 s of 60 are left."""


def observer(kind: ObserverKind, state: ObserverState = ObserverState.UP, **changes: Any) -> ObserverStatus:
    fields = {"kind": kind, "state": state, "delay_ms": 100, "since_ms": T0, "error": "", "records": 1, **changes}
    return ObserverStatus(**fields)


OBSERVERS = (
    observer(ObserverKind.TRANSACTION_LOG),
    observer(ObserverKind.DECISION_LOG),
    observer(ObserverKind.LIFECYCLE_EVENTS, ObserverState.ABSENT, delay_ms=None, source_is_missing=True),
    observer(ObserverKind.FLINK, instance="eu"),
    observer(ObserverKind.FLINK_CHECKPOINTS, instance="eu"),
)


@cache
def view(number: int = 0, timeout_ms: int = 60_000) -> TransactionView:
    """Return an open transaction of another application."""
    id_ = f"{APPLICATION}-{number}"
    return only_view(broker_record(BrokerStatus.ONGOING, 0, transaction=id_, producer_id=number, timeout_ms=timeout_ms))


NOT_SEEN = replace(view(8), broker=None)
"""Its coordinator was not seen to have it: neither its opening nor its timeout is known."""


def candidate(judgement: Judgement, number: int = 0, **changes: Any) -> Candidate:
    found = Candidate(
        judged=Judged(view=view(number), judgement=judgement, pipeline=None),
        application=APPLICATION,
        verdicts=(judgement.verdict,),
    )
    return replace(found, **changes)


def at(seconds: float = DUE_S, **changes: Any) -> Circumstances:
    fields = {"now_ms": T0 + round(seconds * 1000), "observers": OBSERVERS, "silent_ms": SILENT_MS, **changes}
    return Circumstances(**fields)


def others(number: int) -> frozenset[str]:
    """Return the keys of so many other transactions, which the limit counts."""
    return frozenset(f"other {i}" for i in range(number))


def only(order: StandingOrder, found: Candidate, when: Circumstances) -> tuple[Move, str] | None:
    made = decide(order, [found], when)
    return (made[0].move, made[0].why) if made else None


@pytest.mark.parametrize(
    ("order", "judgement", "seconds", "changes", "move"),
    [
        # When it is due: less than 20 s of 60 are left, or its driver is gone where that is asked.
        (COMMIT, CERTAIN_COMMIT, 40, {}, None),
        (COMMIT, CERTAIN_COMMIT, 40.001, {}, ACT),
        # The broker looks every 10 s only: past its timeout it may still be open.
        (COMMIT, CERTAIN_COMMIT, 65, {}, ACT),
        (COMMIT, CERTAIN_COMMIT, 5, {"driver_gone": True}, None),
        (replace(COMMIT, driver_gone=True), CERTAIN_COMMIT, 5, {"driver_gone": True}, ACT),
        (replace(COMMIT, driver_gone=True), CERTAIN_COMMIT, 5, {"driver_gone": False}, None),
        (replace(COMMIT, driver_gone=True, less_than_s_left=None), CERTAIN_COMMIT, 59, {}, None),
        (ABORT, CERTAIN_ABORT, 600, {}, None),
        (ABORT, CERTAIN_ABORT, 600.001, {}, ACT),
        # Without a limit, an opening or a deadline nothing says that it is due.
        (replace(ABORT, older_than_minutes=None), CERTAIN_ABORT, 700, {}, None),
        (ABORT, CERTAIN_ABORT, 700, {"judged": Judged(view=NOT_SEEN, judgement=CERTAIN_ABORT, pipeline=None)}, None),
        (COMMIT, CERTAIN_COMMIT, 45, {"judged": Judged(view=NOT_SEEN, judgement=CERTAIN_COMMIT, pipeline=None)}, None),
        # Which application.
        (COMMIT, CERTAIN_COMMIT, 45, {"application": "other"}, None),
        (replace(COMMIT, applications=frozenset({"*"})), CERTAIN_COMMIT, 45, {"application": "other"}, ACT),
        # Never on likely, and never what its verdict does not offer.
        (COMMIT, replace(CERTAIN_COMMIT, assumes=(Assumption.LIST_NAMES_IT,)), 45, {}, None),
        (COMMIT, replace(CERTAIN_COMMIT, commit_confirmation="chk-3"), 45, {}, None),
        (COMMIT, replace(CERTAIN_COMMIT, may_commit=False), 45, {}, None),
        (COMMIT, replace(CERTAIN_COMMIT, verdict=Verdict.UNKNOWN), 45, {}, None),
        (COMMIT, replace(CERTAIN_COMMIT, verdict=Verdict.LOST), 45, {}, None),
        (COMMIT, replace(CERTAIN_COMMIT, verdict=Verdict.SETTLED), 45, {}, None),
        (COMMIT, CERTAIN_ABORT, 45, {}, None),
        (ABORT, replace(CERTAIN_ABORT, assumes=(Assumption.SILENT_IS_GONE,)), 700, {}, None),
        (ABORT, replace(CERTAIN_ABORT, loses_data=True), 700, {}, None),
        (ABORT, replace(CERTAIN_ABORT, may_abort=False), 700, {}, None),
        (ABORT, replace(CERTAIN_ABORT, verdict=Verdict.FOREIGN), 700, {}, None),
        (ABORT, replace(CERTAIN_ABORT, verdict=Verdict.HANGING), 700, {}, None),
        (ABORT, replace(CERTAIN_COMMIT, may_abort=True, loses_data=False), 700, {}, None),
        # A dry run unless the file says otherwise.
        (replace(COMMIT, dry_run=True), CERTAIN_COMMIT, 45, {}, DRY_RUN),
        (StandingOrder(name="o", act=Action.COMMIT, applications=frozenset({"*"}), most_per_hour=1, less_than_s_left=20),
         CERTAIN_COMMIT, 45, {}, DRY_RUN),
        # Its first verdict that asks for something is no change; another one, or one that comes and goes, is.
        (COMMIT, CERTAIN_COMMIT, 45, {"verdicts": (Verdict.IN_PROGRESS, Verdict.AT_RISK, Verdict.COMMIT_IT)}, ACT),
        (COMMIT, CERTAIN_COMMIT, 45, {"verdicts": (Verdict.UNKNOWN, Verdict.COMMIT_IT)}, HOLD_BACK),
        (COMMIT, CERTAIN_COMMIT, 45, {"verdicts": (Verdict.IN_PROGRESS, Verdict.FOREIGN, Verdict.COMMIT_IT)}, ACT),
        (COMMIT, CERTAIN_COMMIT, 45, {"verdicts": (Verdict.ABORT_IT, Verdict.COMMIT_IT)}, HOLD_BACK),
        (COMMIT, CERTAIN_COMMIT, 45, {"verdicts": (Verdict.COMMIT_IT, Verdict.IN_PROGRESS, Verdict.COMMIT_IT)}, HOLD_BACK),
        (ABORT, CERTAIN_ABORT, 700, {"verdicts": (Verdict.FOREIGN, Verdict.ABORT_IT)}, HOLD_BACK),
        (ABORT, CERTAIN_ABORT, 700, {"verdicts": (Verdict.IN_PROGRESS, Verdict.ABORT_IT)}, ACT),
        (ABORT, CERTAIN_ABORT, 700, {"verdicts": (Verdict.AT_RISK, Verdict.ABORT_IT)}, ACT),
        (ABORT, CERTAIN_ABORT, 700, {"verdicts": (Verdict.COMMIT_IT, Verdict.ABORT_IT)}, HOLD_BACK),
        (ABORT, CERTAIN_ABORT, 700, {"verdicts": (Verdict.ABORT_IT, Verdict.ABORT_IT)}, HOLD_BACK),
    ],
)  # fmt: skip
def test_what_is_done(
    order: StandingOrder, judgement: Judgement, seconds: float, changes: dict[str, Any], move: Move | None
) -> None:
    found = only(order, candidate(judgement, **changes), at(seconds))
    assert (found and found[0]) == move


def changed(kind: ObserverKind, **changes: Any) -> tuple[ObserverStatus, ...]:
    return tuple(replace(each, **changes) if each.kind is kind else each for each in OBSERVERS)


DOWN = {"state": ObserverState.DOWN}
POLLING = observer(ObserverKind.TRANSACTION_POLLING)


@pytest.mark.parametrize(
    ("order", "judgement", "circumstances", "why"),
    [
        (COMMIT, CERTAIN_COMMIT, {"stopped": True}, "all standing orders are stopped"),
        (COMMIT, CERTAIN_COMMIT, {"stopped": True, "counted": others(10)}, "all standing orders are stopped"),
        (COMMIT, CERTAIN_COMMIT, {"read_only": True}, "read-only"),
        (COMMIT, CERTAIN_COMMIT, {"clock_doubt": "this clock is off"}, "this clock is off"),
        (COMMIT, CERTAIN_COMMIT, {"observers": ()}, "no observer sees the transaction coordinators"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.TRANSACTION_LOG, **DOWN)}, "no observer sees"),
        # One of the two ways to see the coordinators is enough.
        (COMMIT, CERTAIN_COMMIT, {"observers": (*changed(ObserverKind.TRANSACTION_LOG, **DOWN), POLLING)}, None),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, **DOWN)}, "observer 'decision log'"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, has_caught_up=False)}, "'decision log'"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, delay_ms=SILENT_MS + 1)}, "'decision log'"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, state=ObserverState.STARTING)}, "log'"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.FLINK_CHECKPOINTS, **DOWN)}, "'flink checkpoints of eu'"),
        # A JobManager that is gone is what the order is for; an abort rests on what it says now.
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.FLINK, **DOWN)}, None),
        # One that never answered since the start may have seen a restore from an earlier checkpoint, and cannot say so.
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.FLINK, **DOWN, has_caught_up=False)}, "'flink eu'"),
        (ABORT, CERTAIN_ABORT, {"observers": changed(ObserverKind.FLINK, **DOWN)}, "observer 'flink eu'"),
        # Events claim only: where there is no topic of them nothing is missing. Of the decision log it would be.
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.LIFECYCLE_EVENTS, **DOWN)}, None),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.LIFECYCLE_EVENTS, **DOWN, source_is_missing=False)},
         "'lifecycle events'"),
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, **DOWN, source_is_missing=True)}, "log'"),
        # Where no pipeline of ours ever ran there is no decision log.
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, state=ObserverState.ABSENT)}, None),
        # It sees as long as its last good poll is no older than that.
        (COMMIT, CERTAIN_COMMIT, {"observers": changed(ObserverKind.DECISION_LOG, delay_ms=SILENT_MS)}, None),
        # No verdict rests on what these see.
        (COMMIT, CERTAIN_COMMIT, {"observers": (*OBSERVERS, observer(ObserverKind.PARTITIONS, **DOWN))}, None),
        (ABORT, CERTAIN_ABORT, {"observers": (*OBSERVERS, observer(ObserverKind.PARTITIONS, **DOWN))},
         "observer 'partitions' does not see its source"),
        (COMMIT, CERTAIN_COMMIT, {"observers": (*OBSERVERS, observer(ObserverKind.OFFSETS, **DOWN))}, None),
        (COMMIT, CERTAIN_COMMIT, {"counted": others(9)}, None),
        (COMMIT, CERTAIN_COMMIT, {"counted": others(9) | {view().key}}, None),
        (COMMIT, CERTAIN_COMMIT, {"counted": others(10)}, "its limit of 10 in an hour is reached"),
        (COMMIT, CERTAIN_COMMIT, {"failed": {view().key: "the last attempt was refused"}}, "the last attempt was refused"),
        (COMMIT, CERTAIN_COMMIT, {"failed": {"another": "the last attempt was refused"}}, None),
    ],
)  # fmt: skip
def test_what_holds_it_back(
    order: StandingOrder, judgement: Judgement, circumstances: dict[str, Any], why: str | None
) -> None:
    found = only(order, candidate(judgement), at(700 if order is ABORT else DUE_S, **circumstances))
    assert found is not None
    if why is None:
        assert found[0] is ACT
    else:
        assert found[0] is HOLD_BACK
        assert why in found[1]


def test_what_was_done_already_is_not_held_back_either() -> None:
    assert decide(COMMIT, [candidate(CERTAIN_COMMIT)], at(done=frozenset({view().key}))) == []


def test_the_nearest_deadline_comes_first_and_the_limit_counts_within_one_evaluation() -> None:
    short = Judged(view=view(9, timeout_ms=50_000), judgement=CERTAIN_COMMIT, pipeline=None)
    found = [candidate(CERTAIN_COMMIT, number) for number in range(3)] + [candidate(CERTAIN_COMMIT, judged=short)]
    made = decide(COMMIT, found, at(counted=others(8)))
    assert made[0].candidate.judged is short
    assert [decision.move for decision in made] == [ACT, ACT, HOLD_BACK, HOLD_BACK]


def test_equal_deadlines_go_by_opening_then_by_key_and_none_comes_last() -> None:
    opened_before = broker_record(
        BrokerStatus.ONGOING, 0, transaction=f"{APPLICATION}-3", start=-10_000, timeout_ms=70_000
    )
    without_timeout = view(6)
    assert without_timeout.broker is not None
    without_timeout = replace(without_timeout, broker=replace(without_timeout.broker, timeout_ms=None))
    wanted = [view(1, timeout_ms=50_000), only_view(opened_before), view(2), view(5), NOT_SEEN, without_timeout]
    order = replace(COMMIT, driver_gone=True)
    due = [
        candidate(CERTAIN_COMMIT, judged=Judged(view=one, judgement=CERTAIN_COMMIT, pipeline=None), driver_gone=True)
        for one in reversed(wanted)
    ]
    assert [decision.candidate.judged.view for decision in decide(order, due, at())] == wanted
