"""Abort: what is ours after an abort decision, what is foreign by exactly its producer id, epoch and start time.

What an abort decision is about is taken from the decision log, as it is read then: what events claim of a batch names nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.collector.act.orders.confirmation import require_confirmation
from indoubt.collector.act.orders.evidence import open_now, refusal, results_of
from indoubt.collector.act.orders.plan import (
    ActionResult,
    OrderContext,
    Plan,
    PlannedAction,
    handle_of,
    joined,
    result_of,
    target_of,
)
from indoubt.collector.facts import attempts
from indoubt.collector.facts.fold import OPERATOR
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.orders import StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.errors import DecisionLogUnreadable, DecisionVoid, OrderRefused
from indoubt.lifecycle.identity import Handle, TransactionalId
from indoubt.lifecycle.orders import Action


def plan_abort(
    context: OrderContext, found: Sequence[Judged], who: str, confirm: str | None, batch: BatchAttempt | None = None
) -> Plan:
    """Return the plan that aborts these transactions; ours and foreign ones take different checks, all of them first.

    ``confirm`` is what was typed, None for a dry run; ``batch``: what all of them are said to belong to. Raises OrderRefused when
    one of them may not be aborted or belongs to another batch, DecisionLogUnreadable, ResourceManagerError.
    """
    for judged in found:
        if not judged.judgement.may_abort:
            raise refusal(judged, "aborted")
    if confirm is not None:
        require_confirmation(confirm, found)
    managed = [judged for judged in found if judged.view.managed]
    foreign = [judged for judged in found if not judged.view.managed]
    plans = [_plan_managed(context, managed, who, batch)] if managed else []
    plans += [_plan_foreign(context, foreign)] if foreign else []
    return joined(plans, [judged.view.key for judged in found])


def _plan_managed(context: OrderContext, found: Sequence[Judged], who: str, batch: BatchAttempt | None) -> Plan:
    ledger = context.log.read_to_end()
    batch_attempts = [_rulable(judged.view, ledger) for judged in found]
    for judged, batch_attempt in zip(found, batch_attempts, strict=True):
        if batch not in (None, batch_attempt):
            raise OrderRefused(
                f"an event claims that {judged.view.key} belongs to batch {batch.batch}; the decision log does not bear that out: "
                "abort it by itself"
            )
    handles = [handle_of(judged) for judged in found]
    actions = tuple(
        PlannedAction(
            key=judged.view.key,
            description=f"abort decision for batch {batch_attempt.batch}, then "
            f"{context.participants.description(Action.ABORT, handle)}",
            target=target_of("abort", handle, judged.view.pipeline, batch_attempt) | _ordered_at(judged),
        )
        for judged, handle, batch_attempt in zip(found, handles, batch_attempts, strict=True)
    )

    def execute() -> list[ActionResult]:
        stopped = _decide(context, list(zip(batch_attempts, found, handles, strict=True)), who)
        going = [
            handle
            for handle, batch_attempt in zip(handles, batch_attempts, strict=True)
            if batch_attempt not in stopped
        ]
        ends = iter([result_of(outcome) for outcome in context.participants.rollback(going, context.limit_s)])
        return [stopped[batch_attempt] if batch_attempt in stopped else next(ends) for batch_attempt in batch_attempts]

    return Plan(actions=actions, execute=execute)


def _ordered_at(judged: Judged) -> dict[str, str]:
    """Return what a repetition of the abort must find again, and what was typed for it."""
    typed = judged.view.transaction if judged.judgement.loses_data else ""
    return {"verdict": judged.judgement.verdict.value, "confirmation": typed}


def _rulable(view: TransactionView, ledger: DecisionLedger) -> BatchAttempt:
    """Return what the abort decision is to be about: no abort goes without one, so that none can lose a decided batch.

    Raises OrderRefused when a commit decision that counts lists the transaction or its batch, and when its batch is not known.
    """
    if ledger.listing(view.handle_key) is not None:
        raise OrderRefused(f"transaction {view.key} is in a commit decision that counts: an abort would lose its rows")
    batch_attempt = view.proven_batch_attempt
    id_ = TransactionalId.parse(view.transaction) if batch_attempt is None else None
    if id_ is not None:
        batch_attempt = attempts.of_run(ledger, id_, view.log_end)
    if batch_attempt is None:
        raise OrderRefused(f"the batch of {view.key} is not known: its driver may still decide it")
    counting = ledger.counting(batch_attempt)
    if counting is not None and counting.ruling is Ruling.COMMIT:
        raise OrderRefused(
            f"batch {batch_attempt.batch} was decided to be committed by {counting.who}: it may not be aborted"
        )
    return batch_attempt


def _decide(
    context: OrderContext, found: Sequence[tuple[BatchAttempt, Judged, Handle]], who: str
) -> dict[BatchAttempt, ActionResult]:
    """Append an abort decision per batch; return the end of those batches that may therefore not be aborted.

    Raises OrderRefused when that is all of them: nothing was done then.
    """
    by_batch: dict[BatchAttempt, list[tuple[Judged, Handle]]] = {}
    for batch_attempt, judged, handle in found:
        by_batch.setdefault(batch_attempt, []).append((judged, handle))
    stopped: dict[BatchAttempt, ActionResult] = {}
    for batch, members in by_batch.items():
        try:
            _decide_batch(context, batch, members[0][0], [handle for _, handle in members], who)
        except DecisionVoid as error:
            stopped[batch] = (StepOutcome.REFUSED, f"{error}; nothing was aborted")
        except DecisionLogUnreadable as error:
            stopped[batch] = (
                StepOutcome.UNKNOWN,
                f"{error}: the abort decision may stand in the log, nothing else was sent",
            )
    if stopped and all(batch_attempt in stopped for batch_attempt, _, _ in found):
        refused = [detail for outcome, detail in stopped.values() if outcome is StepOutcome.REFUSED]
        if len(refused) == len(stopped):
            raise OrderRefused(refused[0])
    return stopped


def _decide_batch(
    context: OrderContext, batch_attempt: BatchAttempt, judged: Judged, handles: Sequence[Handle], who: str
) -> None:
    """Append the abort decision unless the attempt was ruled on; DecisionVoid: another writer decided first."""
    prefix = judged.view.named_prefix
    if prefix is None:
        raise DecisionVoid(f"{judged.view.transaction} is not an id of a pipeline of ours")
    if context.log.read_to_end().first(batch_attempt) is not None:
        return  # an abort that counts, or a commit that a newer run made void: no commit can count any more
    context.log.decide(
        Decision(
            prefix=prefix,
            batch_attempt=batch_attempt,
            ruling=Ruling.ABORT,
            handles=tuple(handles),
            who=OPERATOR + who,
            at_ms=now_ms(),
        )
    )


def _plan_foreign(context: OrderContext, found: Sequence[Judged]) -> Plan:
    _require_foreign(context, found)
    targets = open_now(context, found)
    actions = tuple(
        PlannedAction(
            key=judged.view.key,
            description=context.participants.description(Action.ABORT, target),
            target={"kind": "fence"} | _ordered_at(judged),
            checked="open now",
        )
        for judged, target in zip(found, targets, strict=True)
    )

    def execute() -> list[ActionResult]:
        return results_of(context.participants.fence(targets, context.limit_s), StepOutcome.ABORTED)

    return Plan(actions=actions, execute=execute)


def _require_foreign(context: OrderContext, found: Sequence[Judged]) -> None:
    """Raise OrderRefused when a transaction belongs to a pipeline that started a run since it was judged."""
    if (
        not any(judged.view.named_prefix for judged in found)
        or context.current.decision_log_status[0] is DecisionLogStatus.ABSENT
    ):
        return
    prefixes = context.log.read_to_end().prefixes()
    for judged in found:
        if judged.view.named_prefix in prefixes:
            raise OrderRefused(
                f"{judged.view.transaction} belongs to the pipeline {judged.view.named_prefix}: look again"
            )
