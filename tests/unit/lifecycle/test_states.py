"""Which states of a transaction are in doubt, and which are final."""

from __future__ import annotations

from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import URGENCY, Verdict

S = TransactionState


def test_which_states_are_in_doubt_and_which_are_final():
    assert [state for state in S if state.is_in_doubt] == [S.PREPARED, S.DECIDED]
    assert [state for state in S if state.is_final] == [S.COMMITTED, S.ABORTED, S.LOST, S.WRITTEN_AGAIN, S.ENDED]


def test_every_verdict_has_a_place_in_the_order_of_lists():
    assert sorted(URGENCY, key=list(Verdict).index) == list(Verdict)
