"""What follows from the parts of a joined transaction: its names, its times, what may still become of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indoubt.collector.facts.transaction_view import TransactionView, opening_ms
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.facts import (
    BrokerIdentity,
    BrokerTransaction,
    HandleIdentity,
    Listed,
    ReportedTransaction,
)
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.decisions import Decision, Outcome, Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.observations import PREFIX, batch_attempt, database_handle, handle

S = TransactionState
KAFKA, MYSQL = handle(), database_handle()
NOTHING = TransactionView(
    transaction=KAFKA.transaction,
    producer_id=7,
    producer_epoch=4,
    application=Application(kind=ApplicationKind.PIPELINE, name=PREFIX),
    managed=True,
    slot=0,
    state=S.OPEN,
    broker=None,
    reported=None,
    first_decision=None,
    listing=None,
    outcome=None,
    superseded=False,
)


def view(**changes: Any) -> TransactionView:
    return replace(NOTHING, **changes)


def broker(**changes: Any) -> BrokerTransaction:
    return BrokerTransaction(identity=BrokerIdentity(KAFKA.transaction, 7, 500), **changes)


def branch(**changes: Any) -> BranchFacts:
    fields = {"resource_manager": "mysql", "transaction": MYSQL.transaction, "instance": "mysql", **changes}
    return BranchFacts(**fields)


def reported(of: Handle = KAFKA, *, listed: bool = False, claimed: bool = False, **changes: Any) -> ReportedTransaction:
    return ReportedTransaction(
        identity=HandleIdentity(of.transaction, of.producer_id, of.producer_epoch),
        reported_manager=of.resource_manager,
        reported_handle=of if claimed else None,
        listed=Listed(batch_attempt=batch_attempt(), handle=of) if listed else None,
        **changes,
    )


def decision(at_ms: int = 9, ruling: Ruling = Ruling.COMMIT) -> Decision:
    return Decision(
        prefix=PREFIX, batch_attempt=batch_attempt(), ruling=ruling, handles=(KAFKA,), who="run-1", at_ms=at_ms
    )


def outcome(at_ms: int) -> Outcome:
    return Outcome(
        prefix=PREFIX,
        batch_attempt=batch_attempt(),
        handle_keys=(KAFKA.key,),
        settled=Settled.COMMITTED,
        who="run-1",
        at_ms=at_ms,
    )


@pytest.mark.parametrize(
    ("found", "key", "handle_key", "resource_manager"),
    [
        (view(), "kafka:ip-count-0-1:7:4", "kafka:ip-count-0-1:7:4", "kafka"),
        (view(broker=broker()), "kafka:ip-count-0-1:7:4@500", "kafka:ip-count-0-1:7:4", "kafka"),
        (view(reported=reported()), KAFKA.key, "kafka:ip-count-0-1:7:4", "kafka"),
        (view(branch=branch(), broker=broker()), MYSQL.key, MYSQL.key, "mysql"),
        (
            view(reported=reported(MYSQL), transaction=MYSQL.transaction, producer_id=None, producer_epoch=None),
            MYSQL.key,
            MYSQL.key,
            "mysql",
        ),
    ],
)
def test_what_names_a_transaction(found: TransactionView, key: str, handle_key: str, resource_manager: str) -> None:
    assert (found.key, found.handle_key, found.resource_manager) == (key, handle_key, resource_manager)
    assert found.pipeline == PREFIX


def test_transactions_of_one_time_stand_by_id_producer_and_opening() -> None:
    assert view(broker=broker()).sort_key == ("ip-count-0-1", 7, 500)
    assert view().sort_key == ("ip-count-0-1", 7, 0)
    listed = view(producer_id=None, branch=branch(first_seen_ms=3))
    assert listed.sort_key == ("ip-count-0-1", -1, 3)


@pytest.mark.parametrize(
    ("found", "prefix"),
    [
        (view(), PREFIX),
        (view(transaction="shop"), None),
        (view(transaction=MYSQL.transaction), None),
        (view(transaction=MYSQL.transaction, branch=branch()), PREFIX),
        (view(branch=branch()), None),
    ],
)
def test_the_prefix_that_an_id_names(found: TransactionView, prefix: str | None) -> None:
    assert found.named_prefix == prefix


def test_a_handle_is_listed_by_a_decision_or_claimed_by_an_event() -> None:
    assert (view().handle, view().listed_handle) == (None, None)
    claimed = view(reported=reported(claimed=True))
    assert (claimed.handle, claimed.listed_handle) == (KAFKA, None)
    listed = view(reported=reported(listed=True))
    assert (listed.handle, listed.listed_handle) == (KAFKA, KAFKA)


def test_a_batch_is_proven_or_claimed_and_gives_the_checkpoint() -> None:
    proven, claimed = batch_attempt(41), batch_attempt(42)
    assert (view().batch_attempt, view().checkpoint) == (None, None)
    both = view(proven_batch_attempt=proven, reported_batch_attempt=claimed, flink_checkpoint=7)
    assert (both.batch_attempt, both.checkpoint) == (proven, 41)
    told = view(reported_batch_attempt=claimed)
    assert (told.batch_attempt, told.checkpoint) == (claimed, 42)
    assert view(flink_checkpoint=7).checkpoint == 7


@pytest.mark.parametrize(
    ("changes", "is_so"),
    [
        ({}, True),
        ({"reported": reported(claimed=True)}, True),
        ({"first_decision": (1, decision(), True)}, True),
        ({"broker": broker()}, False),
        ({"branch": branch()}, False),
        ({"listing": (1, decision())}, False),
        ({"outcome": outcome(9)}, False),
        ({"reported": reported(listed=True)}, False),
    ],
)
def test_what_no_coordinator_database_or_decision_knows_is_only_reported(changes: dict[str, Any], is_so: bool) -> None:
    assert view(**changes).is_only_reported is is_so


@pytest.mark.parametrize(
    ("told", "listed_by", "opened"),
    [
        (None, None, None),
        (reported(), None, None),
        (reported(event_times={EventType.TRANSACTION_OPENED: 6, EventType.TRANSACTION_PREPARED: 8}), None, 6),
        (reported(event_times={EventType.TRANSACTION_PREPARED: 8}), None, None),
        (reported(claimed=True, event_times={EventType.TRANSACTION_OPENED: 6}), None, KAFKA.opened_at_ms),
        (reported(claimed=True), branch(first_seen_ms=3), 3),
        (reported(claimed=True), branch(first_seen_ms=3, prepared_ms=2), 2),
        (reported(claimed=True), branch(), KAFKA.opened_at_ms),
        (reported(listed=True), branch(first_seen_ms=3), KAFKA.opened_at_ms),
        (None, branch(first_seen_ms=3), 3),
        (None, branch(), None),
    ],
)
def test_a_transaction_is_opened_as_a_decision_its_database_or_else_an_event_says(
    told: ReportedTransaction | None, listed_by: BranchFacts | None, opened: int | None
) -> None:
    assert opening_ms(told, listed_by) == opened
    assert view(reported=told, branch=listed_by).opened_ms == opened
    assert view(reported=told, branch=listed_by, broker=broker()).opened_ms == 500


@pytest.mark.parametrize(
    ("listed_by", "state", "is_listed", "has_vanished"),
    [
        (None, S.OPEN, False, False),
        (branch(), S.PREPARED, True, False),
        (branch(gone_ms=5), S.PREPARED, False, True),
        (branch(gone_ms=5), S.DECIDED, False, True),
        (branch(gone_ms=5), S.COMMITTED, False, False),
        (branch(gone_ms=5), S.LOST, False, False),
    ],
)
def test_what_its_database_lists_no_more_and_has_not_ended_has_vanished(
    listed_by: BranchFacts | None, state: TransactionState, is_listed: bool, has_vanished: bool
) -> None:
    found = view(branch=listed_by, state=state)
    assert (found.is_listed, found.has_vanished) == (is_listed, has_vanished)


@pytest.mark.parametrize(
    ("changes", "timeout"),
    [
        ({}, None),
        ({"broker": broker(timeout_ms=70)}, 70),
        ({"broker": broker()}, None),
        ({"broker": broker(timeout_ms=70), "reported": reported(listed=True)}, 70),
        ({"broker": broker(), "reported": reported(listed=True)}, KAFKA.timeout_ms),
        ({"reported": reported(listed=True)}, KAFKA.timeout_ms),
        ({"reported": reported(claimed=True)}, None),
        ({"reported": reported(MYSQL, listed=True)}, None),
    ],
)
def test_the_timeout_is_the_coordinators_or_the_decisions(changes: dict[str, Any], timeout: int | None) -> None:
    assert view(**changes).timeout_ms == timeout


@pytest.mark.parametrize(
    ("changes", "deadline"),
    [
        ({"state": S.OPEN}, 570),
        ({"state": S.PREPARED}, 570),
        ({"state": S.DECIDED}, 570),
        ({"state": S.COMMITTING}, None),
        ({"state": S.ABORTING}, None),
        ({"state": S.COMMITTED}, None),
        ({"state": S.ABORTED}, None),
        ({"state": S.LOST}, None),
        ({"superseded": True}, None),
        ({"broker": broker()}, None),
        ({"broker": broker(timeout_ms=0)}, None),
        ({"broker": None}, None),
        ({"broker": None, "reported": reported(claimed=True)}, None),
        ({"broker": None, "reported": reported(listed=True)}, KAFKA.opened_at_ms + KAFKA.timeout_ms),
        ({"broker": None, "branch": branch(gone_ms=5), "reported": reported(listed=True)}, None),
    ],
)
def test_only_what_runs_has_a_deadline(changes: dict[str, Any], deadline: int | None) -> None:
    fields: dict[str, Any] = {"broker": broker(timeout_ms=70), **changes}
    assert view(**fields).deadline_ms == deadline


@pytest.mark.parametrize(
    ("changes", "runs"),
    [
        ({"broker": broker()}, True),
        ({"broker": broker(), "state": S.PREPARED}, True),
        ({"broker": broker(), "state": S.DECIDED}, True),
        ({"broker": broker(), "state": S.COMMITTING}, False),
        ({"broker": broker(), "superseded": True}, False),
        ({"branch": branch(first_seen_ms=3), "state": S.PREPARED}, True),
        ({"branch": branch(first_seen_ms=3, gone_ms=5), "state": S.PREPARED}, False),
        # What events alone tell of may never have been.
        ({}, False),
        ({"reported": reported(claimed=True)}, False),
        ({"reported": reported(listed=True)}, True),
    ],
)
def test_what_is_open_where_it_was_seen_runs(changes: dict[str, Any], runs: bool) -> None:
    assert view(**changes).is_running is runs


def test_without_a_time_of_its_opening_it_has_no_deadline() -> None:
    listed = replace(KAFKA, opened_at_ms=0)
    assert view(reported=reported(listed, listed=True)).deadline_ms == KAFKA.timeout_ms
    gone = view(branch=branch(), reported=reported(claimed=True), broker=None)
    assert (gone.is_running, gone.timeout_ms, gone.deadline_ms) == (True, None, None)
    nameless = view(branch=branch(), state=S.PREPARED)
    assert (nameless.is_running, nameless.opened_ms, nameless.deadline_ms) == (True, None, None)


@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ({}, None),
        ({"broker": broker(prepare_abort_ms=4), "outcome": outcome(6)}, 4),
        ({"broker": broker(), "outcome": outcome(6)}, 6),
        ({"broker": broker(), "branch": branch(gone_ms=8)}, 8),
        ({"outcome": outcome(6), "branch": branch(gone_ms=8)}, 6),
        ({"branch": branch(gone_ms=8)}, 8),
        ({"branch": branch()}, None),
    ],
)
def test_its_end_is_the_coordinators_the_logs_or_its_databases(changes: dict[str, Any], ended: int | None) -> None:
    assert view(**changes).ended_ms == ended


@pytest.mark.parametrize(
    ("changes", "updated"),
    [
        ({}, None),
        ({"broker": broker()}, 500),
        ({"broker": broker(last_write_ms=600)}, 600),
        ({"broker": broker(complete_commit_ms=700, last_write_ms=600)}, 700),
        ({"broker": broker(complete_commit_ms=700, prepare_commit_ms=650)}, 700),
        ({"broker": broker(complete_abort_ms=700, prepare_abort_ms=650)}, 700),
        ({"broker": broker(prepare_abort_ms=650)}, 650),
        ({"broker": broker(), "listing": (1, decision(900))}, 900),
        ({"broker": broker(), "reported": reported(event_times={EventType.TRANSACTION_OPENED: 950})}, 950),
        ({"broker": broker(), "outcome": outcome(990)}, 990),
    ],
)
def test_it_was_updated_at_the_newest_of_its_times(changes: dict[str, Any], updated: int | None) -> None:
    assert view(**changes).updated_ms == updated


FOREIGN = branch(transaction="'bank','7',1", first_seen_ms=3)
CHANGES: list[dict[str, Any]] = [
    {},
    {"transaction": "ip-count-1-1"},
    {"transaction": "shop"},
    {"producer_id": 8},
    {"producer_epoch": 5},
    {"state": S.PREPARED},
    {"outcome": outcome(9)},
    {"listing": (1, decision())},
    {"listing": (2, decision())},
    {"first_decision": (1, decision(ruling=Ruling.ABORT), True)},
    {"transaction": FOREIGN.transaction, "branch": FOREIGN},
    {"transaction": FOREIGN.transaction, "branch": replace(FOREIGN, first_seen_ms=4)},
]


def test_a_revision_changes_with_identity_state_and_decision_alone() -> None:
    revisions = [view(**changes).revision for changes in CHANGES]
    assert {len(revision) for revision in revisions} == {16}
    assert len(set(revisions)) == len(CHANGES)
    same = [
        {"broker": broker()},
        {"slot": 3},
        {"superseded": True},
        {"reported": reported(claimed=True)},
    ]
    assert {view(**changes).revision for changes in same} == {revisions[0]}
    ruled = view(listing=(1, decision()), first_decision=(9, decision(ruling=Ruling.ABORT), True))
    assert ruled.revision == view(listing=(1, decision())).revision, "the decision that counts"
    managed = {"transaction": MYSQL.transaction}
    assert (
        view(branch=branch(first_seen_ms=3), **managed).revision
        == view(branch=branch(first_seen_ms=4), **managed).revision
    )
