"""Carries out operators' orders: evidence is read again at the moment of acting, and every order leaves an audit row."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from indoubt.collector.act.orders.abort import plan_abort
from indoubt.collector.act.orders.audit import AuditRow, Intent, KeyLocks, KeyReused, OrderHistory
from indoubt.collector.act.orders.commit import plan_commit
from indoubt.collector.act.orders.confirmation import confirmation_text, require_beginning
from indoubt.collector.act.orders.evidence import evidence_of
from indoubt.collector.act.orders.flink_commit import commit_confirmation
from indoubt.collector.act.orders.hanging import HangingOrders, confirmation_text_of_suspects
from indoubt.collector.act.orders.outcome_resolver import OutcomeResolver, tell_executed
from indoubt.collector.act.orders.participants import Participants
from indoubt.collector.act.orders.pipelines import PipelineOrders, prefix_of
from indoubt.collector.act.orders.plan import OrderContext, Plan, execute, plan_each
from indoubt.collector.act.orders.settle import plan_settle
from indoubt.collector.history.journal import JournalUnanswered, NotLeading
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.orders import (
    DRY_RUN,
    STANDING_ORDER,
    FirstAnswer,
    Order,
    OrderOutcome,
    OrderResult,
    Step,
    StepOutcome,
)
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.batches import Batch, find_batch
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import DecisionLogUnreadable, OrderRefused
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.row_json import row_to_json
from indoubt.resource_managers.topics.decision_log import DecisionLog

LIMIT_MS = 10_000
"""How long transient answers to an order are retried."""
log = logging.getLogger(__name__)


class Actions:
    """One order at a time, in the thread of its caller; orders to pipelines run beside.

    The only code of the collector that changes anything outside it.
    """

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        participants: Participants,
        decision_log: DecisionLog,
        pipelines: PipelineOrders,
        follow_up: OutcomeResolver,
        hanging: HangingOrders,
        *,
        read_only: bool,
        limit_ms: int = LIMIT_MS,
    ) -> None:
        self._current, self._store, self._participants = current, store, participants
        self._pipelines, self._follow_up, self._hanging = pipelines, follow_up, hanging
        self._context = OrderContext(
            current=current, participants=participants, log=decision_log, limit_s=limit_ms / 1000
        )
        self._history = OrderHistory(store)
        self._read_only = read_only
        self._lock = threading.Lock()
        self._keys = KeyLocks()
        self._executing: dict[int, Intent] = {}
        """Those that are being carried out, by their number: orders to pipelines run beside others."""

    def give(self, order: Order, who: str, *, why_not: Callable[[Order], str] | None = None) -> OrderResult:
        """Carry out an order, or check it where it is a dry run; the same idempotency key again gets the first answer.

        ``why_not``: what its giver checks itself, asked last: once all is planned, before anything is sent.

        Raises OrderRefused when it is not safe or the evidence changed, StoreFailed when it cannot be written down,
        ResourceManagerError when the broker could not be asked (nothing was done then).
        """
        # A pipeline takes its time to answer: orders about transactions do not wait for it.
        alone = contextlib.nullcontext() if order.action.is_of_pipeline else self._lock
        with self._keys.held((who, order.idempotency_key) if order.idempotency_key else None), alone:
            try:
                return self._history.answer_to(order, who) or self._give(order, who, why_not)
            except KeyReused as error:
                self._written(self._history.audit(_row(order, who, OrderOutcome.REFUSED, str(error))), order, who)
                raise

    def answer(self, idempotency_key: str, who: str) -> FirstAnswer:
        """Return the first answer to this caller's key."""
        try:
            found = self._history.first_answer(idempotency_key, who)
        except OrderRefused as error:
            return FirstAnswer(answer=None, refused=str(error))
        return FirstAnswer(answer=found, refused=None)

    def under_way(self) -> list[Intent]:
        """Return what is being carried out, and what it is not known of how it ended, the newest first."""
        found = {intent.intent: intent for intent in (*self._executing.copy().values(), *self._follow_up.watched())}
        return sorted(found.values(), key=lambda intent: -intent.intent)

    def refuse(self, order: Order, who: str, why: str) -> int:
        """Write down an order that its sender may not give; return the audit row's number. Raises StoreFailed."""
        meant = [{"filter": order.filter.to_json(), "fingerprint": order.fingerprint}] if order.filter else []
        return self._written(self._history.audit(_row(order, who, OrderOutcome.REFUSED, why, meant)), order, who)

    def _give(self, order: Order, who: str, why_not: Callable[[Order], str] | None) -> OrderResult:
        # An order that could not be written down is not carried out.
        self._store.check_writable()
        started = time.monotonic()
        evidence: list[Any] = []
        if order.standing_order:
            evidence.append({STANDING_ORDER: order.standing_order, DRY_RUN: order.dry_run})
        try:
            order = self._named(order)
            refused: list[Step] = []
            plan, typed = self._plan(order, who, evidence, refused)
            if why_not is not None and (why := why_not(order)):
                raise OrderRefused(why)
        except (OrderRefused, DecisionLogUnreadable) as error:
            raise self._refused(order, who, str(error), evidence) from error
        except Exception as error:
            row = _row(order, who, OrderOutcome.FAILED, f"{type(error).__name__}: {error}", evidence)
            self._written(self._history.audit(row), order, who)
            raise
        if order.dry_run:
            steps = [planned.dry() for planned in plan.actions] + refused
            return self._conclude(order, who, OrderOutcome.DRY_RUN, steps, started, evidence, None, typed)
        intent = self._history.intend(order, who, evidence, plan.actions)
        self._executing[intent.intent] = intent
        self._current.changed()
        try:
            return self._execute(order, who, plan, intent, refused, started)
        finally:
            del self._executing[intent.intent]

    def _execute(
        self, order: Order, who: str, plan: Plan, intent: Intent, refused: Sequence[Step], started: float
    ) -> OrderResult:
        """Do what was written down as ``intent``, and write down how it ended. Raises as ``give`` does."""
        evidence = intent.evidence
        self._require_lead()
        try:
            steps = [planned.step(end) for planned, end in zip(plan.actions, execute(plan), strict=True)]
            steps += refused
            outcome = outcome_of(order.action, steps)
            answer = self._conclude(order, who, outcome, steps, started, evidence, intent)
        except OrderRefused as error:
            raise self._refused(order, who, str(error), evidence, intent) from error
        except StoreFailed as error:
            self._follow_up.watch(intent)
            kind = JournalUnanswered if isinstance(error, NotLeading | JournalUnanswered) else StoreFailed
            raise kind(f"the order was sent, and how it ended could not be written down: {error}") from error
        unknown = frozenset(step.key for step in steps if not step.outcome.is_known)
        self._follow_up.watch(replace(intent, first_audit=answer.audit, unknown=unknown))
        tell_executed(self._current, steps, intent, answer.audit)
        return answer

    def _require_lead(self) -> None:
        """Raise JournalUnanswered where this process stood still so long, since the intent was written, that another may lead."""
        try:
            self._store.require_lead()
        except NotLeading as error:
            raise JournalUnanswered(f"its intent is written down, and {error}: it is looked up there") from None

    def _seen_batch(self, order: Order) -> Batch:
        """Return the batch of an order as it is now. Raises OrderRefused when the operator saw something else."""
        key = order.keys[0]
        batch = find_batch(self._current, key)
        if batch is None:
            raise OrderRefused(f"batch {key} is not known (any more): look again")
        if order.seen.get(key) != batch.revision:
            raise OrderRefused(
                f"batch {key} changed since it was looked at: it is {batch.verdict.value} now; look again"
            )
        return batch

    def _named(self, order: Order) -> Order:
        """Return the order with all its keys. Raises OrderRefused."""
        if self._read_only:
            raise OrderRefused("the collector runs read-only: no order is carried out")
        if order.action is Action.SETTLE:
            # Its transactions are named too, so that the audit row is found by each of them.
            return replace(
                order, keys=(*order.keys, *(judged.view.key for judged in self._seen_batch(order).transactions))
            )
        return order

    def _plan(self, order: Order, who: str, evidence: list[Any], refused: list[Step]) -> tuple[Plan, str]:
        """Return the order's plan, and what must be typed to give it; adds what both rest on to ``evidence``.

        Where each transaction is ordered by itself, those that are not part of the plan are added to ``refused``.
        """
        if order.action.is_of_pipeline:
            typed = prefix_of(order.keys[0]) if order.action is Action.STOP else ""
            return self._pipelines.plan(order, who, evidence), typed
        if order.action is Action.SETTLE:
            batch = self._seen_batch(order)
            evidence += [_evidence(judged) for judged in batch.transactions]
            return plan_settle(self._context, batch, who, None if order.dry_run else order.confirm), ""
        if HangingOrders.takes(order):
            suspects = self._hanging.seen(order)
            evidence += [evidence_of(each.key, "open", each.judgement, each.revision) for each in suspects]
            return self._hanging.plan(self._context, suspects, order, who), confirmation_text_of_suspects(suspects)
        confirm = None if order.dry_run else order.confirm
        if order.each:
            return self._plan_each(order, who, confirm, evidence, refused)
        found = [self._seen(order, key) for key in order.keys]
        evidence += [_evidence(judged) for judged in found]
        if order.action is Action.COMMIT:
            return plan_commit(self._context, found, who, confirm), commit_confirmation(found)
        return plan_abort(self._context, found, who, confirm), confirmation_text(found)

    def _plan_each(
        self, order: Order, who: str, confirm: str | None, evidence: list[Any], refused: list[Step]
    ) -> tuple[Plan, str]:
        found: list[Judged] = []
        for key in order.keys:
            try:
                found.append(self._seen(order, key))
            except OrderRefused as error:
                refused.append(refused_step(key, str(error)))
        evidence += [_evidence(judged) for judged in found]
        if order.action is Action.COMMIT:
            plan, why = plan_each(lambda part: plan_commit(self._context, part, who, confirm), found)
            typed = commit_confirmation(found)
        else:
            if confirm is not None:
                require_beginning(confirm, found)
            plan, why = plan_each(lambda part: plan_abort(self._context, part, who, None), found)
            typed = confirmation_text(found)
        refused += [refused_step(key, text) for key, text in why.items()]
        if not plan.actions:
            raise OrderRefused(f"none of these {len(order.keys)} may be ordered so: {refused[0].detail}")
        return plan, typed

    def _seen(self, order: Order, key: str) -> Judged:
        """Return a transaction of an order as it is now. Raises OrderRefused when the operator saw something else."""
        judged = self._current.transactions.find(key)
        if judged is None:
            raise OrderRefused(f"transaction {key} is not known (any more): look again")
        view = judged.view
        if order.revision_of(key) != view.revision:
            ruled = view.listing or view.first_decision
            decision = f"decision {ruled[0]} ({ruled[1].ruling.value})" if ruled else "no decision"
            raise OrderRefused(
                f"transaction {key} changed since it was looked at: it is {view.state.value} now, verdict "
                f"{judged.judgement.verdict.value!r}, {decision}; look again"
            )
        if view.resource_manager not in self._participants.names:
            raise OrderRefused(
                f"transaction {key} is held by {view.resource_manager!r}, and this collector gives orders to "
                f"{', '.join(self._participants.names)} alone: its driver, or the recovery of the next start, settles it"
            )
        return judged

    def _refused(
        self, order: Order, who: str, why: str, evidence: Sequence[Any], intent: Intent | None = None
    ) -> OrderRefused:
        row = _row(order, who, OrderOutcome.REFUSED, why, evidence)
        self._written(self._history.refuse(order, who, row, intent), order, who)
        return OrderRefused(why)

    def _conclude(
        self,
        order: Order,
        who: str,
        outcome: OrderOutcome,
        steps: Sequence[Step],
        started: float,
        evidence: Sequence[Any],
        intent: Intent | None,
        confirm: str = "",
    ) -> OrderResult:
        took_ms = round((time.monotonic() - started) * 1000)
        result = OrderResult(audit=0, outcome=outcome, took_ms=took_ms, steps=tuple(steps), confirm=confirm)
        row = _row(order, who, outcome, json.dumps(row_to_json(steps)), evidence)
        unknown = [step.key for step in steps if not step.outcome.is_known] if intent is not None else []
        answer = self._history.conclude(order, row, result, intent, unknown)
        self._written(answer.audit, order, who)
        return answer

    def _written(self, audit: int, order: Order, who: str) -> int:
        log.info("audit %d: %s by %s", audit, order.action.value, who)
        self._current.changed()
        return audit


def outcome_of(action: Action, steps: Sequence[Step]) -> OrderOutcome:
    """Return how an order ended that was carried out."""
    if all(step.outcome.fulfils(action) for step in steps):
        return OrderOutcome.ACCEPTED
    return OrderOutcome.FAILED if all(step.outcome.is_known for step in steps) else OrderOutcome.PENDING


def refused_step(key: str, why: str) -> Step:
    """Return the step of a transaction for which nothing was sent."""
    return Step(key=key, description="nothing", outcome=StepOutcome.REFUSED, detail=why)


def _row(order: Order, who: str, outcome: OrderOutcome, detail: str, evidence: Sequence[Any] = ()) -> AuditRow:
    return AuditRow(
        who=who,
        action=order.action,
        keys=order.keys,
        reason=order.reason,
        outcome=outcome,
        detail=detail,
        evidence=evidence,
    )


def _evidence(judged: Judged) -> dict[str, Any]:
    return evidence_of(judged.view.key, judged.view.state.value, judged.judgement, judged.view.revision)
