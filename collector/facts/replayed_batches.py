"""When the batch of a lost transaction was completed again. Call it under the state's lock."""

from __future__ import annotations

from indoubt.collector.facts.state import LastDecided, State, of_handle
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import handle_identity
from indoubt.collector.records.observations import BranchProof
from indoubt.lifecycle.decisions import BatchAttempt, Settled
from indoubt.lifecycle.identity import Handle


def replayed_ms(state: State, view: TransactionView) -> int | None:
    """Return when a transaction's batch was completed after it had ended, or None.

    Its checkpoint directory tells it, or the decision log: a later batch of its checkpoint id was decided, or a later attempt
    at this one, of which every handle is committed.
    """
    batch_attempt = view.proven_batch_attempt
    if batch_attempt is None or view.ended_ms is None:
        return None
    checkpoint = state.checkpoints.get((view.pipeline, batch_attempt.batch))
    if checkpoint is not None and checkpoint.proven_ms is not None and checkpoint.proven_ms > view.ended_ms:
        return checkpoint.proven_ms
    decided = state.last_decided.get(batch_attempt.checkpoint_id)
    if decided is None or (decided.batch, decided.attempt) <= (batch_attempt.batch, batch_attempt.attempt):
        return None
    if decided.batch == batch_attempt.batch and not _is_committed_whole(state, batch_attempt.checkpoint_id, decided):
        return None
    return decided.at_ms


def _is_committed_whole(state: State, checkpoint_id: str, decided: LastDecided) -> bool:
    batch_attempt = BatchAttempt(checkpoint_id=checkpoint_id, batch=decided.batch, attempt=decided.attempt)
    decision = state.ledger.counting(batch_attempt)
    return decision is not None and all(_is_committed(state, handle) for handle in decision.handles)


def _is_committed(state: State, handle: Handle) -> bool:
    at, branch = of_handle(state, handle_identity(handle)), state.branches.get(handle.key)
    if at is not None and state.broker[at].is_committing:
        return True
    if branch is not None and branch.proof is BranchProof.COMMITTED:
        return True
    outcome = state.ledger.outcome(handle.key)
    return outcome is not None and outcome.settled is Settled.COMMITTED
