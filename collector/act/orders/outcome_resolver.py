"""Finds out how orders ended whose end was not known at once, also after a restart of the collector.

It never decides anything: each probe may repeat what the order itself has sent, for exactly the same transaction, and no more.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from indoubt.collector.act.orders.audit import AuditRow, Intent, OrderHistory
from indoubt.collector.act.orders.plan import ActionResult, PlannedAction
from indoubt.collector.records.observations import OperatorOrder
from indoubt.collector.records.orders import OrderOutcome, OrderResult, Step, StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.rows.row_json import row_to_json

PAUSE_MS, MAX_PAUSE_S = 1_000, 60.0
GIVE_UP_MS = 86_400_000
STOP_LIMIT_S = 10.0
CUT_SHORT = "the collector ended in the middle of this order: how it ended is looked up"
log = logging.getLogger(__name__)

Probe = Callable[[PlannedAction, Intent], ActionResult]
"""Says how one action of an intent ended, or that this is unknown. Raises whatever keeps it from probing."""


@dataclass(slots=True)
class _Watched:
    """An intent of which something is unknown. ``pauses``: before each probe; ``due``: the next one, on the monotonic clock."""

    intent: Intent
    pauses: Iterator[float]
    due: float


class OutcomeResolver:
    """Probes with growing pauses, in a thread of its own; gives up after ``max_ms``, and says so."""

    def __init__(
        self,
        current: CurrentState,
        history: OrderHistory,
        probes: Mapping[str, Probe],
        *,
        pause_ms: int = PAUSE_MS,
        max_ms: int = GIVE_UP_MS,
    ) -> None:
        self._current, self._history, self._probes = current, history, dict(probes)
        self._backoff, self._max_ms = Backoff(first_s=pause_ms / 1000, max_s=MAX_PAUSE_S), max_ms
        self._watched: dict[int, _Watched] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, intent: Intent) -> None:
        """Find out about this intent: what of it is unknown, or all of it where nothing was written down yet."""
        if intent.first_audit is not None and not intent.unknown:
            return
        with self._changed:
            pauses = self._backoff.pauses()
            self._watched[intent.intent] = _Watched(intent, pauses, time.monotonic() + next(pauses))
            self._changed.notify()

    def watched(self) -> list[Intent]:
        """Return the intents of which something is unknown, in no order."""
        with self._changed:
            return [watched.intent for watched in self._watched.values()]

    def start(self) -> None:
        """Take up what history has unsettled, then probe, in a thread of its own. Raises StoreFailed."""
        for intent in self._history.unsettled():
            self.watch(self._written(intent))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="follow-up", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop probing; what is unsettled stays so in history."""
        with self._changed:
            self._stopping.set()
            self._watched = {}
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_S)

    def _run(self, stopping: threading.Event) -> None:
        while (watched := self._next(stopping)) is not None:
            try:
                left = self._probe_all(watched.intent)
            except Exception:  # whatever it is, the next probe may succeed
                log.exception("follow-up of order %d failed", watched.intent.intent)
                left = watched.intent
            with self._changed:
                if left.first_audit is not None and not left.unknown:
                    self._watched.pop(left.intent, None)
                else:
                    watched.intent, watched.due = left, time.monotonic() + next(watched.pauses)

    def _next(self, stopping: threading.Event) -> _Watched | None:
        """Wait for the next intent that is due; None: stop."""
        with self._changed:
            while not stopping.is_set():
                first = min(self._watched.values(), key=lambda watched: watched.due, default=None)
                left_s = None if first is None else first.due - time.monotonic()
                if first is not None and left_s is not None and left_s <= 0:
                    return first
                self._changed.wait(left_s)
        return None

    def _probe_all(self, intent: Intent) -> Intent:
        intent = self._written(intent)
        unknown = [planned for planned in intent.actions if planned.key in intent.unknown]
        steps = [planned.step(self._end(planned, intent)) for planned in unknown]
        if intent.age_ms > self._max_ms:
            steps = [_given_up(step) for step in steps]
            left: list[str] = []
        else:
            left = [step.key for step in steps if not step.outcome.is_known]
        ended = [step for step in steps if step.key not in left]
        if ended:
            self._tell(intent, ended, left)
        return replace(intent, unknown=frozenset(left))

    def _end(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        probe = self._probes.get(planned.target.get("kind", ""))
        if probe is None:
            return StepOutcome.UNKNOWN, f"this program cannot look up {planned.target.get('kind')!r}"
        try:
            self._history.require_lead()
            return probe(planned, intent)
        except Exception as error:  # a broker that is gone may be back at the next probe
            return StepOutcome.UNKNOWN, f"{type(error).__name__}: {error}"

    def _tell(self, intent: Intent, steps: list[Step], left: list[str]) -> None:
        done = all(step.outcome.fulfils(intent.action) for step in steps)
        evidence = [{"fact": f"follow-up of audit {intent.first_audit}", "source": "follow-up", "at_ms": now_ms()}]
        row = _row(intent, OrderOutcome.ACCEPTED if done else OrderOutcome.FAILED, steps, evidence)
        audit = self._history.followed_up(intent, row, left)
        log.info("audit %d: follow-up of audit %s: %s", audit, intent.first_audit, row.outcome.value)
        tell_executed(self._current, steps, intent, audit)
        self._current.changed()

    def _written(self, intent: Intent) -> Intent:
        """Return the intent with the audit row of the order, written now where the collector ended before it was."""
        if intent.first_audit is not None:
            return intent
        steps = tuple(planned.step((StepOutcome.UNKNOWN, CUT_SHORT)) for planned in intent.actions)
        row = _row(intent, OrderOutcome.PENDING, steps, intent.evidence)
        result = OrderResult(audit=0, outcome=OrderOutcome.PENDING, took_ms=0, steps=steps)
        return self._history.interrupted(intent, row, result)


def _row(intent: Intent, outcome: OrderOutcome, steps: Sequence[Step], evidence: Sequence[Any]) -> AuditRow:
    return AuditRow(
        who=intent.who,
        action=intent.action,
        keys=[step.key for step in steps],
        reason=intent.reason,
        outcome=outcome,
        detail=json.dumps(row_to_json(steps)),
        evidence=evidence,
    )


def tell_executed(current: CurrentState, steps: Sequence[Step], intent: Intent, audit: int) -> None:
    """Note what ended as an order meant it to."""
    action, who = intent.action, intent.who
    for step in steps:
        if step.outcome.fulfils(action):
            current.executed(OperatorOrder(key=step.key, action=action.value, who=who, at_ms=now_ms(), audit=audit))


def _given_up(step: Step) -> Step:
    if step.outcome.is_known:
        return step
    return replace(step, outcome=StepOutcome.UNKNOWN, detail=f"given up; its end is unknown: {step.detail}")
