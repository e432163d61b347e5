"""A plan for many transactions of which each is ordered by itself: one that is refused stops no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.orders.plan import Plan, joined
from collector.verdicts.judging import Judged
from lifecycle.errors import OrderRefused


def plan_each(plan: Callable[[Sequence[Judged]], Plan], found: Sequence[Judged]) -> tuple[Plan, dict[str, str]]:
    """Return a plan for all that are not refused, and why each other one is, by its key.

    All are planned together; what is refused together is planned in halves, so few refusals take few plans. ``plan`` checks and
    does nothing yet. Raises what it raises besides OrderRefused.
    """
    refused: dict[str, str] = {}
    plans = _plans(plan, found, refused)
    if not plans:
        return Plan(actions=(), carry_out=lambda: []), refused
    return joined(plans, [judged.view.key for judged in found if judged.view.key not in refused]), refused


def _plans(plan: Callable[[Sequence[Judged]], Plan], found: Sequence[Judged], refused: dict[str, str]) -> list[Plan]:
    if not found:
        return []
    try:
        return [plan(found)]
    except OrderRefused as error:
        if len(found) == 1:
            refused[found[0].view.key] = str(error)
            return []
    half = len(found) // 2
    return _plans(plan, found[:half], refused) + _plans(plan, found[half:], refused)
