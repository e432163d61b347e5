"""The HTTP API as docs/api.md describes it; every answer and error has the shape that is written there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from collector import orders, table_api, undone
from collector.api_document import document
from collector.authentication import Caller
from collector.clock import now_ms
from collector.error_answers import handle_errors
from collector.judging import Judged
from collector.loss_rows import loss_row
from collector.overview import CountedNowAndThen, overview
from collector.partition_rows import blocked_counts, by_urgency, hanging_groups
from collector.request_body import json_object
from collector.request_guard import RequestGuard
from collector.served import KnownCaller, Served
from collector.token_file import Role
from collector.transaction_rows import detail_row


def application(served: Served) -> FastAPI:
    """Return the API over ``served``."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        served.changes.attach(asyncio.get_running_loop())
        yield

    app = FastAPI(
        title="indoubt collector",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.served = served
    app.add_middleware(RequestGuard, body_bytes_most=served.body_bytes_most)
    handle_errors(app)
    counted = CountedNowAndThen(served.current, served.store)

    @app.get("/api/v1/health")
    def health() -> Response:
        return JSONResponse({"ready": True}) if served.is_ready() else JSONResponse({"ready": False}, status_code=503)

    @app.get("/api/v1/openapi.json")
    def openapi(_: KnownCaller) -> JSONResponse:
        return JSONResponse(document(app))

    @app.get("/api/v1/status")
    def status(caller: KnownCaller) -> Response:
        return JSONResponse(_status(served, caller))

    @app.get("/api/v1/overview")
    def read_overview(_: KnownCaller) -> Response:
        found = overview(served.current, counted, served.watch, served.foreign_old_ms)
        seen = served.partitions()
        if hanging := hanging_groups(seen):
            found |= {"needs_hand": by_urgency([*hanging, *found["needs_hand"]]), "quiet_since_ms": None}
        return JSONResponse(found | {"counts": found["counts"] | blocked_counts(seen)})

    @app.get("/api/v1/transactions/{key:path}")
    def transaction(_: KnownCaller, key: str) -> Response:
        return JSONResponse(_transaction(served, key))

    @app.get("/api/v1/changes")
    async def changes(_: KnownCaller) -> StreamingResponse:
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(served.changes.stream(), media_type="text/event-stream", headers=headers)

    @app.post("/api/v1/orders")
    async def order(request: Request, caller: KnownCaller) -> dict[str, Any]:
        body = await json_object(request, "an order")
        return await asyncio.to_thread(_order, served, body, request.headers.get("idempotency-key", ""), caller)

    @app.get("/api/v1/orders")
    def answer(caller: KnownCaller, idempotency_key: str) -> dict[str, Any]:
        return served.actions.answer(idempotency_key, caller.name)

    @app.post("/api/v1/orders/preview")
    async def preview(request: Request, _: KnownCaller) -> dict[str, Any]:
        return await asyncio.to_thread(
            served.actions.preview, orders.read_preview(await json_object(request, "a filter"))
        )

    table_api.serve(app, served)
    return app


def _status(served: Served, caller: Caller) -> dict[str, Any]:
    events, malformed = served.current.counts()
    observers = [
        {
            "name": o.name,
            "state": o.state.value,
            "delay_ms": o.delay_ms,
            "since_ms": o.since_ms,
            "error": o.error,
            "records": o.records,
        }
        for o in served.observers()
    ]
    return {
        "now_ms": now_ms(),
        "cluster": served.cluster(),
        "bootstrap": served.bootstrap_servers,
        "name": caller.name,
        "role": caller.role.value,
        "read_only": served.read_only,
        "malformed": malformed,
        "events": events,
        "history": {
            "error": served.store.error,
            "waiting": served.store.waiting,
            "set_aside": [path.name for path in served.store.set_aside],
        },
        "observers": observers,
    }


def _transaction(served: Served, key: str) -> dict[str, Any]:
    judged = served.current.find(key)
    if judged is None:
        raise HTTPException(404, f"transaction {key} is not in memory: it never was seen, or was settled long ago")
    loss = undone.loss(served.current, judged.view)
    row = detail_row(judged, served.current.orders(judged.view.key), _siblings(served, judged))
    return {**row, "loss": loss_row(loss) if loss is not None else None}


def _siblings(served: Served, judged: Judged) -> list[str]:
    about, key = judged.view.about, judged.view.key
    if about is None:
        return []
    same = served.current.judged_of_batches(lambda other: other == about)
    return sorted(one.view.key for one in same if one.view.key != key)


def _order(served: Served, body: Any, idempotency_key: str, caller: Caller) -> dict[str, Any]:
    order = orders.read(body, idempotency_key)
    if caller.role is not Role.OPERATOR or served.read_only:
        why = (
            "the collector runs read-only"
            if served.read_only
            else f"{caller.name} is a viewer: orders need an operator's token"
        )
        audit = served.actions.refuse(order, caller.name, why)
        raise HTTPException(403, f"{why} (audit {audit})")
    return served.actions.give(order, caller.name).to_json()
