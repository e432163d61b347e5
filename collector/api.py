"""The HTTP API as docs/api.md describes it; every answer and error has the shape that is written there."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import pyarrow as pa
from fastapi import Depends, FastAPI, Query, Request, Security
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from collector import orders, queries, table_schemas
from collector.actions import Actions
from collector.api_document import ARROW, document
from collector.authentication import Caller, KnownTokens
from collector.batch_rows import batch_row
from collector.batches import current_batches
from collector.changes import Changes
from collector.clock import now_ms
from collector.current_state import CurrentState, Judged
from collector.error_answers import handle_errors
from collector.id_rows import id_row
from collector.loss_rows import loss_row, loss_rows
from collector.observers.observer import ObserverStatus
from collector.ordering.pipelines import pipeline_row
from collector.overview import EndsPerMinute, Watch, overview
from collector.partition_rows import blocked_counts, blocked_rows, hanging_rows
from collector.partition_sights import PartitionPicture
from collector.rate_limits import RequestLimits
from collector.request_body import json_object
from collector.request_guard import RequestGuard
from collector.settings import BODY_BYTES_MOST
from collector.store import Store
from collector.token_file import Role
from collector.transaction_rows import abort_row, checkpoint_row, detail_row, job_row, transaction_row, urgency
from lifecycle.verdicts import Verdict

LIMIT_MOST = 100_000
_BEARER = HTTPBearer(auto_error=False, description="A viewer's token reads, an operator's also orders.")
Limit = Annotated[int, Query(ge=1, le=LIMIT_MOST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the API answers from. ``is_ready`` turns true once history is loaded; ``cluster`` is the cluster id, or empty."""

    current: CurrentState
    store: Store
    actions: Actions
    watch: Watch
    changes: Changes
    tokens: KnownTokens
    read_only: bool
    bootstrap_servers: str
    foreign_old_ms: int
    is_ready: Callable[[], bool]
    cluster: Callable[[], str]
    observers: Callable[[], Sequence[ObserverStatus]]
    partitions: Callable[[], PartitionPicture]
    limits: RequestLimits = field(default_factory=RequestLimits)
    body_bytes_most: int = BODY_BYTES_MOST


def caller_of_request(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
) -> Caller:
    """Return who calls.

    Raises TooManyRequests, HTTPException 401, and 503 while history is loaded: verdicts would rest on a part of it.
    """
    served: Served = request.app.state.served
    address = request.client.host if request.client is not None else ""
    known = served.tokens.caller_of(request.headers.get("authorization", ""), now_ms())
    served.limits.check_address(address, known)
    if known is None:
        served.limits.failed(address)
        raise HTTPException(
            401, "no valid token: send 'Authorization: Bearer <token>' with a viewer's or an operator's token"
        )
    request.state.caller = known.name
    served.limits.admit(known, changes_something=request.method != "GET")
    if not served.is_ready():
        raise HTTPException(503, "history is being loaded: ask again in a moment")
    return known


KnownCaller = Annotated[Caller, Depends(caller_of_request)]


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
    ends = EndsPerMinute(served.store)

    @app.get("/api/v1/health")
    def health() -> Response:
        return JSONResponse({"ready": True}) if served.is_ready() else JSONResponse({"ready": False}, status_code=503)

    @app.get("/api/v1/openapi.json")
    def openapi(_: KnownCaller) -> JSONResponse:
        return JSONResponse(document(app))

    @app.get("/api/v1/status")
    def status(caller: KnownCaller) -> dict[str, Any]:
        return _status(served, caller)

    @app.get("/api/v1/overview")
    def read_overview(_: KnownCaller) -> dict[str, Any]:
        found = overview(served.current, served.store, ends, served.watch, served.foreign_old_ms)
        return found | {"counts": found["counts"] | blocked_counts(served.partitions())}

    @app.get("/api/v1/transactions/{key:path}")
    def transaction(_: KnownCaller, key: str) -> dict[str, Any]:
        return _transaction(served, key)

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

    _serve_tables(app, served)
    return app


def _serve_tables(app: FastAPI, served: Served) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/transactions", dependencies=protected)
    def transactions(
        request: Request,
        all: bool = False,
        verdict: str | None = None,
        pipeline: str | None = None,
        resource_manager: str | None = None,
        limit: Limit = 500,
    ) -> Response:
        found = [
            one
            for one in served.current.judged(settled=all)
            if (all or one.judgement.verdict is not Verdict.SETTLED)
            and verdict in (None, one.judgement.verdict.value)
            and pipeline in (None, one.view.pipeline)
            and resource_manager in (None, one.view.resource_manager)
        ]
        found.sort(key=urgency)
        return table_answer(request, table_schemas.TRANSACTIONS, [transaction_row(one) for one in found[:limit]])

    @app.get("/api/v1/aborts", dependencies=protected)
    def aborts(request: Request, since_ms: int = 0, cause: str | None = None, limit: Limit = 500) -> Response:
        rows = [abort_row(clues) for clues in served.current.abort_clues()]
        rows = [row for row in rows if (row["at_ms"] or 0) >= since_ms and cause in (None, row["cause"])]
        rows.sort(key=lambda row: (row["at_ms"] or 0, row["key"]), reverse=True)
        return table_answer(request, table_schemas.ABORTS, rows[:limit])

    @app.get("/api/v1/losses", dependencies=protected)
    def losses(
        request: Request,
        verdict: str | None = None,
        pipeline: str | None = None,
        transaction: str | None = None,
        all: bool = False,
        since_ms: int = 0,
        limit: Limit = 500,
    ) -> Response:
        current = served.current
        found = current.losses_of(transaction) if transaction else current.losses(committed=all)
        rows = loss_rows(found, verdict=verdict, pipeline=pipeline, since_ms=since_ms, limit=limit)
        return table_answer(request, table_schemas.LOSSES, rows)

    @app.get("/api/v1/checkpoints", dependencies=protected)
    def checkpoints(request: Request, pipeline: str | None = None, limit: Limit = 500) -> Response:
        found = [c for c in served.current.checkpoints() if pipeline in (None, c.pipeline)]
        found.sort(key=lambda c: (c.begun_ms or c.ended_ms or 0, c.number), reverse=True)
        of_batch = served.current.transactions_of_batches()
        return table_answer(
            request,
            table_schemas.CHECKPOINTS,
            [checkpoint_row(c, of_batch.get((c.pipeline, c.number))) for c in found[:limit]],
        )

    @app.get("/api/v1/ids", dependencies=protected)
    def ids(request: Request, limit: Limit = 500) -> Response:
        rows = [id_row(report) for report in served.current.id_reports()[:limit]]
        return table_answer(request, table_schemas.IDS, rows)

    @app.get("/api/v1/jobs", dependencies=protected)
    def jobs(request: Request, limit: Limit = 500) -> Response:
        return table_answer(request, table_schemas.JOBS, [job_row(facts) for facts in served.current.jobs()[:limit]])

    @app.get("/api/v1/blocked", dependencies=protected)
    def blocked(request: Request, all: bool = False, topic: str | None = None, limit: Limit = 500) -> Response:
        rows = blocked_rows(served.partitions(), now_ms(), every=all, topic=topic)
        return table_answer(request, table_schemas.BLOCKED, rows[:limit])

    @app.get("/api/v1/hanging", dependencies=protected)
    def hanging(request: Request, limit: Limit = 500) -> Response:
        return table_answer(request, table_schemas.HANGING, hanging_rows(served.partitions())[:limit])

    @app.get("/api/v1/pipelines", dependencies=protected)
    def pipelines(request: Request, pipeline: str | None = None, limit: Limit = 500) -> Response:
        found = [one for one in served.current.newest_runs() if pipeline in (None, one.facts.pipeline)]
        found.sort(key=lambda one: one.facts.pipeline)
        return table_answer(request, table_schemas.PIPELINES, [pipeline_row(one) for one in found[:limit]])

    @app.get("/api/v1/batches", dependencies=protected)
    def batches(
        request: Request, pipeline: str | None = None, verdict: str | None = None, limit: Limit = 500
    ) -> Response:
        found = [
            batch
            for batch in current_batches(served.current)
            if pipeline in (None, batch.pipeline) and verdict in (None, batch.verdict.value)
        ]
        return table_answer(request, table_schemas.BATCHES, [batch_row(batch) for batch in found[:limit]])

    @app.get("/api/v1/audit", dependencies=protected)
    def audit(request: Request, limit: Limit = 500) -> Response:
        found = served.store.named_rows(queries.AUDIT, limit)
        return table_answer(
            request,
            table_schemas.AUDIT,
            [{**row, "keys": json.loads(row["keys"]), "evidence": json.loads(row["evidence"])} for row in found],
        )

    @app.get("/api/v1/malformed", dependencies=protected)
    def malformed(request: Request, limit: Limit = 500) -> Response:
        return table_answer(request, table_schemas.MALFORMED, served.store.named_rows(queries.MALFORMED, limit))


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
    loss = served.current.loss(judged.view)
    row = detail_row(judged, served.current.orders(judged.view.key), _siblings(served, judged))
    return {**row, "loss": loss_row(loss) if loss is not None else None}


def _siblings(served: Served, judged: Judged) -> list[str]:
    about, key = judged.view.about, judged.view.key
    if about is None:
        return []
    same_batch = (one.view for one in served.current.judged(settled=True))
    return sorted(v.key for v in same_batch if v.about == about and v.key != key)


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


def table_answer(request: Request, columns: dict[str, pa.DataType], rows: Sequence[dict[str, Any]]) -> Response:
    """Return rows as JSON, or as an Arrow IPC stream where it is asked for."""
    if ARROW in request.headers.get("accept", ""):
        return Response(table_schemas.arrow_stream(columns, rows), media_type=ARROW)
    return JSONResponse({"rows": rows})
