"""The charts: what their axes show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.components.charts import MIN_SPAN_MS, abort_chart
from lifecycle.rows.ends import AbortRow
from lifecycle.states import TransactionState
from lifecycle.verdicts import AbortCause

T0 = 1_795_000_020_000
MINUTE_MS = 60_000


def aborted(at_ms: int) -> AbortRow:
    return AbortRow(
        key=f"kafka:orders-7:7:3@{at_ms}",
        transaction="orders-7",
        pipeline="",
        batch=None,
        slot=None,
        cause=AbortCause.TIMEOUT,
        certainty="certain",
        verdict=TransactionState.ABORTED,
        at_ms=at_ms,
        open_ms=60_000,
        rows=None,
    )


@pytest.mark.parametrize("minutes", [[0], [0, 3], [0, 29]])
def test_aborts_of_a_few_minutes_do_not_fill_the_page(minutes: list[int]) -> None:
    chart = abort_chart([aborted(T0 + minute * MINUTE_MS) for minute in minutes], UTC)
    begin, end = chart.layout.xaxis.range
    assert end - begin == timedelta(milliseconds=MIN_SPAN_MS)
    assert begin <= datetime.fromtimestamp(T0 / 1000, UTC).replace(tzinfo=begin.tzinfo)
    newest = datetime.fromtimestamp((T0 + minutes[-1] * MINUTE_MS) / 1000, UTC).replace(tzinfo=begin.tzinfo)
    assert newest < end


def test_the_axis_of_longer_histories_is_where_their_bars_are() -> None:
    assert abort_chart([aborted(T0), aborted(T0 + MIN_SPAN_MS)], UTC).layout.xaxis.range is None
