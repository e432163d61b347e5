"""A run of an order: its parts, and how far it is after each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from indoubt.collector.act.orders.bulk_selection import PART
from indoubt.collector.act.orders.service import refused_step
from indoubt.collector.records.orders import Order, OrderOutcome, OrderResult, Step, StepOutcome
from indoubt.lifecycle.rows.orders import OrderRun, OrderStep

_WORST_FIRST = (OrderOutcome.FAILED, OrderOutcome.PENDING, OrderOutcome.ACCEPTED, OrderOutcome.DRY_RUN)


class Run:
    """An order with its keys, and how far it is. ``ended_s``: when it was over, by the clock of its owner."""

    def __init__(self, order: Order, progress: OrderRun) -> None:
        self.order, self.progress = order, progress
        self.ended_s: float | None = None

    def part(self, number: int) -> Order:
        """Return the order of this part, the first one being 0: the same whenever it is asked for."""
        order, run = self.order, self.progress
        if not order.each:
            return order
        keys = order.keys[number * PART : (number + 1) * PART]
        of_all = f"an order for {run.transactions:,}: {run.what}"
        return replace(
            order,
            keys=keys,
            seen={key: order.seen[key] for key in keys if key in order.seen},
            each=True,
            reason=f"{order.reason} (part {number + 1} of {run.parts} of {of_all})",
            idempotency_key="" if order.dry_run else f"{order.idempotency_key} part {number + 1}",
        )


def after_part(run: Run, answer: OrderResult) -> dict[str, Any]:
    """Return what changes of a run's progress by what became of its next part."""
    before = run.progress
    steps = tuple(map(_as_row, answer.steps))
    good = [outcome.value for outcome in StepOutcome if outcome.fulfils(before.action)]
    outcomes = Counter(before.outcomes) + Counter(step.outcome for step in steps)
    worst = [outcome for outcome in _WORST_FIRST if outcome.value in (before.outcome, answer.outcome.value)]
    return {
        "parts_sent": before.parts_sent + 1,
        "sent": min(before.transactions, (before.parts_sent + 1) * PART) if run.order.each else before.transactions,
        "done": sum(outcomes[word] for word in ([StepOutcome.DRY_RUN.value] if before.dry_run else good)),
        "outcomes": dict(outcomes),
        "outcome": worst[0].value,
        "took_ms": before.took_ms + answer.took_ms,
        "audits": (*before.audits, answer.audit) if answer.audit else before.audits,
        "steps": (*before.steps, *steps),
    }


def _as_row(step: Step) -> OrderStep:
    return OrderStep(key=step.key, description=step.description, outcome=step.outcome.value, detail=step.detail)


def all_refused(part: Order, why: str) -> OrderResult:
    """Return the answer to a part of which nothing was sent."""
    steps = tuple(refused_step(key, why) for key in part.keys)
    return OrderResult(audit=0, outcome=OrderOutcome.FAILED, took_ms=0, steps=steps)
