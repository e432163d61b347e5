"""How a transaction of an earlier order ended: by what the coordinator's log says, else by giving the order once more.

Once more is a new order about that one transaction: planned by the code that planned the first, on the evidence of that moment.
It never decides what the first did not: an abort of ours is repeated only where its decision is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from indoubt.collector.act.orders.abort import plan_abort
from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.commit import plan_listed, record_committed
from indoubt.collector.act.orders.flink_commit import KIND, plan_flink_commit
from indoubt.collector.act.orders.outcome_resolver import Probe
from indoubt.collector.act.orders.plan import ActionResult, OrderContext, Plan, PlannedAction, execute, result_of
from indoubt.collector.facts.branch_view import FINAL_PROOFS
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.decisions import BatchAttempt, Ruling
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import Committed
from indoubt.lifecycle.states import TransactionState

NOT_SENT = "not sent again: "
NOT_SEEN: ActionResult = (StepOutcome.UNKNOWN, "not seen to end yet")
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
        match self._observed_end(planned.key):
            case TransactionState.COMMITTED:
                committed = Committed(handle=handle)
                if not self._read_only and batch_attempt is not None:
                    self._context.participants.complete(handle)
                    record_committed(self._context.log, planned.target["prefix"], batch_attempt, committed, intent.who)
                return result_of(committed)
            case TransactionState.WRITTEN_AGAIN:
                return StepOutcome.LOST, "seen aborted, and its batch written again"
            case TransactionState.LOST | TransactionState.ABORTED:
                return StepOutcome.LOST, "seen aborted: its batch must be replayed"
            case _:
                return self._again(intent, lambda: plan_listed(self._context, {planned.key: handle.key}, intent.who))

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
        return self._abort_again(planned, intent)

    def fence(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a foreign transaction that was to be aborted."""
        return self._observed_abort(planned.key) or self._abort_again(planned, intent)

    def commit_of_others(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Probe a Flink job's transaction that was to be committed.

        A branch of a database is never sent again: MariaDB may answer OK and commit nothing while the connection that
        prepared it is open.
        """
        match self._observed_end(planned.key):
            case TransactionState.COMMITTED:
                return StepOutcome.ALREADY_COMMITTED, "seen committed"
            case TransactionState.ABORTED | TransactionState.LOST | TransactionState.WRITTEN_AGAIN:
                return StepOutcome.LOST, "seen aborted: its rows are missing"
        judged = self._context.current.transactions.find(planned.key)
        if judged is None or judged.view.branch is not None:
            return NOT_SEEN
        typed = planned.target.get("confirmation", "")
        return self._again(intent, lambda: plan_flink_commit(self._context, [judged], typed))

    def _abort_again(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        judged = self._context.current.transactions.find(planned.key)
        if judged is None:
            return NOT_SEEN
        verdict, ordered_at = judged.judgement.verdict.value, planned.target.get("verdict")
        if verdict != ordered_at:
            why = f"its verdict is {verdict!r} now, and was {ordered_at!r} when the abort was ordered"
            return StepOutcome.UNKNOWN, f"{NOT_SENT}{why}"
        typed = planned.target.get("confirmation", "")
        return self._again(intent, lambda: plan_abort(self._context, [judged], intent.who, typed))

    def _again(self, intent: Intent, plan: Callable[[], Plan]) -> ActionResult:
        """Give an order about one transaction once more; unknown, and why, where it is not sent.

        What a standing order gave is left to it: it gives it again itself, while nothing holds it back.
        """
        if self._read_only or intent.standing_order:
            return NOT_SEEN
        try:
            (result,) = execute(plan())
        except OrderRefused as refused:
            return StepOutcome.UNKNOWN, f"{NOT_SENT}{refused}"
        return result

    def ended(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Return the end that a transaction of a batch had before the order, or why nothing was sent for it."""
        return StepOutcome(planned.target["outcome"]), planned.target["detail"]

    def _observed_abort(self, key: str) -> ActionResult | None:
        match self._observed_end(key):
            case TransactionState.ABORTED | TransactionState.LOST | TransactionState.WRITTEN_AGAIN:
                return StepOutcome.ABORTED, "seen aborted"
            case TransactionState.COMMITTED:
                return StepOutcome.ALREADY_COMMITTED, "its owner committed it first"
            case _:
                return None

    def _observed_end(self, key: str) -> TransactionState | None:
        """Return how it ended by its coordinator's log, its marker or the decision log; what was only reported does not count."""
        judged: Judged | None = self._context.current.transactions.find(key)
        if judged is None:
            return None
        view = judged.view
        by_marker = view.branch is not None and view.branch.proof in FINAL_PROOFS
        proven = by_marker or view.outcome is not None or (view.broker is not None and view.broker.is_final)
        return view.state if proven and view.state.is_final else None


def _batch_attempt(target: Any) -> BatchAttempt | None:
    named = target["batch_attempt"]
    return None if named is None else BatchAttempt(**named)
