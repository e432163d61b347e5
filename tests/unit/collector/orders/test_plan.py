"""Plans that are carried out together: each act has its own end, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from collector.orders.plan import ActionResult, Plan, PlannedAction, carry_out, joined
from collector.records.orders import StepOutcome
from lifecycle.errors import OrderRefused, Unreachable


def plan(keys: str, deed: Callable[[], Sequence[ActionResult]]) -> Plan:
    return Plan(actions=tuple(PlannedAction(key=key, description="", target={}) for key in keys), carry_out=deed)


def done(keys: str) -> Plan:
    return plan(keys, lambda: [(StepOutcome.ABORTED, key) for key in keys])


def failing(keys: str, error: Exception) -> Plan:
    def deed() -> Sequence[ActionResult]:
        raise error

    return plan(keys, deed)


def test_what_fails_in_the_middle_has_unknown_ends() -> None:
    ends = carry_out(failing("ab", Unreachable("no broker")))
    assert ends == [(StepOutcome.UNKNOWN, "Unreachable: no broker")] * 2


def test_what_is_refused_before_its_first_act_was_not_done() -> None:
    with pytest.raises(OrderRefused, match="somebody was first"):
        carry_out(failing("ab", OrderRefused("somebody was first")))


def test_joined_plans_answer_in_the_order_of_the_keys() -> None:
    together = joined([done("ca"), done("b")], "abc")
    assert [planned.key for planned in together.actions] == ["a", "b", "c"]
    assert [detail for _, detail in carry_out(together)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (OrderRefused("no"), (StepOutcome.REFUSED, "no")),
        (Unreachable("gone"), (StepOutcome.UNKNOWN, "Unreachable: gone")),
    ],
)
def test_one_plan_that_does_not_go_through_stops_no_other(error: Exception, end: ActionResult) -> None:
    for plans in ([failing("a", error), done("b")], [done("b"), failing("a", error)]):
        assert carry_out(joined(plans, "ab")) == [end, (StepOutcome.ABORTED, "b")]


def test_only_where_every_plan_is_refused_nothing_was_done() -> None:
    with pytest.raises(OrderRefused, match="first"):
        carry_out(joined([failing("a", OrderRefused("first")), failing("b", OrderRefused("second"))], "ab"))
