"""How a branch ended that its database lists no more, and of which branches the end is still to be asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.branch_view import end, outlived, unproven_branches
from indoubt.collector.records.branches import (
    BranchDetail,
    BranchFacts,
    BranchLocks,
    DatabaseSnapshot,
    with_gone,
    with_listed,
)
from indoubt.collector.records.observations import BranchGone, BranchListed, BranchProof, Observation, OperatorOrder
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    database_handle,
    decided,
    folded,
    outcome,
    run_started,
    transaction_event,
)

OURS, FOREIGN = f"{PREFIX}:41:0:0:0a1b2c3d", "'bank','7',1"
COMMITTED, TOMBSTONE, NO_MARKER, NOT_READ = (
    BranchProof.COMMITTED,
    BranchProof.TOMBSTONE,
    BranchProof.NO_MARKER,
    BranchProof.NOT_READ,
)
S = TransactionState
GONE_MS = T0 + 100_000


def gone(proof: BranchProof | None, at_ms: int | None = GONE_MS) -> BranchFacts:
    return BranchFacts(resource_manager="mysql", transaction=OURS, instance="mysql", gone_ms=at_ms, proof=proof)


@pytest.mark.parametrize(
    ("proof", "is_decided", "state"),
    [
        (TOMBSTONE, True, S.LOST),
        (TOMBSTONE, False, S.ABORTED),
        (NO_MARKER, True, None),
        (NO_MARKER, False, S.ABORTED),
        (NOT_READ, True, None),
        (NOT_READ, False, None),
        (COMMITTED, True, None),
        (COMMITTED, False, None),
        (None, True, None),
        (None, False, None),
    ],
)
def test_what_a_marker_says_of_a_branch_that_is_gone(
    proof: BranchProof | None, is_decided: bool, state: TransactionState | None
) -> None:
    assert end(gone(proof), None, is_decided=is_decided) is state
    assert end(gone(proof, None), None, is_decided=is_decided) is None, "it is listed"


def order(action: str, before_ms: int) -> OperatorOrder:
    return OperatorOrder(key=f"mysql:{FOREIGN}@mysql", action=action, who="anna", at_ms=GONE_MS - before_ms, audit=1)


@pytest.mark.parametrize(
    ("action", "before_ms", "state"),
    [
        ("abort", 0, S.ABORTED),
        ("commit", 0, S.COMMITTED),
        ("settle", 0, None),
        # It was gone within a minute of the order, or up to ten seconds before the order was noted.
        ("abort", 60_000, S.ABORTED),
        ("abort", 60_001, None),
        ("abort", -10_000, S.ABORTED),
        ("abort", -10_001, None),
        ("commit", 60_000, S.COMMITTED),
        ("commit", 60_001, None),
        ("commit", -10_000, S.COMMITTED),
        ("commit", -10_001, None),
    ],
)
def test_an_order_ended_a_branch_that_was_gone_just_then(
    action: str, before_ms: int, state: TransactionState | None
) -> None:
    assert end(gone(None), order(action, before_ms), is_decided=False) is state
    for proof in (NOT_READ, COMMITTED):
        assert end(gone(proof), order(action, before_ms), is_decided=False) is None, "one of ours has a marker"


@pytest.mark.parametrize(
    ("branch", "polled_ms", "is_so"),
    [
        (gone(None, None), 3_001, True),
        (gone(None, None), 3_000, False),
        (gone(None, None), None, False),
        (gone(None), 9_000, False),
        (None, 9_000, False),
    ],
)
def test_a_branch_that_is_listed_two_seconds_after_its_reported_end_has_outlived_it(
    branch: BranchFacts | None, polled_ms: int | None, is_so: bool
) -> None:
    assert outlived(branch, polled_ms, 1_000) is is_so


MINE = database_handle()
CLAIMED = transaction_event(EventType.TRANSACTION_PREPARED, 500, MINE, handle=MINE.to_json())


@pytest.mark.parametrize(
    ("seen", "is_asked"),
    [
        ([run_started(0), decided(1, MINE)], True),
        ([run_started(0), CLAIMED], True),
        ([run_started(0), CLAIMED, branch_listed(MINE)], True),
        ([run_started(0), decided(1, MINE), branch_gone(MINE, NO_MARKER)], True),
        ([run_started(0), decided(1, MINE), branch_gone(MINE, NOT_READ)], True),
        ([run_started(0), decided(1, MINE), branch_gone(MINE, COMMITTED)], False),
        ([run_started(0), decided(1, MINE), branch_gone(MINE, TOMBSTONE)], False),
        ([run_started(0), decided(1, MINE), outcome(2, MINE, Settled.COMMITTED)], False),
        # An event that names no handle, and one of a run that is not in the log.
        ([run_started(0), transaction_event(EventType.TRANSACTION_OPENED, 500, MINE)], False),
        ([CLAIMED], False),
        ([run_started(0), CLAIMED, decided(1, database_handle(slot=1), batch=40)], True),
        ([run_started(0), CLAIMED, decided(1, database_handle(slot=1), batch=41)], True),
        ([run_started(0), CLAIMED, decided(1, database_handle(slot=1), batch=42)], False),
    ],
)
def test_whose_marker_is_read(seen: list[Observation], is_asked: bool) -> None:
    asked = unproven_branches(folded(*seen), "mysql")
    assert (MINE.transaction in asked) is is_asked
    assert unproven_branches(folded(*seen), "postgres") == []


def test_a_foreign_branch_has_no_marker_to_read() -> None:
    foreign = replace(MINE, transaction=FOREIGN)
    told = transaction_event(EventType.TRANSACTION_PREPARED, 500, foreign, handle=foreign.to_json())
    assert unproven_branches(folded(run_started(0), told, CLAIMED), "mysql") == [MINE.transaction]


def listed(at_ms: int, transaction: str = OURS, prepared_ms: int | None = None) -> BranchListed:
    return BranchListed(
        instance="mysql", resource_manager="mysql", transaction=transaction, at_ms=at_ms, prepared_ms=prepared_ms
    )


def seen_gone(at_ms: int, proof: BranchProof | None, transaction: str = OURS) -> BranchGone:
    return BranchGone(instance="mysql", resource_manager="mysql", transaction=transaction, at_ms=at_ms, proof=proof)


@pytest.mark.parametrize(
    ("first", "then", "proof", "gone_ms"),
    [
        (None, (5, NO_MARKER), NO_MARKER, 5),
        ((5, NO_MARKER), (9, COMMITTED), COMMITTED, 5),
        ((5, NO_MARKER), (3, NO_MARKER), NO_MARKER, 3),
        # What a marker proved stays, whatever a later look could not read.
        ((5, COMMITTED), (9, NOT_READ), COMMITTED, 5),
        ((5, TOMBSTONE), (9, NO_MARKER), TOMBSTONE, 5),
        ((5, NOT_READ), (9, NO_MARKER), NO_MARKER, 5),
    ],
)
def test_a_branch_is_gone_since_the_first_look_and_a_proof_stays(
    first: tuple[int, BranchProof] | None, then: tuple[int, BranchProof], proof: BranchProof, gone_ms: int
) -> None:
    known = with_gone(None, seen_gone(*first)) if first is not None else None
    found = with_gone(known, seen_gone(*then))
    assert (found.proof, found.gone_ms, found.is_listed) == (proof, gone_ms, False)
    assert (found.resource_manager, found.transaction, found.instance) == ("mysql", OURS, "mysql")
    assert found.first_seen_ms is None


@pytest.mark.parametrize(
    ("transaction", "prepared", "was_gone", "first_seen"),
    [
        (OURS, (None, None), False, 1),
        (OURS, (None, None), True, 1),
        (FOREIGN, (None, None), False, 1),
        (FOREIGN, (None, None), True, 9),
        (FOREIGN, (7, 7), True, 1),
        (FOREIGN, (7, 8), True, 9),
        (FOREIGN, (None, 8), True, 9),
        (FOREIGN, (7, None), True, 9),
    ],
)
def test_a_foreign_name_that_comes_back_is_the_same_branch_only_by_its_time(
    transaction: str, prepared: tuple[int | None, int | None], was_gone: bool, first_seen: int
) -> None:
    known = with_listed(None, listed(1, transaction, prepared[0]))
    assert (known.first_seen_ms, known.since_ms) == (1, prepared[0] if prepared[0] is not None else 1)
    if was_gone:
        known = with_gone(known, seen_gone(5, None, transaction))
    again = with_listed(known, listed(9, transaction, prepared[1]))
    assert (again.first_seen_ms, again.prepared_ms, again.is_listed) == (first_seen, prepared[1], True)
    assert again.key == (f"mysql:{transaction}" if transaction == OURS else f"mysql:{transaction}@mysql")


def test_a_branch_is_shown_with_its_owner_and_its_database() -> None:
    found = with_listed(None, replace(listed(9, FOREIGN, 7), owner="anna", database="shop"))
    assert (found.owner, found.database, found.prepared_ms) == ("anna", "shop", 7)
    assert BranchDetail().locks == BranchLocks()
    assert DatabaseSnapshot(at_ms=9).details == {}


def test_an_earlier_look_that_is_read_later_moves_the_age_back() -> None:
    assert with_listed(with_listed(None, listed(9)), listed(4)).first_seen_ms == 4
    only_gone = with_gone(None, seen_gone(5, NO_MARKER))
    assert with_listed(only_gone, listed(9)).first_seen_ms == 9


def test_people_are_told_where_a_branch_is_listed() -> None:
    assert gone(None).listed_by == "XA RECOVER of mysql"
    assert replace(gone(None), resource_manager="oracle").listed_by == "oracle of mysql"
