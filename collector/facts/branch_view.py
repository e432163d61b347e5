"""What a database's list and markers add to the view of a transaction: its batch, its state, whose end is still to be asked."""

from __future__ import annotations

from indoubt.collector.facts import attempts
from indoubt.collector.facts.state import State
from indoubt.collector.records.branches import BranchFacts
from indoubt.collector.records.observations import BranchProof, OperatorOrder
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.states import TransactionState

ABORT, COMMIT = "abort", "commit"
ORDERED_AWAY_MS = 60_000
"""A foreign branch that is gone within this time of an operator's order was ended by it."""
NOTED_LATE_MS = 10_000
"""An order is noted once all of it is done: a poll may find the branch gone before."""
OUTLIVED_MS = 2_000
"""A poll this long after a reported end shows the state after it: clocks differ, and a poll takes time."""
FINAL_PROOFS = (BranchProof.COMMITTED, BranchProof.TOMBSTONE)


def end(branch: BranchFacts, order: OperatorOrder | None, *, is_decided: bool) -> TransactionState | None:
    """Return how a branch ended that its database lists no more, or None when that is not known.

    Without a marker one that was never decided was rolled back: it may not be committed, and its marker is inside it. Of a
    decided one only a tombstone says so. A file that is there under no name was not made visible, as far as is known.
    """
    if branch.is_listed:
        return None
    if branch.proof is BranchProof.TOMBSTONE:
        return TransactionState.LOST if is_decided else TransactionState.ABORTED
    if _was_ordered_away(branch, order, COMMIT):
        return TransactionState.COMMITTED
    if (
        branch.proof is BranchProof.MISSING
        or _was_ordered_away(branch, order, ABORT)
        or (branch.proof is BranchProof.NO_MARKER and not is_decided)
    ):
        return TransactionState.ABORTED
    return None


def outlived(branch: BranchFacts | None, polled_ms: int | None, ended_ms: int) -> bool:
    """Say whether a database lists a branch although the log has its outcome: that is reported too, the list is what is."""
    return branch is not None and branch.is_listed and polled_ms is not None and polled_ms - ended_ms > OUTLIVED_MS


def unproven_branches(state: State, resource_manager: str) -> list[str]:
    """Return the names of our branches in databases of this kind whose end neither an outcome nor a marker tells.

    Left out are those of batches before the last decided one of their checkpoint id: they were finished.
    """
    found = []
    for reported in state.reported.values():
        if reported.resource_manager != resource_manager or reported.handle is None:
            continue
        branch, name = state.branches.get(reported.key), BranchId.parse(reported.identity.transaction)
        if name is None or state.ledger.outcome(reported.key) is not None:
            continue
        if branch is not None and branch.proof in FINAL_PROOFS:
            continue
        batch_attempt = attempts.of_branch(state.ledger, name)
        last = state.last_decided.get(batch_attempt.checkpoint_id) if batch_attempt is not None else None
        if batch_attempt is not None and (last is None or batch_attempt.batch >= last.batch):
            found.append(reported.identity.transaction)
    return found


def _was_ordered_away(branch: BranchFacts, order: OperatorOrder | None, action: str) -> bool:
    """Say whether an operator's order ended a foreign branch: it has no marker, so only that it was gone just then tells."""
    if branch.proof is not None or branch.gone_ms is None or order is None or order.action != action:
        return False
    return -NOTED_LATE_MS <= branch.gone_ms - order.at_ms <= ORDERED_AWAY_MS
