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
from collector.api.table_routes import Limit, row_answer, table_answer
from collector.rows.standing_orders import standing_order_rows
from collector.standing_orders.service import StandingOrderService
from lifecycle.orders import Role
from lifecycle.rows.order_request import MAX_REASON, MIN_REASON
from lifecycle.rows.standing_orders import SwitchAnswer


def serve(app: FastAPI, dependencies: ApiDependencies, standing: StandingOrderService) -> None:
    """Add the routes."""

    @app.get("/api/v1/standing-orders", dependencies=[Depends(caller_of_request)])
    def read_standing_orders(limit: Limit = 500) -> Response:
        rows = standing_order_rows(standing.settings, standing.report())
        return table_answer(first(rows, limit))

    @app.post("/api/v1/standing-orders")
    async def switch(request: Request, caller: KnownCaller) -> Response:
        body = await json_object(request, "what is to become of the standing orders")
        return row_answer(await asyncio.to_thread(_switch, standing, body, caller))


def _switch(standing: StandingOrderService, body: dict[str, Any], caller: Caller) -> SwitchAnswer:
    stopped, reason = _read(body)
    if caller.role is not Role.OPERATOR:
        why = f"{caller.name} is a viewer: to stop or start standing orders takes an operator"
        audit = standing.refuse(stopped=stopped, who=caller.name, reason=reason, why=why)
        raise HTTPException(403, f"{why} (audit {audit})")
    return SwitchAnswer(stopped=stopped, audit=standing.switch(stopped=stopped, who=caller.name, reason=reason))


def _read(body: dict[str, Any]) -> tuple[bool, str]:
    if set(body) != {"stopped", "reason"}:
        raise HTTPException(422, "the body has 'stopped' and 'reason', and nothing else")
    stopped, reason = body["stopped"], body["reason"]
    if not isinstance(stopped, bool):
        raise HTTPException(422, f"'stopped' is {stopped!r}; it takes true or false")
    given = reason.strip() if isinstance(reason, str) and len(reason) <= MAX_REASON else ""
    if len(given) < MIN_REASON:
        raise HTTPException(422, f"'reason' takes {MIN_REASON} to {MAX_REASON} characters: say why")
    return stopped, given
