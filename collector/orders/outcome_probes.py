"""How a transaction of an earlier order ended: by what the coordinator's log says, else by asking once more.

Asking once more repeats the order's own request for exactly the same transaction: EndTxn with its producer id and epoch,
XA COMMIT with its xid. The second one changes nothing that the first one did.
"""

from __future__ import annotations

from typing import Any

from collector.branch_view import FINAL_PROOFS
from collector.judging import Judged
from collector.ordering.commit import record_committed
from collector.ordering.follow_up import Look
from collector.ordering.order_history import Intent
from collector.ordering.plan import Act, End, Reach, end_of
from collector.orders import StepOutcome
from lifecycle.decisions import BatchAttempt, Ruling
from lifecycle.identity import Handle, Marker
from lifecycle.outcomes import CommitOutcome, Committed
from lifecycle.states import TransactionState

LANDED_WITHIN_MS = 120_000
"""An append that had no answer is in the log by then, or never: its client gives it up long before."""


class TransactionLooks:
    """Looks at transactions; a ``read_only`` collector asks nothing once more: it only sees what is observed."""

    def __init__(self, reach: Reach, *, read_only: bool) -> None:
        self._reach, self._read_only = reach, read_only

    def by_kind(self) -> dict[str, Look]:
        """Return the look for each kind of act."""
        return {"commit": self.commit, "abort": self.abort, "fence": self.fence, "ended": self.ended}

    def commit(self, act: Act, intent: Intent) -> End:
        """Look at a transaction that a counting decision lists and that was to be committed."""
        handle, about = Handle.from_json(act.target["handle"]), _about(act.target)
        if about is None:
            return StepOutcome.UNKNOWN, "its batch is not known"
        outcome: CommitOutcome
        match self._observed_end(act.key):
            case TransactionState.COMMITTED:
                outcome = Committed(handle=handle)
                if not self._read_only:
                    self._reach.actors.complete(handle)
            case TransactionState.LOST | TransactionState.ABORTED:
                return StepOutcome.LOST, "seen aborted: its batch must be replayed"
            case _ if self._read_only:
                return StepOutcome.UNKNOWN, "not seen to end yet"
            case _:
                marker = Marker(batch=about.batch, attempt=about.attempt, life=about.life)
                (outcome,) = self._reach.actors.commit([handle], [marker], self._reach.limit_s)
        if not self._read_only:
            record_committed(self._reach.log, act.target["prefix"], about, outcome, intent.who)
        return end_of(outcome)

    def abort(self, act: Act, intent: Intent) -> End:
        """Look at a transaction of ours that was to be aborted: only once no commit decision about it can count."""
        found = self._observed_abort(act.key)
        if found is not None:
            return found
        handle, about = Handle.from_json(act.target["handle"]), _about(act.target)
        ledger = self._reach.log.read_to_end()
        first = ledger.first(about) if about is not None else None
        if ledger.listing(handle.key) is not None or (first and first[2] and first[1].ruling is Ruling.COMMIT):
            return StepOutcome.REFUSED, "its batch was decided to be committed before the abort decision: not aborted"
        if about is not None and first is None:
            if intent.age_ms > LANDED_WITHIN_MS:
                return StepOutcome.REFUSED, "the abort decision never reached the log, so nothing was done: order again"
            return StepOutcome.UNKNOWN, "the abort decision is not in the log yet"
        if self._read_only:
            return StepOutcome.UNKNOWN, "not seen to end yet"
        return end_of(self._reach.actors.rollback([handle], self._reach.limit_s)[0])

    def fence(self, act: Act, intent: Intent) -> End:
        """Look at a foreign transaction that was to be aborted."""
        found = self._observed_abort(act.key)
        judged = self._reach.current.find(act.key)
        if found is not None or judged is None or self._read_only:
            return found or (StepOutcome.UNKNOWN, "not seen to end yet")
        (target,) = self._reach.actors.find_open([judged.view])
        if target is None:
            return StepOutcome.UNKNOWN, "not open any more as it was seen; how it ended was not seen yet"
        (error,) = self._reach.actors.fence([target], self._reach.limit_s)
        return (StepOutcome.UNKNOWN, error) if error else (StepOutcome.ABORTED, "")

    def ended(self, act: Act, intent: Intent) -> End:
        """Return the end that a transaction of a batch had before the order, or why nothing was sent for it."""
        return StepOutcome(act.target["outcome"]), act.target["detail"]

    def _observed_abort(self, key: str) -> End | None:
        match self._observed_end(key):
            case TransactionState.ABORTED | TransactionState.LOST:
                return StepOutcome.ABORTED, "seen aborted"
            case TransactionState.COMMITTED:
                return StepOutcome.ALREADY_COMMITTED, "its owner committed it first"
            case _:
                return None

    def _observed_end(self, key: str) -> TransactionState | None:
        """Return how it ended by its coordinator's log, its marker or the decision log; what was only told does not count."""
        judged: Judged | None = self._reach.current.find(key)
        if judged is None:
            return None
        view = judged.view
        by_marker = view.branch is not None and view.branch.proof in FINAL_PROOFS
        proven = by_marker or view.outcome is not None or (view.broker is not None and view.broker.is_final)
        return view.state if proven and view.state.is_final else None


def _about(target: Any) -> BatchAttempt | None:
    named = target["about"]
    return None if named is None else BatchAttempt(life=named["life"], batch=named["batch"], attempt=named["attempt"])
