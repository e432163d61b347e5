"""Which transactions in memory are lost and wait for a replay of their batch. Call it under the state's lock."""

from __future__ import annotations

from collector.records.facts import BrokerIdentity
from collector.records.observations import BranchProof
from collector.state.replayed_batches import replayed_ms
from collector.state.state import State
from collector.state.transaction_join import at_coordinator, find, is_quiet
from collector.state.transaction_view import TransactionView
from lifecycle.states import TransactionState


def awaits_replay(state: State, identity: BrokerIdentity) -> bool:
    """Say whether a transaction that has ended at its coordinator was decided and undone, and its batch not completed since."""
    if identity not in state.aborted or is_quiet(state, state.broker[identity]):
        return False
    return _is_waiting(state, at_coordinator(state, identity))


def elsewhere_awaiting_replay(state: State) -> list[TransactionView]:
    """Return those that no coordinator was seen to have, such as branches in databases; oldest end first."""
    keys = {key for key, branch in state.branches.items() if branch.proof is BranchProof.TOMBSTONE}
    found = (find(state, key) for key in keys | state.ledger.lost_keys())
    views = {view.key: view for view in found if view is not None and view.broker is None and _is_waiting(state, view)}
    return sorted(views.values(), key=lambda view: (view.ended_ms or 0, view.key))


def _is_waiting(state: State, view: TransactionView) -> bool:
    return view.state is TransactionState.LOST and replayed_ms(state, view) is None
