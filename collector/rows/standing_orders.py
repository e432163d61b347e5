"""Rows of standing orders."""

from __future__ import annotations

from collector.config.standing_orders import StandingOrder, StandingOrders
from collector.records.standing_orders import OrderReport, StandingReport
from lifecycle.orders import Action
from lifecycle.rows.standing_orders import StandingOrderRow


def standing_order_rows(standing: StandingOrders, report: StandingReport) -> list[StandingOrderRow]:
    """Return a row for each order of the file, in its order."""
    reports = {order.name: order for order in report.orders}
    return [
        _row(standing.owner, order, reports.get(order.name) or OrderReport(name=order.name, act=order.act), report)
        for order in standing.orders
    ]


def _row(owner: str, order: StandingOrder, of_it: OrderReport, report: StandingReport) -> StandingOrderRow:
    given = of_it.rehearsals if order.rehearse else of_it.acts
    return StandingOrderRow(
        name=order.name,
        state=_state(order, of_it, report),
        act=order.act.value,
        applications=tuple(sorted(order.applications)),
        when=when(order),
        most_per_hour=order.most_per_hour,
        acts=len(of_it.acts),
        rehearsals=len(of_it.rehearsals),
        held=len(of_it.held),
        why=of_it.held[0].why if of_it.held else "",
        last_at_ms=given[-1].at_ms if given else None,
        owner=owner,
        switched_by=report.switch.who,
        switched_at_ms=report.switch.at_ms,
        evaluated_at_ms=report.evaluated_at_ms,
    )


def _state(order: StandingOrder, of_it: OrderReport, report: StandingReport) -> str:
    if report.switch.stopped:
        return "stopped"
    if of_it.held:
        return "held back"
    return "rehearses" if order.rehearse else "acts"


def when(order: StandingOrder) -> str:
    """Return in words what makes an act of this order due."""
    if order.act is Action.ABORT:
        return f"open for more than {order.older_than_minutes} min"
    parts = [f"less than {order.less_than_s_left} s left"] if order.less_than_s_left is not None else []
    return " or ".join([*parts, *(["driver gone"] if order.driver_gone else [])])
