"""The API's search over all history."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import Response

from indoubt.collector.serve.api.answers import Table, table_answer
from indoubt.collector.serve.api.dependencies import ApiDependencies, caller_of_request
from indoubt.collector.serve.api.paging import Page, place_of
from indoubt.collector.serve.api.table_routes import After
from indoubt.collector.views.search import SearchQuery, search
from indoubt.collector.views.transaction_rows import found_row
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.search import FoundTransactionRow, SearchOutcome
from indoubt.lifecycle.verdicts import AbortCause

MOST = 1_000
Moment = Annotated[int, Query(ge=0, le=MAX_WHOLE_NUMBER)]


def serve(app: FastAPI, dependencies: ApiDependencies) -> None:
    """Add the route."""

    @app.get("/api/v1/search", response_model=Table[FoundTransactionRow], dependencies=[Depends(caller_of_request)])
    def found(
        transaction: str = "",
        pipeline: str = "",
        topic: str = "",
        group: str = "",
        outcome: SearchOutcome | None = None,
        cause: AbortCause | None = None,
        since_ms: Moment = 0,
        until_ms: Moment = MAX_WHOLE_NUMBER,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
        after: After = None,
    ) -> Response:
        query = SearchQuery(
            transaction=transaction,
            pipeline=pipeline,
            partitions=_partitions(dependencies, topic, group) if topic or group else None,
            outcome=outcome,
            cause=cause,
            since_ms=since_ms,
            until_ms=until_ms,
            limit=limit,
            after=place_of(after, int, int, str),
        )
        page = search(dependencies.current, dependencies.store, query)
        rows = [found_row(each) for each in page.found]
        # How many are behind it is not counted: that would take as long as to read them all.
        return table_answer(Page(rows=rows, more=int(page.next_place is not None), last=page.next_place))


def _partitions(dependencies: ApiDependencies, topic: str, group: str) -> Collection[str]:
    """Return the partitions of a topic, or those that a group reads, or what both have in common.

    Raises HTTPException 422 for a group that was never seen: "found nothing" would be a lie.
    """
    names = dependencies.store.partition_names.all()
    known: Collection[str] = [name for name in names if name.rpartition("-")[0] == topic]
    if not group:
        return known
    read_by = dependencies.partitions().read_by
    if group not in read_by:
        raise HTTPException(
            422, f"parameter 'group': consumer group {group!r} has no committed offsets that the collector knows of"
        )
    read = {"{}-{}".format(*partition) for partition in read_by[group]}
    return read.intersection(known) if topic else read
