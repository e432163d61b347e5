"""Each rule about a loss by itself: what it answers, how sure, and where it does not apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.state import State, holds_offsets
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.abort_causes import AbortClues, Inference
from indoubt.collector.verdicts.data_loss import (
    LossCase,
    LossVerdict,
    judge_loss,
    rule_client,
    rule_empty,
    rule_offsets,
)
from indoubt.collector.verdicts.flink_checkpoints import Evidence, Fate
from indoubt.collector.verdicts.read_process_write import InputTie
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import AbortCause, Assumption, Certainty
from tests.unit.collector.observations import (
    T0,
    broker_record,
    decided,
    handle,
    only_view,
    run_started,
    written_again,
)
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import (
    CERTAIN,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    NOT_LOST,
    UNKNOWN,
    WRITTEN_AGAIN,
    transaction,
)

ABORTED = [
    broker_record(BrokerStatus.ONGOING, 0, transaction="shop-writer"),
    broker_record(BrokerStatus.COMPLETE_ABORT, 900, transaction="shop-writer", epoch=5),
]
FENCED = Inference(cause=AbortCause.FENCED, certainty=CERTAIN, why="")


def loss_case(view: TransactionView, **changes: Any) -> LossCase:
    fields: dict[str, Any] = {"log_status": DecisionLogStatus.READABLE, **changes}
    return LossCase(clues=AbortClues(view=view), **fields)


def judged_one(view: TransactionView, **changes: Any) -> tuple[LossVerdict, Certainty]:
    loss = judge_loss(loss_case(view, **changes))
    assert loss is not None
    return loss.verdict, loss.certainty


@pytest.mark.parametrize(
    ("fate", "sure", "verdict", "certainty"),
    [
        (Fate.COMPLETED, True, LOST, CERTAIN),
        (Fate.COMPLETED, False, LOST, LIKELY),
        (Fate.REPLAYED, True, HARMLESS, CERTAIN),
        (Fate.REPLAYED, False, HARMLESS, LIKELY),
        (Fate.NOT_COMPLETED, True, HARMLESS, LIKELY),
        (Fate.PENDING, True, UNKNOWN, GUESS),
        (Fate.UNSEEN, True, UNKNOWN, GUESS),
    ],
)
def test_each_fate_of_its_checkpoint_has_its_answer(
    fate: Fate, sure: bool, verdict: LossVerdict, certainty: Certainty
) -> None:
    found = Evidence(fate=fate, why="seen", sure=sure, checkpoint=3)
    view = only_view(*(replace(one, transaction="sink-0-3") for one in ABORTED))
    loss = judge_loss(loss_case(view, flink=found))
    assert loss is not None
    assert (loss.verdict, loss.certainty, loss.checkpoint) == (verdict, certainty, 3)
    assert loss.cause is not None
    assert loss.view is view


@pytest.mark.parametrize(
    ("fate", "sure", "verdict", "certainty"),
    [
        (Fate.REPLAYED, True, LossVerdict.DUPLICATED, CERTAIN),
        (Fate.REPLAYED, False, LossVerdict.DUPLICATED, LIKELY),
        (Fate.COMPLETED, True, NOT_LOST, CERTAIN),
        (None, False, NOT_LOST, CERTAIN),
    ],
)
def test_a_committed_one_is_twice_only_where_it_is_written_again(
    fate: Fate | None, sure: bool, verdict: LossVerdict, certainty: Certainty
) -> None:
    found = Evidence(fate=fate, why="seen", sure=sure, checkpoint=3) if fate is not None else None
    view = only_view(*transaction(3, 0, 900, committed=True))
    loss = judge_loss(loss_case(view, flink=found))
    assert loss is not None
    assert (loss.verdict, loss.certainty, loss.cause, loss.view) == (verdict, certainty, None, view)
    assert loss.checkpoint == (3 if found else None)


@pytest.mark.parametrize(
    ("status", "state", "ended"),
    [
        (BrokerStatus.PREPARE_COMMIT, TransactionState.COMMITTING, NOT_LOST),
        (BrokerStatus.COMPLETE_COMMIT, TransactionState.COMMITTED, NOT_LOST),
        (BrokerStatus.PREPARE_ABORT, TransactionState.ABORTING, UNKNOWN),
        (BrokerStatus.COMPLETE_ABORT, TransactionState.ABORTED, UNKNOWN),
    ],
)
def test_what_is_being_ended_is_judged_as_what_has_ended(
    status: BrokerStatus, state: TransactionState, ended: LossVerdict
) -> None:
    view = only_view(ABORTED[0], replace(ABORTED[1], status=status))
    assert view.state is state
    assert judged_one(view)[0] is ended
    assert judge_loss(loss_case(only_view(ABORTED[0]))) is None


@pytest.mark.parametrize(
    ("name", "managed", "is_explained"),
    [("sink-0-3", False, True), ("ip-count-0-1", True, False), ("shop-writer", False, False)],
)
def test_flinks_error_is_explained_for_its_committed_ones(name: str, managed: bool, is_explained: bool) -> None:
    ended = replace(ABORTED[1], transaction=name, status=BrokerStatus.COMPLETE_COMMIT)
    loss = judge_loss(loss_case(replace(only_view(ended), managed=managed)))
    assert loss is not None
    assert ("'already been fenced'" in loss.why) is is_explained


def test_what_a_decision_lists_is_lost_while_it_is_being_aborted() -> None:
    aborting = broker_record(BrokerStatus.PREPARE_ABORT, 61_000, epoch=5, version=2)
    view = only_view(run_started(0), broker_record(BrokerStatus.ONGOING, 0), decided(1, handle()), aborting)
    assert view.state is TransactionState.ABORTING
    assert judged_one(view) == (LOST, CERTAIN)


def test_lost_without_its_decision_at_hand_is_lost() -> None:
    view = replace(only_view(*ABORTED), state=TransactionState.LOST)
    assert judged_one(view) == (LOST, CERTAIN)
    assert judged_one(written_again(view, T0)) == (WRITTEN_AGAIN, CERTAIN)
    # Decided is decided, whoever can read the log now.
    assert judged_one(view, log_status=DecisionLogStatus.UNREADABLE) == (LOST, CERTAIN)


@pytest.mark.parametrize(
    ("name", "managed", "status", "verdict", "certainty"),
    [
        ("ip-count-0-1", True, DecisionLogStatus.READABLE, HARMLESS, CERTAIN),
        ("ip-count-0-1", True, DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS),
        ("ip-count-0-1", True, DecisionLogStatus.ABSENT, UNKNOWN, GUESS),
        ("ip-count-0-1", False, DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS),
        ("ip-count-0-1", False, DecisionLogStatus.READABLE, HARMLESS, LIKELY),
        ("shop-writer", False, DecisionLogStatus.UNREADABLE, HARMLESS, LIKELY),
    ],
)
def test_only_a_decision_log_that_is_read_makes_an_abort_of_ours_harmless(
    name: str, managed: bool, status: DecisionLogStatus, verdict: LossVerdict, certainty: Certainty
) -> None:
    # The epoch stays: its own client gave it up. That answers for others, and never for ours.
    own_end = [replace(one, transaction=name, producer_epoch=4) for one in ABORTED]
    view = replace(only_view(*own_end), managed=managed)
    assert judged_one(view, log_status=status) == (verdict, certainty)


@pytest.mark.parametrize("assumes", [(), (Assumption.OFFSETS_FOLLOW,)], ids=["its offsets", "what it is called"])
def test_a_tie_to_its_input_makes_an_abort_harmless_but_of_an_id_of_our_form(assumes: tuple[Assumption, ...]) -> None:
    tie = InputTie(why="it holds the offsets of its own input", assumes=assumes)
    view = only_view(*ABORTED)
    assert judged_one(view) == (UNKNOWN, GUESS)
    assert judged_one(view, tie=tie) == (HARMLESS, LIKELY), "whether its program goes back to them is not read"
    like_ours = only_view(*(replace(one, transaction="ip-count-0-1") for one in ABORTED))
    assert judged_one(like_ours, tie=tie) == (UNKNOWN, GUESS)
    assert rule_offsets(loss_case(replace(view, broker=None), tie=tie), FENCED) is None
    said = rule_offsets(loss_case(view, tie=tie), FENCED)
    assert said is not None
    assert all(each.value in said[2] for each in assumes)


@pytest.mark.parametrize(
    ("partitions", "holds"),
    [
        (("out-0", "__consumer_offsets-7"), True),
        (("connect-offsets-24",), True),
        (("etl-offsets-0",), True),
        (("my__consumer_offsets-7",), False),
        (("connect-offsets-copy-1",), False),
        (("connect-offsets",), False),
        ((), False),
    ],
)
def test_offsets_of_input_are_known_by_their_topics(partitions: tuple[str, ...], holds: bool) -> None:
    state = State(offsets_topics=("__consumer_offsets", "connect-offsets", "etl-offsets"))
    assert holds_offsets(state, partitions) is holds


@table(
    "changes, is_empty",
    [
        ("empty", {}, True),
        ("a partition", {"partitions": frozenset({"sink-0"})}, False),
        ("it was seen open", {"ongoing_epoch": 4}, False),
        ("it ended later than it began", {"prepare_abort_ms": T0 + 6, "complete_abort_ms": T0 + 6}, False),
    ],
)
def test_nothing_was_written_only_where_its_end_opened_it(changes: dict[str, Any], is_empty: bool) -> None:
    fields: dict[str, Any] = {"transaction": "shop-writer", "start": 5, "epoch": 5, "version": 2, "partitions": ()}
    view = only_view(broker_record(BrokerStatus.COMPLETE_ABORT, 5, **fields))
    assert view.broker is not None
    changed = loss_case(replace(view, broker=replace(view.broker, **changes)))
    assert (rule_empty(changed, FENCED) is not None) is is_empty
    assert rule_empty(loss_case(replace(view, broker=None)), FENCED) is None


@pytest.mark.parametrize(
    ("cause", "certainty", "is_harmless"),
    [
        (AbortCause.CLIENT, CERTAIN, True),
        (AbortCause.CLIENT, LIKELY, True),
        (AbortCause.CLIENT, GUESS, False),
        (AbortCause.TIMEOUT, CERTAIN, False),
        (AbortCause.FENCED, CERTAIN, False),
        (AbortCause.OPERATOR, CERTAIN, False),
        (AbortCause.UNKNOWN, GUESS, False),
    ],
)
def test_its_own_client_knows_what_it_gave_up(cause: AbortCause, certainty: Certainty, is_harmless: bool) -> None:
    found = rule_client(loss_case(only_view(*ABORTED)), Inference(cause=cause, certainty=certainty, why=""))
    assert found is None or found[:2] == (HARMLESS, LIKELY)
    assert (found is not None) is is_harmless
