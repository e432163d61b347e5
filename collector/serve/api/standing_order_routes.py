"""The API's part about standing orders: how they stand, and the one switch that stops all of them."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import Response

from indoubt.collector.act.standing_orders.service import StandingOrderService
from indoubt.collector.config.standing_orders import StandingOrder, StandingOrders
from indoubt.collector.records.standing_orders import OrderReport, StandingReport
from indoubt.collector.serve.api.answers import Table, row_answer, table_answer
from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.collector.serve.api.dependencies import ApiDependencies, KnownCaller, caller_of_request, json_object
from indoubt.collector.serve.api.paging import first
from indoubt.collector.serve.api.table_routes import Limit
from indoubt.lifecycle.orders import Action, Role
from indoubt.lifecycle.rows.order_request import read_body
from indoubt.lifecycle.rows.standing_orders import StandingOrderRow, SwitchAnswer, SwitchRequest


def serve(app: FastAPI, dependencies: ApiDependencies, standing: StandingOrderService) -> None:
    """Add the routes."""

    @app.get(
        "/api/v1/standing-orders", response_model=Table[StandingOrderRow], dependencies=[Depends(caller_of_request)]
    )
    def read_standing_orders(limit: Limit = 500) -> Response:
        rows = standing_order_rows(standing.settings, standing.report())
        return table_answer(first(rows, limit))

    @app.post("/api/v1/standing-orders", response_model=SwitchAnswer)
    async def switch(request: Request, caller: KnownCaller) -> Response:
        body = await json_object(request, "what is to become of the standing orders")
        return row_answer(await asyncio.to_thread(_switch, standing, body, caller))


def _switch(standing: StandingOrderService, body: dict[str, Any], caller: Caller) -> SwitchAnswer:
    try:
        asked = read_body(SwitchRequest, body)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    stopped, reason = asked.stopped, asked.reason
    if caller.role is not Role.OPERATOR:
        why = f"{caller.name} is a viewer: to stop or start standing orders takes an operator"
        audit = standing.refuse(stopped=stopped, who=caller.name, reason=reason, why=why)
        raise HTTPException(403, f"{why} (audit {audit})")
    return SwitchAnswer(stopped=stopped, audit=standing.switch(stopped=stopped, who=caller.name, reason=reason))


def standing_order_rows(standing: StandingOrders, report: StandingReport) -> list[StandingOrderRow]:
    """Return a row for each order of the file, in its order."""
    reports = {order.name: order for order in report.orders}
    return [
        _row(standing.owner, order, reports.get(order.name) or OrderReport(name=order.name, act=order.act), report)
        for order in standing.orders
    ]


def _row(owner: str, order: StandingOrder, of_it: OrderReport, report: StandingReport) -> StandingOrderRow:
    given = of_it.dry_runs if order.dry_run else of_it.acts
    return StandingOrderRow(
        name=order.name,
        state=_state(order, of_it, report),
        act=order.act.value,
        applications=tuple(sorted(order.applications)),
        when=when(order),
        most_per_hour=order.most_per_hour,
        acts=len(of_it.acts),
        dry_runs=len(of_it.dry_runs),
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
    return "dry run" if order.dry_run else "acts"


def when(order: StandingOrder) -> str:
    """Return in words what makes an act of this order due."""
    if order.act is Action.ABORT:
        return f"open for more than {order.older_than_minutes} min"
    parts = [f"less than {order.less_than_s_left} s left"] if order.less_than_s_left is not None else []
    return " or ".join([*parts, *(["driver gone"] if order.driver_gone else [])])
