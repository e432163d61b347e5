"""The API's tables: each answers a page of rows, in the order of docs/api.md, as JSON or as an Arrow stream."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pyarrow as pa
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from collector import listings, queries, table_schemas, undone
from collector.api_document import ARROW
from collector.clock import now_ms
from collector.id_rows import id_row
from collector.ordering.pipelines import pipeline_row
from collector.paging import Page, first, page, place_of
from collector.partition_rows import blocked_rows, hanging_rows
from collector.served import Served, caller_of_request
from collector.timeout_risk import by_risk
from collector.timeouts import LengthsNowAndThen, timeout_row, timeouts
from collector.transaction_rows import checkpoint_place, checkpoint_row, job_row

LIMIT_MOST = 100_000
CURSOR_MOST = 2_000
Limit = Annotated[int, Query(ge=1, le=LIMIT_MOST)]
After = Annotated[str | None, Query(max_length=CURSOR_MOST, description="The page behind it: what `next` was.")]


def serve(app: FastAPI, served: Served) -> None:
    """Add the routes of the tables."""
    _serve_transactions(app, served)
    _serve_pipelines(app, served)
    _serve_timeouts(app, served)
    _serve_partitions(app, served)
    _serve_records(app, served)


def _serve_transactions(app: FastAPI, served: Served) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/transactions", dependencies=protected)
    def transactions(
        request: Request,
        all: bool = False,
        verdict: str | None = None,
        pipeline: str | None = None,
        resource_manager: str | None = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        wanted = listings.Wanted(
            settled=all, verdict=verdict, pipeline=pipeline, resource_manager=resource_manager, limit=limit, after=after
        )
        return table_answer(request, table_schemas.TRANSACTIONS, listings.transactions(served.current, wanted))

    @app.get("/api/v1/aborts", dependencies=protected)
    def aborts(
        request: Request, since_ms: int = 0, cause: str | None = None, limit: Limit = 500, after: After = None
    ) -> Response:
        found = listings.aborts(served.current, since_ms=since_ms, cause=cause, limit=limit, after=after)
        return table_answer(request, table_schemas.ABORTS, found)

    @app.get("/api/v1/losses", dependencies=protected)
    def losses(
        request: Request,
        verdict: str | None = None,
        pipeline: str | None = None,
        transaction: str | None = None,
        all: bool = False,
        since_ms: int = 0,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        wanted = listings.Wanted(settled=all, verdict=verdict, pipeline=pipeline, limit=limit, after=after)
        found = listings.losses(served.current, served.store, wanted, transaction=transaction, since_ms=since_ms)
        return table_answer(request, table_schemas.LOSSES, found)


def _serve_pipelines(app: FastAPI, served: Served) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/batches", dependencies=protected)
    def batches(
        request: Request,
        pipeline: str | None = None,
        batch: int | None = None,
        verdict: str | None = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        wanted = listings.Wanted(verdict=verdict, pipeline=pipeline, limit=limit, after=after)
        return table_answer(request, table_schemas.BATCHES, listings.batches(served.current, wanted, batch))

    @app.get("/api/v1/checkpoints", dependencies=protected)
    def checkpoints(request: Request, pipeline: str | None = None, limit: Limit = 500, after: After = None) -> Response:
        found = [c for c in served.current.checkpoints() if pipeline in (None, c.pipeline)]
        of_batch = served.current.transactions_of_batches()
        behind = place_of(after, int, int, str, str, str)
        shown = page(
            found, checkpoint_place, lambda c: checkpoint_row(c, of_batch.get((c.pipeline, c.number))), limit, behind
        )
        return table_answer(request, table_schemas.CHECKPOINTS, shown)

    @app.get("/api/v1/jobs", dependencies=protected)
    def jobs(request: Request, limit: Limit = 500) -> Response:
        return table_answer(request, table_schemas.JOBS, first([job_row(one) for one in served.current.jobs()], limit))

    @app.get("/api/v1/pipelines", dependencies=protected)
    def pipelines(request: Request, pipeline: str | None = None, limit: Limit = 500) -> Response:
        found = [one for one in served.current.newest_runs() if pipeline in (None, one.facts.pipeline)]
        found.sort(key=lambda one: one.facts.pipeline)
        return table_answer(request, table_schemas.PIPELINES, first([pipeline_row(one) for one in found], limit))

    @app.get("/api/v1/ids", dependencies=protected)
    def ids(request: Request, limit: Limit = 500, after: After = None) -> Response:
        reports, behind = undone.id_reports(served.current), place_of(after, int, str)
        found = page(reports, lambda one: (-one.ids, one.prefix), id_row, limit, behind)
        return table_answer(request, table_schemas.IDS, found)


def _serve_timeouts(app: FastAPI, served: Served) -> None:
    lengths = LengthsNowAndThen(served.store)

    @app.get("/api/v1/timeouts", dependencies=[Depends(caller_of_request)])
    def risks(request: Request, pipeline: str | None = None, limit: Limit = 500, after: After = None) -> Response:
        known = timeouts(served.current, lengths, served.foreign_recovery_ms)
        found = [one for one in known if pipeline in (None, one.lengths.application)]
        shown = page(found, by_risk, timeout_row, limit, place_of(after, int, int, str))
        return table_answer(request, table_schemas.TIMEOUTS, shown)


def _serve_partitions(app: FastAPI, served: Served) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/blocked", dependencies=protected)
    def blocked(request: Request, all: bool = False, topic: str | None = None, limit: Limit = 500) -> Response:
        rows = blocked_rows(served.partitions(), now_ms(), every=all, topic=topic)
        return table_answer(request, table_schemas.BLOCKED, first(rows, limit))

    @app.get("/api/v1/hanging", dependencies=protected)
    def hanging(request: Request, limit: Limit = 500) -> Response:
        return table_answer(request, table_schemas.HANGING, first(hanging_rows(served.partitions()), limit))


def _serve_records(app: FastAPI, served: Served) -> None:
    protected = [Depends(caller_of_request)]

    @app.get("/api/v1/audit", dependencies=protected)
    def audit(request: Request, limit: Limit = 500, after: After = None) -> Response:
        before = place_of(after, int) or queries.AUDIT_FROM_NEWEST
        found = served.store.named_rows(queries.AUDIT, *before, limit)
        ((there,),) = served.store.rows(queries.AUDIT_BEFORE, *before)
        rows = [{**row, "keys": json.loads(row["keys"]), "evidence": json.loads(row["evidence"])} for row in found]
        last = (rows[-1]["audit"],) if rows else None
        return table_answer(request, table_schemas.AUDIT, Page(rows=rows, more=max(0, there - len(rows)), last=last))

    @app.get("/api/v1/malformed", dependencies=protected)
    def malformed(request: Request, limit: Limit = 500, after: After = None) -> Response:
        before = place_of(after, int, int, str, int) or queries.MALFORMED_FROM_NEWEST
        rows = served.store.named_rows(queries.MALFORMED, *before, limit)
        ((there,),) = served.store.rows(queries.MALFORMED_BEFORE, *before)
        last = tuple(rows[-1][name] for name in ("at_ms", "offset", "source", "partition")) if rows else None
        found = Page(rows=rows, more=max(0, there - len(rows)), last=last)
        return table_answer(request, table_schemas.MALFORMED, found)


def table_answer(request: Request, columns: dict[str, pa.DataType], found: Page) -> Response:
    """Return a page as JSON, or as an Arrow IPC stream where it is asked for: the rest is in its schema's metadata then."""
    rest: dict[str, Any] = {"more": found.more, "next": found.next}
    if ARROW in request.headers.get("accept", ""):
        return Response(table_schemas.arrow_stream(columns, found.rows, rest), media_type=ARROW)
    return JSONResponse({"rows": found.rows, **rest})
