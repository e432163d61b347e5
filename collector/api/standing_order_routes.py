"""The API's part about standing orders: how they stand, and the one switch that stops all of them."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import Response

from collector.api.auth.authentication import Caller
from collector.api.dependencies import ApiDependencies, KnownCaller, caller_of_request
from collector.api.paging import first
from collector.api.request_body import json_object
from collector.api.table_routes import Limit, Table, row_answer, table_answer
from collector.rows.standing_orders import standing_order_rows
from collector.standing_orders.service import StandingOrderService
from lifecycle.orders import Role
from lifecycle.rows.order_request import read_body
from lifecycle.rows.standing_orders import StandingOrderRow, SwitchAnswer, SwitchRequest


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
