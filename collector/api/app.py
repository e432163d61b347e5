"""The HTTP API as docs/api.md describes it; every answer and error has the shape that is written there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from collector.api import table_routes
from collector.api.auth.authentication import Caller
from collector.api.dependencies import ApiDependencies, KnownCaller
from collector.api.errors import handle_errors
from collector.api.middleware import RequestGuard
from collector.api.openapi import document
from collector.api.overview import counts_now_and_then, overview
from collector.api.request_body import json_object
from collector.api.table_routes import row_answer
from collector.records import orders
from collector.rows.transactions import detail_row
from collector.runtime.clock import now_ms
from collector.verdicts.judging import Judged
from collector.views import aborts_and_losses
from lifecycle.orders import Role
from lifecycle.rows.status import HistoryStatus, ObserverRow, Status
from lifecycle.rows.transactions import TransactionDetailRow


def application(served: ApiDependencies) -> FastAPI:
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
    app.add_middleware(RequestGuard, max_body_bytes=served.max_body_bytes)
    handle_errors(app)
    counted = counts_now_and_then(served.current, served.store)

    @app.get("/api/v1/health")
    def health() -> Response:
        return JSONResponse({"ready": True}) if served.is_ready() else JSONResponse({"ready": False}, status_code=503)

    @app.get("/api/v1/openapi.json")
    def openapi(_: KnownCaller) -> JSONResponse:
        return JSONResponse(document(app))

    @app.get("/api/v1/status")
    def status(caller: KnownCaller) -> Response:
        return row_answer(_status(served, caller))

    @app.get("/api/v1/overview")
    def read_overview(_: KnownCaller) -> Response:
        return row_answer(overview(served.current, counted, served.watch, served.foreign_old_ms, served.partitions()))

    @app.get("/api/v1/transactions/{key:path}")
    def transaction(_: KnownCaller, key: str) -> Response:
        return row_answer(_transaction(served, key))

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

    table_routes.serve(app, served)
    return app


def _status(served: ApiDependencies, caller: Caller) -> Status:
    events, quarantined = served.current.counts()
    observers = tuple(
        ObserverRow(
            name=observer.name,
            state=observer.state.value,
            delay_ms=observer.delay_ms,
            since_ms=observer.since_ms,
            error=observer.error,
            records=observer.records,
        )
        for observer in served.observers()
    )
    set_aside = tuple(path.name for path in served.store.set_aside)
    return Status(
        now_ms=now_ms(),
        cluster=served.cluster(),
        bootstrap=served.bootstrap_servers,
        name=caller.name,
        role=caller.role,
        read_only=served.read_only,
        quarantined=quarantined,
        events=events,
        history=HistoryStatus(error=served.store.error, waiting=served.store.waiting, set_aside=set_aside),
        observers=observers,
    )


def _transaction(served: ApiDependencies, key: str) -> TransactionDetailRow:
    judged = served.current.find(key)
    if judged is None:
        raise HTTPException(404, f"transaction {key} is not in memory: it never was seen, or was settled long ago")
    loss = aborts_and_losses.loss(served.current, judged.view)
    return detail_row(judged, served.current.orders(judged.view.key), _siblings(served, judged), loss)


def _siblings(served: ApiDependencies, judged: Judged) -> list[str]:
    batch_attempt, key = judged.view.batch_attempt, judged.view.key
    if batch_attempt is None:
        return []
    same = served.current.judged_of_batches(lambda other: other == batch_attempt)
    return sorted(other.view.key for other in same if other.view.key != key)


def _order(served: ApiDependencies, body: Any, idempotency_key: str, caller: Caller) -> dict[str, Any]:
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
