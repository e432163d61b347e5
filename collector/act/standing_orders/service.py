"""Evaluates standing orders by each assessment, and gives what is due through the same service as a person's orders."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from indoubt.collector.act.orders.service import Actions
from indoubt.collector.act.standing_orders.decision import Candidate, Circumstances, Decision, Move, decide
from indoubt.collector.act.standing_orders.given_orders import FailedAttempts, GivenOrders, VerdictHistory
from indoubt.collector.act.standing_orders.own_checks import OwnChecks, Owners
from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.assess.assessor import Assessor
from indoubt.collector.config.standing_orders import StandingOrder, StandingOrders
from indoubt.collector.history import sql
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.orders import Order, OrderOutcome
from indoubt.collector.records.standing_orders import (
    HeldBack,
    OrderReport,
    StandingAct,
    StandingReport,
    Switch,
)
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import IndoubtError, OrderRefused

PASS_LIMIT_S = 2.0
"""After acting for so long everything is judged anew, before the next act."""
STOP_LIMIT_S = 30.0
STOP, START = "stop standing orders", "start standing orders"
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Counts:
    """Of one order, since the start."""

    acted: int = 0
    failed: int = 0
    dry_run_count: int = 0
    held: set[str] = field(default_factory=set)


class StandingOrderService:
    """A thread of its own evaluates; the switch and the report are for the API's threads."""

    def __init__(
        self,
        settings: StandingOrders,
        current: CurrentState,
        assessor: Assessor,
        store: Store,
        actions: Actions,
        owners: Owners,
        *,
        silent_ms: int,
        read_only: bool,
    ) -> None:
        """``owners``: who is asked before anything is sent."""
        self.settings = settings
        self._current, self._assessor, self._store, self._actions = current, assessor, store, actions
        self._silent_ms, self._read_only = silent_ms, read_only
        self._checks = OwnChecks(
            current, owners, is_stopped=lambda: self._switch.stopped, clock_doubt=current.clocks.doubt
        )
        self._verdicts = VerdictHistory()
        self._counts = {order.name: _Counts() for order in settings.orders}
        self._held: dict[str, tuple[HeldBack, ...]] = {}
        self._switching = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._forget()

    def _forget(self) -> None:
        self._given, self._failed = GivenOrders(), FailedAttempts()
        # Until the audit was read it is not known whether they were stopped.
        self._switch = Switch(stopped=bool(self.settings.orders))
        self._report = StandingReport(switch=self._switch)
        self._loaded = False

    def start(self) -> None:
        """Start evaluating by what the audit says, in a thread of its own, where there is anything to evaluate."""
        if self._thread is not None:
            self._forget()
        if self.settings.orders:
            self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stopping,), name="standing orders", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop evaluating; returns when the thread has ended."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_S)

    def report(self) -> StandingReport:
        """Return how each order stands, as of the last evaluation."""
        return replace(self._report, switch=self._switch)

    def switch(self, *, stopped: bool, who: str, reason: str) -> int:
        """Stop all of them, or let them go on; return the audit row's number. Raises StoreFailed.

        A stop holds even when it could not be written down, until the collector is restarted.
        """
        with self._switching:
            at_ms = now_ms()
            after = Switch(stopped=stopped, who=who, at_ms=at_ms, reason=reason)
            if stopped:
                self._switch = after
            action = STOP if stopped else START
            audit = self._store.append_audit((at_ms, who, action, "[]", reason, OrderOutcome.ACCEPTED.value, "", "[]"))
            self._switch = after
        log.warning("audit %d: %s by %s", audit, action, who)
        self._current.changed()
        return audit

    def refuse(self, *, stopped: bool, who: str, reason: str, why: str) -> int:
        """Write down that a caller may not stop or start them; return the audit row's number. Raises StoreFailed."""
        row = (now_ms(), who, STOP if stopped else START, "[]", reason, OrderOutcome.REFUSED.value, why, "[]")
        return self._store.append_audit(row)

    def evaluate(self, assessed: Assessment) -> None:
        """Decide about every transaction now, and give what is due. Raises StoreFailed."""
        if not self._loaded:
            self._load()
        candidates = self._candidates(assessed)
        began_s = time.monotonic()
        for order in self.settings.orders:
            decisions = decide(order, candidates, self._circumstances(order, assessed))
            held = [decision for decision in decisions if decision.move is Move.HOLD_BACK]
            self._hold(order, held)
            for decision in decisions:
                if time.monotonic() - began_s > PASS_LIMIT_S or self._stopping.is_set() or self._switch.stopped:
                    break
                if decision.move is not Move.HOLD_BACK:
                    self._give(order, decision)
        self._report = StandingReport(
            switch=self._switch,
            orders=tuple(self._report_of(order) for order in self.settings.orders),
            evaluated_at_ms=now_ms(),
        )

    def _run(self, stopping: threading.Event) -> None:
        for assessed in self._assessor.follow(stopping):
            try:
                self.evaluate(assessed)
            except StoreFailed as error:
                log.error("standing orders are not carried out: %s", error)
            except Exception:
                log.exception("standing orders could not be evaluated")

    def _load(self) -> None:
        with self._switching:
            rows = self._store.rows(sql.STANDING_ORDERS_SWITCH)
            if self._switch.at_ms is None:
                self._switch = Switch()
                for at_ms, who, action, reason in rows:
                    self._switch = Switch(stopped=action == STOP, who=who, at_ms=at_ms, reason=reason)
        self._given.load(self._store)
        self._loaded = True

    def _candidates(self, assessed: Assessment) -> list[Candidate]:
        found = [
            (case, judged)
            for case, judged in zip(assessed.cases, assessed.judged, strict=True)
            if any(order.covers(judged.view.pipeline) for order in self.settings.orders)
        ]
        self._verdicts.see({judged.view.key: judged.judgement.verdict for _, judged in found}, time.monotonic())
        return [
            Candidate(
                judged=judged,
                application=judged.view.pipeline,
                driver_gone=case.is_driver_gone,
                verdicts=self._verdicts.of(judged.view.key),
            )
            for case, judged in found
        ]

    def _circumstances(self, order: StandingOrder, assessed: Assessment) -> Circumstances:
        return Circumstances(
            now_ms=now_ms(),
            observers=assessed.situation.observers,
            silent_ms=self._silent_ms,
            stopped=self._switch.stopped,
            read_only=self._read_only,
            clock_doubt=self._current.clocks.doubt(),
            counted=self._given.counted(order.name, dry_run=order.dry_run),
            done=self._given.done(order.name, dry_run=order.dry_run),
            failed=self._failed.waiting(),
        )

    def _give(self, order: StandingOrder, decision: Decision) -> None:
        view = decision.candidate.judged.view
        at_ms = now_ms()
        audit: int | None = None
        outcome = OrderOutcome.REFUSED
        try:
            answer = self._actions.give(_order(order, decision), self.settings.owner, why_not=self._checks.why_not)
            audit, outcome = answer.audit, answer.outcome
            if outcome is OrderOutcome.FAILED:
                self._note_failure(order, view.key, outcome, f"the last attempt failed (audit {audit})")
            if outcome is OrderOutcome.PENDING:
                why = f"how the last attempt ended is not known (audit {audit}): it is repeated while the transaction is open"
                self._note_failure(order, view.key, outcome, why)
        except OrderRefused as error:
            self._note_failure(order, view.key, outcome, f"the last attempt was refused: {error}")
        except IndoubtError as error:
            # Where it was sent and could not be written down, the same order again changes nothing.
            outcome = OrderOutcome.FAILED
            self._note_failure(order, view.key, outcome, f"the last attempt failed: {error}")
        act = StandingAct(
            key=view.key,
            application=decision.candidate.application,
            at_ms=at_ms,
            audit=audit,
            outcome=outcome.value,
        )
        is_repeated = view.key in self._given.counted(order.name, dry_run=order.dry_run)
        self._given.add(order.name, act, is_dry_run=order.dry_run)
        counts = self._counts[order.name]
        if order.dry_run:
            counts.dry_run_count += 1
        elif outcome in (OrderOutcome.ACCEPTED, OrderOutcome.PENDING):
            # One that is asked for again is one act.
            counts.acted += not is_repeated
        else:
            counts.failed += 1

    def _note_failure(self, order: StandingOrder, key: str, outcome: OrderOutcome, why: str) -> None:
        log.warning("standing order %s: %s: %s", order.name, key, why)
        self._failed.add(key, outcome, why)

    def _hold(self, order: StandingOrder, decisions: Sequence[Decision]) -> None:
        held = tuple(
            HeldBack(
                key=decision.candidate.judged.view.key,
                application=decision.candidate.application,
                deadline_ms=decision.candidate.judged.view.deadline_ms,
                why=decision.why,
            )
            for decision in decisions
        )
        for new in held:
            if new.key not in self._counts[order.name].held:
                self._counts[order.name].held.add(new.key)
                log.warning("standing order %s holds back %s: %s", order.name, new.key, new.why)
        self._held[order.name] = held

    def _report_of(self, order: StandingOrder) -> OrderReport:
        counts = self._counts[order.name]
        return OrderReport(
            name=order.name,
            act=order.act,
            acts=self._given.last_hour(order.name, dry_run=False),
            dry_runs=self._given.last_hour(order.name, dry_run=True),
            held=self._held.get(order.name, ()),
            acted=counts.acted,
            failed=counts.failed,
            dry_run_count=counts.dry_run_count,
            held_back=len(counts.held),
        )


def _order(order: StandingOrder, decision: Decision) -> Order:
    view = decision.candidate.judged.view
    return Order(
        action=order.act,
        keys=(view.key,),
        seen={view.key: view.revision},
        reason=f"standing order {order.name}: {decision.why}",
        dry_run=order.dry_run,
        # Nothing is typed: what takes a confirmation is refused.
        confirm="",
        standing_order=order.name,
    )
