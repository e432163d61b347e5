"""The HTTP API as docs/api.md describes it; every answer and error has the shape that is written there."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Header, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from indoubt.collector.config.tls import TlsFiles
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records import orders
from indoubt.collector.records.orders import FirstAnswer, Order, OrderResult
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api import object_routes, search_routes, series_routes, table_routes
from indoubt.collector.serve.api.answers import Table, row_answer, table_answer
from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.collector.serve.api.dependencies import ApiDependencies, KnownCaller, OrderingCaller, json_object
from indoubt.collector.serve.api.errors import handle_errors
from indoubt.collector.serve.api.middleware import RequestGuard
from indoubt.collector.serve.api.openapi import document
from indoubt.collector.serve.api.overview import cached_counts, overview
from indoubt.collector.serve.api.paging import first
from indoubt.collector.serve.api.table_routes import MAX_LIMIT, Limit
from indoubt.collector.serve.api.to_leader import ToLeader
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.rows.order_request import IDEMPOTENCY_KEY
from indoubt.lifecycle.rows.orders import OrderPreview, OrderRun
from indoubt.lifecycle.rows.overview import Overview
from indoubt.lifecycle.rows.status import HistoryStatus, ObserverRow, Status

BACKUPS = "backups"
"""The directory beside history that copies of it go to."""
IdempotencyKey = Annotated[str | None, Header(pattern=f"^{IDEMPOTENCY_KEY}$")]


class EventStream(StreamingResponse):
    """An answer that goes on."""

    media_type = "text/event-stream"


def application(dependencies: ApiDependencies) -> FastAPI:
    """Return the API over ``dependencies``."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        dependencies.changes.attach(asyncio.get_running_loop())
        yield

    app = FastAPI(
        title="indoubt collector",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.dependencies = dependencies
    if dependencies.leadership is not None:
        app.add_middleware(ToLeader, leadership=dependencies.leadership, authority=dependencies.authority)
    app.add_middleware(RequestGuard)
    handle_errors(app)
    one_backup = threading.Lock()
    counted = dependencies.refresher.add(cached_counts(dependencies.store))

    @app.get("/api/v1/health", response_model=dict[str, bool | str])
    def health() -> Response:
        ready, leadership = dependencies.is_ready(), dependencies.leadership
        role = {} if leadership is None else {"role": "leader" if leadership.leads else "standby"}
        return JSONResponse({"ready": ready, **role}, status_code=200 if ready else 503)

    @app.get("/api/v1/openapi.json", response_model=dict[str, Any])
    def openapi(_: KnownCaller) -> JSONResponse:
        return JSONResponse(document(app))

    @app.get("/api/v1/status", response_model=Status)
    def status(caller: KnownCaller) -> Response:
        return row_answer(_status(dependencies, caller))

    @app.get("/api/v1/overview", response_model=Overview)
    def read_overview(_: KnownCaller, limit: Annotated[int | None, Query(ge=0, le=MAX_LIMIT)] = None) -> Response:
        return row_answer(overview(counted, dependencies.assessor.now(), limit))

    @app.get("/api/v1/changes", response_class=EventStream)
    async def changes(_: KnownCaller) -> StreamingResponse:
        headers = {"X-Accel-Buffering": "no"}
        return EventStream(dependencies.changes.stream(), headers=headers)

    @app.post("/api/v1/orders", response_model=OrderResult)
    async def order(request: Request, caller: OrderingCaller, idempotency_key: IdempotencyKey = None) -> Response:
        body = await json_object(request, "an order")
        return row_answer(await asyncio.to_thread(_order, dependencies, body, idempotency_key or "", caller))

    @app.get("/api/v1/orders", response_model=FirstAnswer)
    def answer(caller: KnownCaller, idempotency_key: Annotated[str, Query(pattern=f"^{IDEMPOTENCY_KEY}$")]) -> Response:
        return row_answer(dependencies.actions.answer(idempotency_key, caller.name))

    @app.post("/api/v1/orders/preview", response_model=OrderPreview)
    async def preview(request: Request, _: KnownCaller) -> Response:
        action, wanted = orders.read_preview(await json_object(request, "a filter"))
        return row_answer(await asyncio.to_thread(dependencies.previews.preview, action, wanted))

    @app.post("/api/v1/orders/runs", response_model=OrderRun)
    async def begin(request: Request, caller: OrderingCaller, idempotency_key: IdempotencyKey = None) -> Response:
        order = orders.read_run(await json_object(request, "an order"), idempotency_key or "")
        return row_answer(await asyncio.to_thread(_begin, dependencies, order, caller))

    @app.get("/api/v1/orders/runs", response_model=Table[OrderRun])
    def read_runs(caller: KnownCaller, mine: bool = False, limit: Limit = 500) -> Response:
        return table_answer(first(dependencies.order_runs.all(caller.name if mine else None), limit))

    @app.get("/api/v1/orders/runs/{run}", response_model=OrderRun)
    def read_run(_: KnownCaller, run: str, steps: bool = False) -> Response:
        found = dependencies.order_runs.find(run)
        return row_answer(_known(found if steps or found is None else replace(found, steps=()), run))

    @app.delete("/api/v1/orders/runs/{run}", response_model=OrderRun)
    def stop_run(caller: KnownCaller, run: str) -> Response:
        found = _known(dependencies.order_runs.find(run), run)
        _require_operator(dependencies, orders.order_of_run(found), caller)
        return row_answer(_known(dependencies.order_runs.stop_run(run, caller.name), run))

    @app.post("/api/v1/backup")
    def backup(caller: KnownCaller) -> dict[str, Any]:
        if caller.role is not Role.OPERATOR:
            why = f"{caller.name} is a viewer: a backup needs an operator"
            raise HTTPException(403, f"{why} (audit {_audit_backup(dependencies, caller, 'refused', why)})")
        with one_backup:
            return _backup(dependencies, caller)

    table_routes.serve(app, dependencies)
    object_routes.serve(app, dependencies)
    search_routes.serve(app, dependencies)
    series_routes.serve(app, dependencies)
    return app


def _status(dependencies: ApiDependencies, caller: Caller) -> Status:
    events, quarantined = dependencies.current.counts()
    observers = tuple(_observer_row(observer) for observer in dependencies.observers())
    leadership = dependencies.leadership
    set_aside = tuple(path.name for path in dependencies.store.set_aside)
    return Status(
        now_ms=now_ms(),
        cluster=dependencies.cluster(),
        cluster_name=dependencies.cluster_name,
        bootstrap=dependencies.bootstrap_servers,
        name=caller.name,
        role=caller.role,
        read_only=dependencies.read_only,
        quarantined=quarantined,
        events=events,
        lost_forgotten=dependencies.current.lost_forgotten(),
        history=HistoryStatus(
            error=dependencies.store.error,
            waiting=dependencies.store.waiting,
            set_aside=set_aside,
            archived_until_ms=dependencies.store.past.until_ms if dependencies.store.past.is_archived else None,
            archive_error=dependencies.archive_error(),
        ),
        observers=observers,
        standby_of=leadership.peer if leadership is not None and not leadership.leads else "",
    )


def _order(dependencies: ApiDependencies, body: Any, idempotency_key: str, caller: Caller) -> OrderResult:
    order = orders.read(body, idempotency_key)
    _require_operator(dependencies, order, caller)
    return dependencies.actions.give(order, caller.name)


def _begin(dependencies: ApiDependencies, order: Order, caller: Caller) -> OrderRun:
    _require_operator(dependencies, order, caller)
    return dependencies.order_runs.begin(order, caller.name)


def _known(found: OrderRun | None, run: str) -> OrderRun:
    if found is None:
        raise HTTPException(404, f"there is no run {run}: GET /api/v1/orders/runs lists those of the last hour")
    return found


def _require_operator(dependencies: ApiDependencies, order: Order, caller: Caller) -> None:
    """Raise HTTPException 403 where this caller may not order; the attempt is in the audit."""
    if caller.role is not Role.OPERATOR or dependencies.read_only:
        why = (
            "the collector runs read-only"
            if dependencies.read_only
            else f"{caller.name} is a viewer: orders need an operator"
        )
        audit = dependencies.actions.refuse(order, caller.name, why)
        raise HTTPException(403, f"{why} (audit {audit})")


def _backup(dependencies: ApiDependencies, caller: Caller) -> dict[str, Any]:
    started = time.monotonic()
    try:
        made = dependencies.store.back_up(dependencies.store.path.parent / BACKUPS, datetime.now(UTC))
    except StoreFailed as error:
        _audit_backup(dependencies, caller, "failed", str(error))
        raise
    took_ms, size = round((time.monotonic() - started) * 1000), made.stat().st_size
    audit = _audit_backup(dependencies, caller, "accepted", f"{made.name}, {size} bytes")
    return {"audit": audit, "file": f"{BACKUPS}/{made.name}", "bytes": size, "took_ms": took_ms}


def _audit_backup(dependencies: ApiDependencies, caller: Caller, outcome: str, detail: str) -> int:
    return dependencies.store.append_audit((now_ms(), caller.name, "backup", "[]", "", outcome, detail, "[]"))


def _observer_row(status: ObserverStatus) -> ObserverRow:
    return ObserverRow(
        name=status.name,
        state=status.state.value,
        delay_ms=status.delay_ms,
        since_ms=status.since_ms,
        error=status.error,
        records=status.records,
    )


def server_config(app: ASGIApp, tls: TlsFiles | None, trusted_proxies: Sequence[str]) -> uvicorn.Config:
    """Return how uvicorn serves it: no banner, its log lines in ours, callers' addresses as they are unless a proxy is trusted.

    ``trusted_proxies``: addresses or networks whose X-Forwarded-For says who calls.
    """
    return uvicorn.Config(
        app,
        # Not whichever is installed: the collector's tests run on this one.
        loop="asyncio",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Longer than clients keep an idle connection (httpx: 5 s): where the server is the one to close it, a request that
        # is on its way gets no answer.
        timeout_keep_alive=30,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        ssl_certfile=tls.certificate if tls is not None else None,
        ssl_keyfile=tls.key if tls is not None else None,
    )
