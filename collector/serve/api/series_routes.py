"""The API's part about time: applications, groups and a partition in buckets, and what is wrong with checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path, Query
from fastapi.responses import Response

from indoubt.collector.history.rollups import MINUTES_KEPT_MS
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.serve.api.answers import Table, row_answer, table_answer
from indoubt.collector.serve.api.dependencies import ApiDependencies, KnownCaller, caller_of_request
from indoubt.collector.serve.api.object_routes import MAX_PARTITION
from indoubt.collector.serve.api.paging import first, page, place_of
from indoubt.collector.serve.api.table_routes import After, Limit, Until
from indoubt.collector.views.aborts_and_losses import abort_counts
from indoubt.collector.views.checkpoints_over_time import cached_checkpoint_durations, cached_checkpoint_gaps
from indoubt.collector.views.partition_rows import group_rows
from indoubt.collector.views.series import cached_series, of_pipeline
from indoubt.collector.views.series_of_partitions import cached_groups, cached_partitions, of_groups
from indoubt.collector.views.time_buckets import Window
from indoubt.collector.views.trends import DAYS, cached_trends
from indoubt.collector.views.trends import of_pipeline as trends_of_pipeline
from indoubt.lifecycle.rows.ends import AbortCounts
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, PartitionSeries, SeriesOfGroups
from indoubt.lifecycle.rows.pipelines import CheckpointDurationsRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow, Series
from indoubt.lifecycle.rows.trends import Trends

MOST_APPLICATIONS = 200
GROUPS_KEPT_MS = 1_000
MOST_DAYS = 366


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the routes."""
    kept = dependencies.refresher.add(cached_series(dependencies.current, dependencies.store))
    gaps = cached_checkpoint_gaps(dependencies.current, dependencies.store)
    listed = dependencies.refresher.add(TtlCache(lambda _: group_rows(dependencies.partitions()), GROUPS_KEPT_MS))
    groups = dependencies.refresher.add(cached_groups(dependencies.store))
    partitions = cached_partitions(dependencies.current, dependencies.store)
    over_days = cached_trends(dependencies.store)
    durations = dependencies.refresher.add(cached_checkpoint_durations(dependencies.current))

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

    @app.get("/api/v1/trends", response_model=Trends)
    def trends(
        _: KnownCaller,
        pipeline: str | None = None,
        days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = DAYS,
        limit: Annotated[int, Query(ge=1, le=MOST_APPLICATIONS)] = 20,
    ) -> Response:
        return row_answer(trends_of_pipeline(over_days.at(now_ms(), days), pipeline, limit))

    @app.get("/api/v1/groups", response_model=Table[ConsumerGroupRow], dependencies=[Depends(caller_of_request)])
    def list_groups(limit: Limit = 500) -> Response:
        return table_answer(first(listed.at(now_ms()), limit))

    @app.get("/api/v1/series/groups", response_model=SeriesOfGroups)
    def series_of_groups(_: KnownCaller, window_ms: Window = Window.HOUR, limit: Limit = 500) -> Response:
        shown = {row.group for row in listed.at(now_ms())[:limit]}
        return row_answer(of_groups(groups.at(now_ms(), window_ms), shown))

    @app.get("/api/v1/series/partitions/{topic}/{number}", response_model=PartitionSeries)
    def series_of_partition(
        _: KnownCaller,
        topic: str,
        number: Annotated[int, Path(ge=0, le=MAX_PARTITION)],
        window_ms: Window = Window.HOUR,
    ) -> Response:
        return row_answer(partitions.at(now_ms(), topic, number, window_ms))

    @app.get(
        "/api/v1/checkpoints/gaps", response_model=Table[CheckpointGapsRow], dependencies=[Depends(caller_of_request)]
    )
    def checkpoint_gaps(pipeline: str | None = None, limit: Limit = 500, after: After = None) -> Response:
        found = [row for row in gaps.at(now_ms()) if pipeline in (None, row.pipeline)]
        shown = page(found, lambda row: (row.pipeline,), lambda row: row, limit, place_of(after, str))
        return table_answer(shown)

    @app.get(
        "/api/v1/checkpoints/durations",
        response_model=Table[CheckpointDurationsRow],
        dependencies=[Depends(caller_of_request)],
    )
    def checkpoint_durations(
        pipeline: str | None = None,
        since_ms: Until = None,
        until_ms: Until = None,
        limit: Limit = 500,
        after: After = None,
    ) -> Response:
        if since_ms is not None and until_ms is not None and since_ms > until_ms:
            raise HTTPException(422, "'since_ms' is later than 'until_ms'")
        found = durations.at(now_ms(), pipeline, since_ms, until_ms)
        shown = page(found, lambda row: (row.pipeline,), lambda row: row, limit, place_of(after, str))
        return table_answer(shown)

    @app.get("/api/v1/aborts/counts", response_model=AbortCounts)
    def counts(_: KnownCaller, pipeline: str | None = None, since_ms: Until = None, until_ms: Until = None) -> Response:
        if since_ms is not None and until_ms is not None and since_ms > until_ms:
            raise HTTPException(422, "'since_ms' is later than 'until_ms'")
        found = abort_counts(dependencies.current, dependencies.store, pipeline, since_ms, until_ms, now_ms())
        return row_answer(found)
