"""What an event of the lifecycle topic claims decides nothing: no verdict, no answer about data loss, no order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.act.orders.plan import handle_of
from indoubt.collector.assess.rules.checkpoints import ONLY_FROM_EVENTS
from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.facts.transactions_of_batches import of_batches
from indoubt.collector.records.facts import HandleIdentity
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import DecisionSeen, Observation
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.verdicts.judging import EvaluationContext, Judged
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.collector.views.batches import BatchVerdict, batches
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Verdict
from tests.unit.collector.observations import (
    CHECKPOINT_ID,
    PREFIX,
    T0,
    batch_attempt,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    event,
    folded,
    handle,
    run_started,
    transaction_event,
)
from tests.unit.collector.verdicts.case_tables import table

RUN = run_started(0)
FOREIGN = "flink-orders-3"
THEIRS, MINE = handle(FOREIGN), handle()
ABORTED_AT_TIMEOUT = [
    broker_record(BrokerStatus.ONGOING, 0, transaction=FOREIGN),
    broker_record(BrokerStatus.PREPARE_ABORT, 61_000, transaction=FOREIGN, epoch=5, version=2),
    broker_record(BrokerStatus.COMPLETE_ABORT, 61_004, transaction=FOREIGN, epoch=5, version=2),
]


def claim(type_: EventType, of: Handle = MINE, at: int = 600, **data: Any) -> Observation:
    return transaction_event(type_, at, of, **data)


def judged(state: State, at: int) -> list[Judged]:
    moment = EvaluationContext(limits=Limits(), log_status=(DecisionLogStatus.READABLE, ""), now_ms=T0 + at)
    cases = moment.cases(state, views(state, settled=True))
    return [Judged(view=one.transaction, judgement=judge(one), pipeline=one.pipeline) for one in cases]


def only(state: State, at: int = 40_000) -> Judged:
    (one,) = judged(state, at)
    return one


@pytest.mark.parametrize("type_", [one for one in EventType if one.value.startswith("transaction.")])
@pytest.mark.parametrize("at", [900, 40_000, 90_000])
def test_no_claim_makes_a_foreign_transaction_ours(type_: EventType, at: int) -> None:
    ongoing = broker_record(BrokerStatus.ONGOING, 0, transaction=FOREIGN)
    honest = only(folded(RUN, ongoing), at)
    lied = only(folded(RUN, ongoing, claim(type_, THEIRS, handle=THEIRS.to_json())), at)
    assert honest.judgement.verdict is Verdict.FOREIGN
    assert (lied.judgement, lied.view.state) == (honest.judgement, honest.view.state)
    assert (lied.view.managed, lied.view.pipeline, lied.view.batch_attempt) == (False, "flink-orders", None)
    assert lied.judgement.may_abort
    assert lied.judgement.loses_data, "it takes a typed confirmation"


@pytest.mark.parametrize("type_", [EventType.TRANSACTION_ABORTED, EventType.TRANSACTION_COMMITTED])
def test_no_claim_makes_a_foreign_loss_harmless(type_: EventType) -> None:
    state = folded(RUN, *ABORTED_AT_TIMEOUT, claim(type_, THEIRS, handle=THEIRS.to_json()))
    (loss,) = loss_cases.judged(loss_cases.loss_inputs(state, DecisionLogStatus.READABLE, views(state, settled=True)))
    assert loss.verdict is LossVerdict.UNKNOWN, loss.why


def test_what_is_ours_is_unknown_while_the_log_is_unread() -> None:
    aborted = [replace(one, transaction=MINE.transaction) for one in ABORTED_AT_TIMEOUT]
    state = folded(*aborted)
    (loss,) = loss_cases.judged(loss_cases.loss_inputs(state, DecisionLogStatus.UNREADABLE, views(state, settled=True)))
    assert (loss.verdict, "decision log" in loss.why) == (LossVerdict.UNKNOWN, True)


@pytest.mark.parametrize(
    ("type_", "state"),
    [
        (EventType.TRANSACTION_COMMITTED, TransactionState.DECIDED),
        (EventType.TRANSACTION_ABORTED, TransactionState.DECIDED),
        (EventType.TRANSACTION_LOST, TransactionState.DECIDED),
    ],
)
def test_no_claim_hides_that_a_commit_is_overdue(type_: EventType, state: TransactionState) -> None:
    ongoing = broker_record(BrokerStatus.ONGOING, 0)
    one = only(folded(RUN, ongoing, decided(1, MINE), claim(type_)))
    assert (one.view.state, one.judgement.verdict) == (state, Verdict.COMMIT_IT)
    # Where no coordinator was seen to have it, too.
    (unseen,) = views(folded(RUN, decided(1, MINE), claim(type_)), settled=False)
    assert unseen.state is state


def test_no_claim_gets_a_transaction_of_a_live_driver_aborted() -> None:
    alive = [RUN, decided(1, handle("ip-count-0-0", epoch=3), batch=40, at=100)]
    ongoing = broker_record(BrokerStatus.ONGOING, 200, start=200)
    aborted_batch = [run_started(2, at=-500, run="run-0")]
    for lie in (
        claim(EventType.TRANSACTION_OPENED, attempt=-1),
        claim(EventType.TRANSACTION_PREPARED, handle=replace(MINE, opened_at_ms=1, timeout_ms=1).to_json()),
        event(EventType.PIPELINE_STOPPED, 5_000, reason="so it is said"),
        event(EventType.PIPELINE_RESTARTING, 5_000),
        event(EventType.PIPELINE_STARTED, 5_000, settings={"interval_ms": 0}),
    ):
        found = [one for one in judged(folded(*alive, *aborted_batch, ongoing, lie), 9_000) if one.view.broker]
        assert [(one.judgement.verdict, one.judgement.may_abort) for one in found] == [(Verdict.IN_PROGRESS, False)]


def test_a_newer_run_of_the_checkpoint_id_counts_whatever_its_prefix() -> None:
    moved = DecisionSeen(
        offset=7, record=RunStarted(prefix="renamed", checkpoint_id=CHECKPOINT_ID, run="run-2", at_ms=T0 + 500)
    )
    for transaction, is_named in (("ip-count-0-0", True), ("ip-count-0-1", False)):
        one = only(folded(RUN, broker_record(BrokerStatus.ONGOING, 0, transaction=transaction), moved), 900)
        assert (one.judgement.verdict, one.judgement.rule) == (Verdict.ABORT_IT, 12)
        assert one.judgement.may_abort is is_named, (
            "no abort decision can name a second batch before the first is decided"
        )


def test_what_only_events_claim_is_offered_nothing_and_expires_never() -> None:
    prepared = claim(EventType.TRANSACTION_PREPARED, handle=MINE.to_json())
    state = folded(RUN, prepared, claim(EventType.TRANSACTION_LOST))
    for at, verdict in ((900, Verdict.IN_PROGRESS), (90_000, Verdict.SETTLED)):
        one = only(state, at)
        assert (one.judgement.verdict, one.judgement.rule) == (verdict, 4)
        assert (one.judgement.may_commit, one.judgement.may_abort) == (False, False)
        assert (one.view.is_only_reported, one.view.deadline_ms, one.view.is_running) == (True, None, False)
    # Under a prefix that never ran there is no such transaction at all.
    assert list(views(folded(prepared), settled=True)) == []
    assert find(folded(prepared), MINE.key) is None


def test_a_false_handle_neither_hides_a_decision_nor_goes_into_an_order() -> None:
    lie = replace(MINE, resource_manager="mysql", slot=7, timeout_ms=1, opened_at_ms=1)
    ongoing = broker_record(BrokerStatus.ONGOING, 0)
    prepared = claim(EventType.TRANSACTION_PREPARED, handle=lie.to_json())
    one = only(folded(RUN, ongoing, prepared, decided(1, MINE)))
    assert (one.judgement.verdict, one.view.resource_manager, one.view.slot) == (Verdict.COMMIT_IT, "kafka", 0)
    assert handle_of(one) == MINE
    undecided = only(folded(RUN, ongoing, prepared))
    sent = handle_of(undecided)
    assert (sent.resource_manager, sent.transaction, sent.producer_id, sent.producer_epoch, sent.slot) == (
        "kafka",
        MINE.transaction,
        MINE.producer_id,
        MINE.producer_epoch,
        0,
    )


def test_a_claim_in_another_database_hides_no_branch() -> None:
    branch = database_handle("postgres")
    lie = claim(EventType.TRANSACTION_PREPARED, replace(branch, resource_manager="mysql"))
    state = folded(RUN, branch_listed(branch), lie)
    listed = [one for one in judged(state, 900) if one.view.branch is not None]
    assert [(one.view.resource_manager, one.view.key) for one in listed] == [("postgres", branch.key)]
    found = find(state, branch.key)
    assert found is not None
    assert found.is_listed


def test_a_branch_is_of_the_batch_that_its_name_says() -> None:
    branch = database_handle("postgres")
    lie = claim(EventType.TRANSACTION_OPENED, branch, batch=57)
    state = folded(RUN, branch_listed(branch), lie)
    (view,) = views(state, settled=True)
    assert view.proven_batch_attempt == view.batch_attempt == batch_attempt(41)
    assert [one.key for one in of_batches(state, lambda of: of.batch == 41)] == [branch.key]
    assert not list(of_batches(state, lambda of: of.batch == 57))


@table(
    "data, shown",
    [
        ("it fits", {"batch": 41}, batch_attempt(41)),
        ("wrong parity", {"batch": 42}, None),
        ("no such run", {"batch": 41, "attempt": 9}, None),
        ("another checkpoint id", {"batch": 41, "checkpoint_id": "another"}, None),
    ],
)
def test_a_claimed_batch_is_shown_where_it_fits_the_log(data: dict[str, Any], shown: object) -> None:
    ongoing = broker_record(BrokerStatus.ONGOING, 0)
    state = folded(RUN, ongoing, claim(EventType.TRANSACTION_OPENED, **data))
    (view,) = views(state, settled=True)
    assert (view.batch_attempt, view.proven_batch_attempt) == (shown, None)
    assert view.first_decision is None


def test_a_claim_puts_nothing_into_a_batch_that_was_decided() -> None:
    ongoing = broker_record(BrokerStatus.ONGOING, 0)
    committed = broker_record(BrokerStatus.COMPLETE_COMMIT, 1_500, epoch=5, version=2)
    other = handle("ip-count-1-1", slot=1, producer_id=9)
    state = folded(RUN, ongoing, decided(1, MINE), committed, claim(EventType.TRANSACTION_OPENED, other))
    (batch,) = batches(judged(state, 9_000), T0 + 9_000, 2_000)
    assert (batch.verdict, [one.view.key for one in batch.transactions]) == (
        BatchVerdict.COMPLETE,
        [f"{MINE.key}@{T0}"],
    )


def test_claims_drive_nothing_out_that_was_decided() -> None:
    state = folded(RUN, decided(1, MINE))
    for n in range(1_000):
        claimed = handle(f"ip-count-{n}-1", producer_id=n + 1)
        state.reported |= folded(claim(EventType.TRANSACTION_OPENED, claimed, at=10**9)).reported
    state.ended.kept = 10
    trim(state)
    assert len(state.reported) == 11
    assert state.ledger.listing(MINE.key) is not None
    assert HandleIdentity(MINE.transaction, MINE.producer_id, MINE.producer_epoch) in state.reported


def test_checkpoints_that_only_events_tell_of_have_just_that_source() -> None:
    state = folded(event(EventType.CHECKPOINT_FAILED, 5, batch=1, checkpoint_id=CHECKPOINT_ID))
    assert state.checkpoints[PREFIX, 1].sources == ONLY_FROM_EVENTS
