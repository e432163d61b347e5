"""Carries out operators' orders: evidence is read again at the moment of acting, and every order leaves one audit row."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence

from collector.acting import Actors
from collector.current_state import CurrentState, Judged, now_ms
from collector.observations import OperatorOrder
from collector.ordering.abort import plan_abort
from collector.ordering.commit import plan_commit
from collector.ordering.plan import Plan, Reach, carry_out
from collector.orders import Action, Order, OrderOutcome, OrderResult, Step
from collector.store import Store
from collector.transaction_rows import evidence_row
from lifecycle.errors import DecisionLogUnreadable, OrderRefused
from resource_managers.decision_log import DecisionLog

log = logging.getLogger(__name__)


class Actions:
    """One order at a time, in the thread of its caller. The only code of the collector that changes anything outside it."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        actors: Actors,
        decision_log: DecisionLog,
        *,
        read_only: bool,
        limit_ms: int,
    ) -> None:
        self._current, self._store, self._actors = current, store, actors
        self._reach = Reach(current=current, actors=actors, log=decision_log, limit_s=limit_ms / 1000)
        self._read_only = read_only
        self._lock = threading.Lock()

    def give(self, order: Order, who: str) -> OrderResult:
        """Carry out an order, or check it where it is a dry run.

        Raises OrderRefused when it is not safe or the evidence changed, StoreFailed when the audit cannot be written
        (nothing was done then), ResourceManagerError when the broker could not be asked.
        """
        with self._lock:
            # An order that could not be written down is not carried out.
            self._store.check_writable()
            started = time.monotonic()
            found: list[Judged] = []
            try:
                found = self._seen(order)
                plan = self._plan(order, found, who)
                steps = _dry(plan) if order.dry_run else _carried_out(plan)
            except (OrderRefused, DecisionLogUnreadable) as error:
                self._audit(order, who, OrderOutcome.REFUSED, str(error), found)
                raise OrderRefused(str(error)) from error
            except Exception as error:
                self._audit(order, who, OrderOutcome.FAILED, f"{type(error).__name__}: {error}", found)
                raise
            took_ms = round((time.monotonic() - started) * 1000)
            outcome = _outcome(order, steps)
            detail = json.dumps([step.to_json() for step in steps])
            audit = self._audit(order, who, outcome, detail, found)
            for step in steps:
                if step.outcome.fulfils(order.action):
                    done = OperatorOrder(key=step.key, action=order.action.value, who=who, at_ms=now_ms(), audit=audit)
                    self._current.carried_out(done)
            return OrderResult(audit=audit, outcome=outcome, took_ms=took_ms, steps=tuple(steps))

    def refuse(self, order: Order, who: str, why: str) -> int:
        """Write down an order that its sender may not give; return the audit row's number. Raises StoreFailed."""
        return self._audit(order, who, OrderOutcome.REFUSED, why, [])

    def _plan(self, order: Order, found: Sequence[Judged], who: str) -> Plan:
        if order.action is Action.COMMIT:
            return plan_commit(self._reach, found, who)
        return plan_abort(self._reach, found, who, None if order.dry_run else order.confirm)

    def _seen(self, order: Order) -> list[Judged]:
        """Return the transactions of an order as they are now. Raises OrderRefused when the operator saw something else."""
        if self._read_only:
            raise OrderRefused("the collector runs read-only: no order is carried out")
        found: list[Judged] = []
        for key in order.keys:
            judged = self._current.find(key)
            if judged is None:
                raise OrderRefused(f"transaction {key} is not known (any more): look again")
            seen, view = order.seen.get(key), judged.view
            if seen is None:
                raise OrderRefused(f"the order does not say which revision of {key} was looked at: give it in 'seen'")
            if seen != view.revision:
                ruled = view.listing or view.first_decision
                decision = f"decision {ruled[0]} ({ruled[1].ruling.value})" if ruled else "no decision"
                raise OrderRefused(
                    f"transaction {key} changed since it was looked at: it is {view.state.value} now, verdict "
                    f"{judged.judgement.verdict.value!r}, {decision}; look again"
                )
            if view.resource_manager not in self._actors.names:
                raise OrderRefused(
                    f"transaction {key} is held by {view.resource_manager!r}, and this collector gives orders to "
                    f"{', '.join(self._actors.names)} alone: its driver, or the recovery of the next start, settles it"
                )
            found.append(judged)
        return found

    def _audit(self, order: Order, who: str, outcome: OrderOutcome, detail: str, found: Sequence[Judged]) -> int:
        evidence = [
            {
                "key": one.view.key,
                "state": one.view.state.value,
                "verdict": one.judgement.verdict.value,
                "rule": one.judgement.rule,
                "revision": one.view.revision,
                "evidence": [evidence_row(fact) for fact in one.judgement.evidence],
            }
            for one in found
        ]
        row = (
            now_ms(),
            who,
            order.action.value,
            json.dumps(order.keys),
            order.reason,
            outcome.value,
            detail,
            json.dumps(evidence),
        )
        audit = self._store.append_audit(row)
        log.info("audit %d: %s by %s: %s", audit, order.action.value, who, outcome.value)
        self._current.changed()
        return audit


def _dry(plan: Plan) -> list[Step]:
    return [act.dry() for act in plan.acts]


def _carried_out(plan: Plan) -> list[Step]:
    return [act.step(end) for act, end in zip(plan.acts, carry_out(plan), strict=True)]


def _outcome(order: Order, steps: Sequence[Step]) -> OrderOutcome:
    if order.dry_run:
        return OrderOutcome.DRY_RUN
    return OrderOutcome.ACCEPTED if all(step.outcome.fulfils(order.action) for step in steps) else OrderOutcome.FAILED
