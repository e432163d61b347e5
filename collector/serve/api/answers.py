"""What the API answers where all is well: one row, or a table's page of rows, as JSON.

Each row says of which cluster it is, where that has a name, so that rows of several collectors can be put together. The column is
not called ``cluster``: a job of Flink has one of its own, and GET /status Kafka's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import orjson
from fastapi.responses import Response
from pydantic import Field

from indoubt.collector.serve.api.paging import Page
from indoubt.lifecycle.page_paths import CLUSTER_COLUMN
from indoubt.lifecycle.rows.row_json import fields_of

CLUSTER_NAME: ContextVar[str] = ContextVar("cluster_name", default="")
"""What the collector that answers this request was told to call its cluster, or empty."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Row]):
    """A page of a table: its rows, how many more there are behind them, and the cursor of the next page."""

    rows: Sequence[Row]
    more: Annotated[int, Field(ge=0)]
    next: str | None


def table_answer(page: Page) -> Response:
    """Return a page as JSON."""
    return _answer(Table(rows=[_of_cluster(row) for row in page.rows], more=page.more, next=page.next))


def row_answer(row: Any) -> Response:
    """Return one row as JSON."""
    return _answer(_of_cluster(row))


def _of_cluster(row: Any) -> Any:
    name = CLUSTER_NAME.get()
    return {CLUSTER_COLUMN: name, **fields_of(row)} if name else row


def _answer(content: Any) -> Response:
    return Response(orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS), media_type="application/json")
