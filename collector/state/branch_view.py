"""What a database's list and markers add to the view of a transaction: its batch, its state, whose end is still to be asked."""

from __future__ import annotations

from collector.branches import BranchFacts
from collector.observations import BranchProof, OperatorOrder
from collector.state import State
from lifecycle.branch_id import BranchId
from lifecycle.decisions import BatchAttempt
from lifecycle.events import EventType
from lifecycle.states import TransactionState

TOLD_ENDS = (
    (EventType.TRANSACTION_LOST, TransactionState.LOST),
    (EventType.TRANSACTION_ABORTED, TransactionState.ABORTED),
    (EventType.TRANSACTION_COMMITTED, TransactionState.COMMITTED),
)
"""Events that tell an end, and the state that each tells."""
ABORT = "abort"
ORDERED_AWAY_MS = 60_000
"""A foreign branch that is gone within this time of an operator's abort was ended by it."""
OUTLIVED_MS = 2_000
"""A look so long after a told end does not show what was there before it: clocks differ, and a look takes its time."""
FINAL_PROOFS = (BranchProof.COMMITTED, BranchProof.TOMBSTONE)


def about(state: State, branch: BranchId | None) -> BatchAttempt | None:
    """Return what a decision on this branch would be about: its name has all of it but the life, which its run started with."""
    life = state.ledger.life_of(branch.prefix, branch.attempt) if branch is not None else None
    if branch is None or life is None:
        return None
    return BatchAttempt(life=life, batch=branch.batch, attempt=branch.attempt)


def end(branch: BranchFacts, order: OperatorOrder | None, *, is_decided: bool) -> TransactionState | None:
    """Return how a branch ended that its database lists no more, or None when that is not known.

    Without a marker one that was never decided was rolled back: nobody may commit it, and its marker is inside it. Of a
    decided one only a tombstone says so.
    """
    if branch.is_listed:
        return None
    if branch.proof is BranchProof.TOMBSTONE:
        return TransactionState.LOST if is_decided else TransactionState.ABORTED
    if _was_ordered_away(branch, order) or (branch.proof is BranchProof.NO_MARKER and not is_decided):
        return TransactionState.ABORTED
    return None


def outlived(branch: BranchFacts | None, looked_ms: int | None, ended_ms: int) -> bool:
    """Say whether a database lists a branch although its end was told: events and outcomes are told, the list is what is."""
    return branch is not None and branch.is_listed and looked_ms is not None and looked_ms - ended_ms > OUTLIVED_MS


def unproven_branches(state: State, resource_manager: str) -> list[str]:
    """Return the names of our branches in databases of this kind that may have ended without anybody telling it.

    Left out are those of batches before the last decided one of their life: they were finished, and nobody asks.
    """
    found = []
    for told in state.told.values():
        if told.resource_manager != resource_manager or told.handle is None or told.about is None:
            continue
        if any(type_ in told.told for type_, _ in TOLD_ENDS) or state.ledger.outcome(told.key) is not None:
            continue
        branch = state.branches.get(told.key)
        if branch is not None and branch.proof in FINAL_PROOFS:
            continue
        last = state.last_decided.get(told.about.life)
        if last is None or told.about.batch >= last[0]:
            found.append(told.identity.transaction)
    return found


def _was_ordered_away(branch: BranchFacts, order: OperatorOrder | None) -> bool:
    """Say whether an operator's abort ended a foreign branch: it has no marker, so only that it was gone just then tells."""
    if branch.proof is not None or branch.gone_ms is None or order is None or order.action != ABORT:
        return False
    return 0 <= branch.gone_ms - order.at_ms <= ORDERED_AWAY_MS
