"""What a server's list of branches proves: their ages, their ends, and how certain these are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from indoubt.collector.facts.branch_view import unproven_branches
from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.observe.databases import ends_known, is_new
from indoubt.collector.records.branches import DatabaseSnapshot, with_listed
from indoubt.collector.records.observations import BranchListed, BranchProof, Observation
from indoubt.collector.verdicts import told_evidence
from indoubt.collector.verdicts.verdict_rules import judge
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.facts.branch_observations import (
    COMMIT,
    COMMITTED,
    FOREIGN,
    MINE,
    NO_MARKER,
    NOT_READ,
    POSTGRES,
    RUN,
    TOLD,
    TOMBSTONE,
    S,
    V,
)
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    case,
    database_handle,
    decided,
    folded,
    only_view,
    outcome,
    transaction_event,
)


@pytest.mark.parametrize(
    ("observed", "first_seen"),
    [
        ([branch_listed(MINE, at=1), branch_listed(MINE, at=5)], 1),
        # Hidden for a moment, as servers do while a branch changes hands.
        ([branch_listed(MINE, at=1), branch_gone(MINE, NO_MARKER, at=2), branch_listed(MINE, at=3)], 1),
        # A foreign name may be used again: that is another branch.
        ([branch_listed(FOREIGN, at=1), branch_gone(FOREIGN, None, at=2), branch_listed(FOREIGN, at=3)], 3),
        (
            [
                branch_listed(FOREIGN, at=1, prepared_ms=T0),
                branch_gone(FOREIGN, None, at=2),
                branch_listed(FOREIGN, at=3, prepared_ms=T0),
            ],
            1,
        ),
    ],
)
def test_a_branchs_age_counts_from_when_it_was_first_seen(observed: list[Observation], first_seen: int) -> None:
    branch = only_view(RUN, *observed).branch
    assert branch is not None
    assert branch.first_seen_ms == T0 + first_seen


def test_a_foreign_name_that_is_used_again_has_another_revision() -> None:
    first = [branch_listed(FOREIGN, at=1)]
    again = [*first, branch_gone(FOREIGN, None, at=2), branch_listed(FOREIGN, at=3)]
    assert only_view(*first).revision != only_view(*again).revision
    hidden = [RUN, branch_listed(MINE, at=1), branch_gone(MINE, NO_MARKER, at=2), branch_listed(MINE, at=3)]
    assert only_view(RUN, branch_listed(MINE, at=1)).revision == only_view(*hidden).revision


@pytest.mark.parametrize(
    ("told", "polled", "state"),
    [
        (transaction_event(EventType.TRANSACTION_ABORTED, 900, MINE), 2_000, S.PREPARED),
        (transaction_event(EventType.TRANSACTION_ABORTED, 900, MINE), 5_000, S.PREPARED),
        (transaction_event(EventType.TRANSACTION_COMMITTED, 900, MINE), 5_000, S.PREPARED),
        (outcome(2, MINE, Settled.COMMITTED, at=900), 2_000, S.COMMITTED),
        (outcome(2, MINE, Settled.COMMITTED, at=900), 5_000, S.PREPARED),
    ],
)
def test_a_branch_listed_long_after_its_reported_end_has_not_ended(
    told: Observation, polled: int, state: TransactionState
) -> None:
    found = folded(RUN, branch_listed(MINE), TOLD, told)
    found.database_snapshots["mysql"] = DatabaseSnapshot(at_ms=T0 + polled)
    (view,) = views(found, settled=False)
    assert view.state is state


OURS, FOREIGN_ID = MINE.transaction, FOREIGN.transaction


@pytest.mark.parametrize(
    ("missing", "before", "proofs", "are_read", "ends", "waits_for"),
    [
        # The first look that misses a branch proves nothing, a marker does.
        ([OURS, FOREIGN_ID], [], {}, True, {}, {OURS, FOREIGN_ID}),
        ([OURS], [], {OURS: COMMITTED}, True, {OURS: COMMITTED}, set()),
        ([OURS, FOREIGN_ID], [OURS, FOREIGN_ID], {}, True, {OURS: NO_MARKER, FOREIGN_ID: None}, set()),
        ([OURS], [OURS], {}, False, {OURS: NOT_READ}, set()),
        ([OURS], [OURS], {OURS: TOMBSTONE}, True, {OURS: TOMBSTONE}, set()),
        # Never seen in the list, and its marker is there.
        ([], [], {OURS: COMMITTED}, True, {OURS: COMMITTED}, set()),
        # Listed again meanwhile.
        ([], [OURS], {}, True, {}, set()),
    ],
)
def test_when_a_branch_counts_as_gone(
    missing: list[str],
    before: list[str],
    proofs: dict[str, BranchProof],
    are_read: bool,
    ends: dict[str, BranchProof | None],
    waits_for: set[str],
) -> None:
    assert ends_known(missing, set(before), proofs, are_read=are_read) == (ends, waits_for)


@pytest.mark.parametrize("proof", [*BranchProof, None])
def test_every_end_is_reported(proof: BranchProof | None) -> None:
    branch = only_view(branch_listed(MINE), branch_gone(MINE, proof)).branch
    assert branch is not None
    told = told_evidence.ended(branch)
    assert told.at_ms == T0 + 3_000
    assert told.fact


def test_markers_are_asked_of_those_whose_end_only_events_tell() -> None:
    done, claimed = database_handle(slot=1), transaction_event(EventType.TRANSACTION_COMMITTED, 900, MINE)
    state = folded(RUN, decided(1, MINE, done, POSTGRES), outcome(2, done, Settled.COMMITTED), claimed)
    assert unproven_branches(state, "mysql") == [MINE.transaction]
    assert unproven_branches(state, "postgres") == [POSTGRES.transaction]
    # Of a batch before the last decided one nobody asks: it was finished.
    later = replace(MINE, transaction=f"{PREFIX}:42:0:0:0a1b2c3d")
    state = folded(RUN, COMMIT, decided(2, later, batch=42))
    assert unproven_branches(state, "mysql") == [later.transaction]
    state = folded(RUN, COMMIT, branch_gone(MINE, COMMITTED))
    assert unproven_branches(state, "mysql") == []


def test_what_is_listed_is_never_trimmed() -> None:
    old = [replace(MINE, transaction=f"{PREFIX}:{batch}:0:0:0a1b2c3d") for batch in range(20)]
    seen: list[Observation] = [branch_listed(one, at=n) for n, one in enumerate(old)]
    ends = [branch_gone(one, COMMITTED, at=100 + n) for n, one in enumerate(old[:15])]
    state = folded(RUN, *seen, *ends)
    state.ended.kept = 5
    trim(state)
    assert list(state.branches) == [one.key for one in old[10:]]


ONE, PROMOTED, ANOTHER = "system 7, timeline 1", "system 7, timeline 2", "system 8, timeline 1"


@pytest.mark.parametrize(
    ("gone", "by", "certainty"),
    [
        (None, ONE, Certainty.CERTAIN),
        (None, PROMOTED, Certainty.LIKELY),
        (None, "", Certainty.LIKELY),
        (NO_MARKER, ONE, Certainty.CERTAIN),
        (NO_MARKER, PROMOTED, Certainty.LIKELY),
        # A marker came with the rows, whichever server has it.
        (COMMITTED, ANOTHER, Certainty.CERTAIN),
        (TOMBSTONE, PROMOTED, Certainty.CERTAIN),
    ],
)
def test_an_end_is_certain_where_the_server_that_listed_it_tells(
    gone: BranchProof | None, by: str, certainty: Certainty
) -> None:
    of = FOREIGN if gone is None else MINE
    judgement = judge(case(only_view(RUN, branch_listed(of, server=ONE), branch_gone(of, gone, server=by)), 9_000))
    assert (judgement.verdict, judgement.certainty) == (V.SETTLED, certainty)


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (DatabaseSnapshot(at_ms=T0, server=ONE), ""),
        (DatabaseSnapshot(at_ms=T0, server=PROMOTED), ""),
        (DatabaseSnapshot(at_ms=T0, server=ANOTHER), f"another server answers now ({ANOTHER}; it was {ONE})"),
        (DatabaseSnapshot(at_ms=None, error="a standby answers"), "does not answer: a standby answers"),
    ],
)
def test_what_is_not_asked_of_its_server_is_not_certain(snapshot: DatabaseSnapshot, says: str) -> None:
    state = folded(RUN, COMMIT, branch_listed(MINE, server=ONE))
    state.database_snapshots["mysql"] = snapshot
    (view,) = views(state, settled=False)
    judgement = judge(case(view, 9_000))
    assert (judgement.verdict, judgement.certainty) == (
        V.COMMIT_IT,
        Certainty.LIKELY if says else Certainty.CERTAIN,
    )
    assert says in view.not_asked
    assert bool(says) is any(view.not_asked == fact.fact for fact in judgement.evidence)


@pytest.mark.parametrize(
    ("known", "prepared_ms", "server", "expected"),
    [
        (None, T0, ONE, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, ONE, False),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0 + 1, ONE, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, PROMOTED, True),
        (branch_listed(FOREIGN, server=ONE, prepared_ms=T0), T0, "", False),
        (branch_listed(FOREIGN, prepared_ms=T0), T0, ONE, True),
    ],
)
def test_a_listed_branch_is_noted_again_when_another_server_lists_it(
    known: BranchListed | None, prepared_ms: int, server: str, expected: bool
) -> None:
    facts = with_listed(None, known) if known is not None else None
    assert is_new(facts, prepared_ms, server) is expected
