"""The API's part about time: applications in buckets with marks and gaps, and what is wrong with checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import Response

from indoubt.collector.history.rollups import MINUTES_KEPT_MS
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.dependencies import ApiDependencies, KnownCaller, caller_of_request
from indoubt.collector.serve.api.paging import page, place_of
from indoubt.collector.serve.api.table_routes import After, Limit, Table, row_answer, table_answer
from indoubt.collector.views.series import Window, cached_checkpoint_gaps, cached_series, of_pipeline
from indoubt.lifecycle.rows.series import CheckpointGapsRow, Series

MOST_APPLICATIONS = 200


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the routes."""
    kept = dependencies.refresher.add(cached_series(dependencies.current, dependencies.store))
    gaps = cached_checkpoint_gaps(dependencies.current, dependencies.store)

    @app.get("/api/v1/series", response_model=Series)
    def series(
        _: KnownCaller,
        pipeline: str | None = None,
        window_ms: Window = Window.HOUR,
        until_ms: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_APPLICATIONS)] = 20,
    ) -> Response:
        if until_ms is not None and until_ms - window_ms < now_ms() - MINUTES_KEPT_MS:
            raise HTTPException(422, "'until_ms' is too early: minutes are kept for 30 days, later only hours are")
        return row_answer(of_pipeline(kept.at(now_ms(), window_ms, until_ms), pipeline, limit))

    @app.get(
        "/api/v1/checkpoints/gaps", response_model=Table[CheckpointGapsRow], dependencies=[Depends(caller_of_request)]
    )
    def checkpoint_gaps(pipeline: str | None = None, limit: Limit = 500, after: After = None) -> Response:
        found = [row for row in gaps.at(now_ms()) if pipeline in (None, row.pipeline)]
        shown = page(found, lambda row: (row.pipeline,), lambda row: row, limit, place_of(after, str))
        return table_answer(shown)
