"""The time line of a transaction: one row a step, whoever told of it."""

from __future__ import annotations

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, OperatorOrder
from indoubt.collector.views.transaction_detail import _STEPS, timeline
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.events import EventType
from tests.unit.collector.observations import (
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    handle,
    only_view,
    outcome,
    run_started,
    transaction_event,
)

BROKER, EVENTS, LOG = "__transaction_state", "lifecycle events", "decision log"


def test_a_step_that_two_sources_tell_of_is_one_row() -> None:
    view = only_view(
        run_started(),
        broker_record(BrokerStatus.ONGOING, 0),
        transaction_event(EventType.TRANSACTION_OPENED, 3),
        transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()),
        decided(1, handle()),
        transaction_event(EventType.TRANSACTION_COMMIT_DECIDED, 1_001),
        broker_record(BrokerStatus.PREPARE_COMMIT, 1_500, epoch=5, version=2),
        broker_record(BrokerStatus.COMPLETE_COMMIT, 1_505, epoch=5, version=2),
        transaction_event(EventType.TRANSACTION_COMMITTED, 1_510),
        outcome(2, handle(), Settled.COMMITTED, at=2_000),
    )
    order = OperatorOrder(key=view.key, action="commit", who="anna", at_ms=T0 + 1_400, audit=7)
    assert [(step.at_ms - T0, step.what, step.source) for step in timeline(view, [order])] == [
        (0, "opened", f"{BROKER}, {EVENTS}"),
        (500, "prepared", EVENTS),
        (1_000, "commit decided by run-1, offset 1", f"{LOG}, {EVENTS}"),
        (1_400, "commit ordered by anna, audit 7", "audit"),
        (1_500, "commit accepted", BROKER),
        (1_505, "committed", f"{BROKER}, {EVENTS}"),
        (2_000, "found committed by run-1", LOG),
    ]


def test_a_branch_has_what_its_database_shows_and_what_was_decided() -> None:
    branch = database_handle()
    view = only_view(
        run_started(),
        branch_listed(branch, prepared_ms=T0 + 600),
        transaction_event(EventType.TRANSACTION_PREPARED, 590, branch, handle=branch.to_json()),
        decided(1, branch, ruling=Ruling.ABORT),
        branch_gone(branch, BranchProof.NO_MARKER),
    )
    steps = timeline(view, [])
    assert [step.what for step in steps] == [
        "prepared",
        "abort decided by run-1, offset 1",
        "first seen",
        "not listed any more, marker: no marker",
    ]
    assert steps[0].source.endswith(f", {EVENTS}")


def test_every_event_of_a_transaction_has_words() -> None:
    assert set(_STEPS) == {type_ for type_ in EventType if type_.value.startswith("transaction.")}
