"""Commit: only what a commit decision that counts lists, by exactly its handle."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from indoubt.collector.act.orders.flink_commit import plan_flink_commit
from indoubt.collector.act.orders.plan import (
    ActionResult,
    OrderContext,
    Plan,
    PlannedAction,
    joined,
    ready_text,
    result_of,
    target_of,
)
from indoubt.collector.facts.fold import OPERATOR
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.decisions import BatchAttempt, Outcome, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable, OrderRefused
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.outcomes import AlreadyCommitted, CommitOutcome, Committed
from indoubt.lifecycle.states import TransactionState
from indoubt.resource_managers.topics.decision_log import DecisionLog

log = logging.getLogger(__name__)


def plan_commit(context: OrderContext, found: Sequence[Judged], who: str, confirm: str | None) -> Plan:
    """Return the plan that commits these transactions; ours and those of Flink jobs take different checks, all of them first.

    ``confirm``: what was typed, None for a dry run. Raises OrderRefused when one of them is in no commit decision that counts
    (ours), may not be committed (Flink's) or has ended, DecisionLogUnreadable, ResourceManagerError.
    """
    of_flink = [judged for judged in found if not judged.view.managed and judged.judgement.may_commit]
    others = [judged for judged in found if judged not in of_flink]
    plans = [_plan_managed(context, others, who)] if others else []
    plans += [plan_flink_commit(context, of_flink, confirm)] if of_flink else []
    return joined(plans, [judged.view.key for judged in found])


def _plan_managed(context: OrderContext, found: Sequence[Judged], who: str) -> Plan:
    plan = plan_listed(context, {judged.view.key: judged.view.handle_key for judged in found}, who)
    for judged in found:
        view = judged.view
        if view.state is TransactionState.WRITTEN_AGAIN:
            raise OrderRefused(f"transaction {view.key} was lost, then written again: there is nothing to do")
        if view.state in (TransactionState.LOST, TransactionState.ABORTING):
            raise OrderRefused(f"transaction {view.key} was aborted after it was decided: its batch must be replayed")
        if view.state is TransactionState.COMMITTED:
            raise OrderRefused(f"transaction {view.key} is committed already: there is nothing to do")
    return plan


def plan_listed(context: OrderContext, handle_keys: Mapping[str, str], who: str) -> Plan:
    """Return the plan that commits what decisions that count list; ``handle_keys``: of each transaction's key.

    Raises OrderRefused when one is in none, DecisionLogUnreadable, ResourceManagerError.
    """
    ledger = context.log.read_to_end()
    handles: list[Handle] = []
    batch_attempts: list[tuple[str, BatchAttempt]] = []
    for key, handle_key in handle_keys.items():
        listing = ledger.listing(handle_key)
        if listing is None:
            raise OrderRefused(f"transaction {key} is in no commit decision that counts: it may not be committed")
        handles.append(next(h for h in listing[1].handles if h.key == handle_key))
        batch_attempts.append((listing[1].prefix, listing[1].batch_attempt))
    actions = tuple(
        PlannedAction(
            key=key,
            description=context.participants.description(Action.COMMIT, handle),
            target=target_of("commit", handle, prefix, batch_attempt),
            checked=ready_text(readiness),
        )
        for key, handle, (prefix, batch_attempt), readiness in zip(
            handle_keys, handles, batch_attempts, context.participants.check(handles), strict=True
        )
    )

    def execute() -> list[ActionResult]:
        markers = [batch_attempt.marker for _, batch_attempt in batch_attempts]
        outcomes = context.participants.commit(handles, markers, context.limit_s)
        for (prefix, batch_attempt), outcome in zip(batch_attempts, outcomes, strict=True):
            record_committed(context.log, prefix, batch_attempt, outcome, who)
        return [result_of(outcome) for outcome in outcomes]

    return Plan(actions=actions, execute=execute)


def record_committed(
    decision_log: DecisionLog, prefix: str, batch_attempt: BatchAttempt, outcome: CommitOutcome, who: str
) -> None:
    """Write a proven commit to the decision log; a failure there changes nothing: the marker proves it to recovery."""
    if not isinstance(outcome, Committed | AlreadyCommitted):
        return
    record = Outcome(
        prefix=prefix,
        batch_attempt=batch_attempt,
        handle_keys=(outcome.handle.key,),
        settled=Settled.COMMITTED,
        who=OPERATOR + who,
        at_ms=now_ms(),
    )
    try:
        decision_log.append(record)
    except DecisionLogUnreadable as error:
        log.warning("outcome of %s was not written: %s", outcome.handle.key, error)
