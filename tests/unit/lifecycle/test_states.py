"""Every pair of states is walked, so that a new state cannot be forgotten."""

from __future__ import annotations

import itertools

import pytest

from lifecycle.errors import IllegalTransition
from lifecycle.states import FINAL, IN_DOUBT, PREDECESSORS, TransactionState, follow, may_follow
from lifecycle.verdicts import URGENCY, Verdict

S = TransactionState
LEGAL = {
    (S.OPEN, S.PREPARED),
    (S.OPEN, S.DECIDED),
    (S.OPEN, S.COMMITTING),
    (S.OPEN, S.COMMITTED),
    (S.OPEN, S.ABORTING),
    (S.OPEN, S.ABORTED),
    (S.OPEN, S.ENDED),
    (S.PREPARED, S.DECIDED),
    (S.PREPARED, S.COMMITTING),
    (S.PREPARED, S.COMMITTED),
    (S.PREPARED, S.ABORTING),
    (S.PREPARED, S.ABORTED),
    (S.PREPARED, S.ENDED),
    (S.DECIDED, S.COMMITTING),
    (S.DECIDED, S.COMMITTED),
    (S.DECIDED, S.ABORTING),
    (S.DECIDED, S.LOST),
    (S.COMMITTING, S.COMMITTED),
    (S.ABORTING, S.ABORTED),
    (S.ABORTING, S.LOST),
}
"""Written out a second time on purpose: a change of the table must be meant."""


@pytest.mark.parametrize(("from_", "to"), list(itertools.product(S, S)), ids=lambda state: state.value)
def test_every_pair_of_states(from_, to):
    assert may_follow(from_, to) is ((from_, to) in LEGAL)
    if (from_, to) in LEGAL:
        assert follow("wc-3-1", from_, to) is to
    else:
        with pytest.raises(IllegalTransition, match="wc-3-1"):
            follow("wc-3-1", from_, to)


def test_an_observer_may_join_late_in_any_state():
    assert all(may_follow(None, state) for state in S)


def test_every_state_has_predecessors_and_nothing_follows_a_final_one():
    assert set(PREDECESSORS) == set(S)
    assert {state for state in S if not any(may_follow(state, to) for to in S)} == FINAL
    assert all(state.is_final is (state in FINAL) and state.is_in_doubt is (state in IN_DOUBT) for state in S)


def test_which_states_are_in_doubt_and_which_are_final():
    assert [state for state in S if state.is_in_doubt] == [S.PREPARED, S.DECIDED]
    assert [state for state in S if state.is_final] == [S.COMMITTED, S.ABORTED, S.LOST, S.ENDED]


def test_a_decided_transaction_is_never_merely_aborted():
    assert not may_follow(S.DECIDED, S.ABORTED)


def test_every_verdict_has_a_place_in_the_order_of_lists():
    assert sorted(URGENCY, key=list(Verdict).index) == list(Verdict)
