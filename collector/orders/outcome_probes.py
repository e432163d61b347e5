"""How a transaction of an earlier order ended: by what the coordinator's log says, else by asking once more.

Asking once more repeats the order's own request for exactly the same transaction: EndTxn with its producer id and epoch,
XA COMMIT with its xid. The second one changes nothing that the first one did.
"""

from __future__ import annotations

from typing import Any

from collector.orders.audit import Intent
from collector.orders.commit import record_committed
from collector.orders.flink_commit import KIND, repeat_flink_commit
from collector.orders.outcome_resolver import Probe
from collector.orders.plan import ActionResult, OrderContext, PlannedAction, result_of
from collector.records.orders import StepOutcome
from collector.state.branch_view import FINAL_PROOFS
from collector.verdicts.judging import Judged
from lifecycle.decisions import BatchAttempt, Ruling
from lifecycle.identity import Handle, Marker
from lifecycle.outcomes import CommitOutcome, Committed
from lifecycle.states import TransactionState

LANDED_WITHIN_MS = 120_000
"""An append that had no answer is in the log by then, or never: its client gives it up long before."""


class OutcomeProbes:
    """Probes transactions; a ``read_only`` collector sends nothing: it only uses what is observed."""

    def __init__(self, context: OrderContext, *, read_only: bool) -> None:
        self._context, self._read_only = context, read_only

    def by_kind(self) -> dict[str, Probe]:
        """Return the probe for each kind of action."""
        return {
            "commit": self.commit,
            "abort": self.abort,
            "fence": self.fence,
            KIND: self.commit_of_others,
            "ended": self.ended,
        }

    def commit(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a transaction that a counting decision lists and that was to be committed."""
        handle, batch_attempt = Handle.from_json(planned.target["handle"]), _batch_attempt(planned.target)
        if batch_attempt is None:
            return StepOutcome.UNKNOWN, "its batch is not known"
        outcome: CommitOutcome
        match self._observed_end(planned.key):
            case TransactionState.COMMITTED:
                outcome = Committed(handle=handle)
                if not self._read_only:
                    self._context.participants.complete(handle)
            case TransactionState.LOST | TransactionState.ABORTED:
                return StepOutcome.LOST, "seen aborted: its batch must be replayed"
            case _ if self._read_only:
                return StepOutcome.UNKNOWN, "not seen to end yet"
            case _:
                marker = Marker(
                    batch=batch_attempt.batch, attempt=batch_attempt.attempt, checkpoint_id=batch_attempt.checkpoint_id
                )
                (outcome,) = self._context.participants.commit([handle], [marker], self._context.limit_s)
        if not self._read_only:
            record_committed(self._context.log, planned.target["prefix"], batch_attempt, outcome, intent.who)
        return result_of(outcome)

    def abort(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a transaction of ours that was to be aborted: only once no commit decision about it can count."""
        found = self._observed_abort(planned.key)
        if found is not None:
            return found
        handle, batch_attempt = Handle.from_json(planned.target["handle"]), _batch_attempt(planned.target)
        ledger = self._context.log.read_to_end()
        first = ledger.first(batch_attempt) if batch_attempt is not None else None
        if ledger.listing(handle.key) is not None or (first and first[2] and first[1].ruling is Ruling.COMMIT):
            return StepOutcome.REFUSED, "its batch was decided to be committed before the abort decision: not aborted"
        if batch_attempt is not None and first is None:
            if intent.age_ms > LANDED_WITHIN_MS:
                return StepOutcome.REFUSED, "the abort decision never reached the log, so nothing was done: order again"
            return StepOutcome.UNKNOWN, "the abort decision is not in the log yet"
        if self._read_only:
            return StepOutcome.UNKNOWN, "not seen to end yet"
        return result_of(self._context.participants.rollback([handle], self._context.limit_s)[0])

    def fence(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a foreign transaction that was to be aborted."""
        found = self._observed_abort(planned.key)
        judged = self._context.current.find(planned.key)
        if found is not None or judged is None or self._read_only:
            return found or (StepOutcome.UNKNOWN, "not seen to end yet")
        (target,) = self._context.participants.find_open([judged.view])
        if target is None:
            return StepOutcome.UNKNOWN, "not open any more as it was seen; how it ended was not seen yet"
        (error,) = self._context.participants.fence([target], self._context.limit_s)
        return (StepOutcome.UNKNOWN, error) if error else (StepOutcome.ABORTED, "")

    def commit_of_others(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a Flink job's transaction that was to be committed: a checkpoint must still list it before it is sent again."""
        match self._observed_end(planned.key):
            case TransactionState.COMMITTED:
                return StepOutcome.ALREADY_COMMITTED, "seen committed"
            case TransactionState.ABORTED | TransactionState.LOST:
                return StepOutcome.LOST, "seen aborted: its rows are missing"
            case _ if self._read_only:
                return StepOutcome.UNKNOWN, "not seen to end yet"
            case _:
                return repeat_flink_commit(self._context, planned)

    def ended(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Return the end that a transaction of a batch had before the order, or why nothing was sent for it."""
        return StepOutcome(planned.target["outcome"]), planned.target["detail"]

    def _observed_abort(self, key: str) -> ActionResult | None:
        match self._observed_end(key):
            case TransactionState.ABORTED | TransactionState.LOST:
                return StepOutcome.ABORTED, "seen aborted"
            case TransactionState.COMMITTED:
                return StepOutcome.ALREADY_COMMITTED, "its owner committed it first"
            case _:
                return None

    def _observed_end(self, key: str) -> TransactionState | None:
        """Return how it ended by its coordinator's log, its marker or the decision log; what was only reported does not count."""
        judged: Judged | None = self._context.current.find(key)
        if judged is None:
            return None
        view = judged.view
        by_marker = view.branch is not None and view.branch.proof in FINAL_PROOFS
        proven = by_marker or view.outcome is not None or (view.broker is not None and view.broker.is_final)
        return view.state if proven and view.state.is_final else None


def _batch_attempt(target: Any) -> BatchAttempt | None:
    named = target["batch_attempt"]
    return (
        None
        if named is None
        else BatchAttempt(checkpoint_id=named["checkpoint_id"], batch=named["batch"], attempt=named["attempt"])
    )
