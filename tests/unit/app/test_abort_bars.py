"""Aborts over time: how long a bar is, what stands in it, and where it leads."""

from __future__ import annotations

import re
from datetime import UTC

import pytest

from indoubt.app.components.abort_bars import MOST_BARS, abort_bars
from indoubt.app.components.time_text import zone_named
from indoubt.lifecycle.durations import DAY_MS, MINUTE_MS
from indoubt.lifecycle.rows.ends import AbortRow
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import AbortCause

T0 = 1_795_000_020_000


def aborted(at_ms: int | None, cause: AbortCause = AbortCause.TIMEOUT) -> AbortRow:
    return AbortRow(
        key=f"kafka:orders-7:7:3@{at_ms}",
        transaction="orders-7",
        pipeline="",
        batch=None,
        slot=None,
        cause=cause,
        certainty="certain",
        verdict=TransactionState.ABORTED,
        at_ms=at_ms,
        open_ms=60_000,
        rows=None,
    )


def drawn(*aborts: AbortRow) -> str:
    return str(abort_bars(aborts, UTC, lambda first_ms, last_ms: f"/history?from={first_ms}&until={last_ms}"))


def test_nothing_is_drawn_without_a_time():
    assert "figure" not in drawn()
    assert "figure" not in drawn(aborted(None))


@pytest.mark.parametrize("minutes", [[0], [0, 3], [0, 28]])
def test_aborts_of_a_few_minutes_do_not_fill_the_page(minutes):
    page = drawn(*(aborted(T0 + minute * MINUTE_MS) for minute in minutes))
    assert "--bars:30" in page
    assert page.count('class="abort-bar"') == len(minutes)
    assert "each bar is 1 min 00 s" in page
    assert f"grid-column:{30 - minutes[-1]};" in page, "the axis ends with its newest bar"


@pytest.mark.parametrize("span_ms", [119 * MINUTE_MS, 2 * DAY_MS, 30 * DAY_MS, 900 * DAY_MS, 9_000 * DAY_MS])
def test_a_long_time_has_no_more_bars_than_fit(span_ms):
    page = drawn(aborted(T0 - span_ms), aborted(T0))
    (bars,) = re.findall(r"--bars:(\d+)", page)
    assert 1 < int(bars) <= MOST_BARS
    assert "grid-column:1;" in page


def test_a_bar_has_a_part_for_each_cause_and_leads_to_its_time():
    causes = [AbortCause.TIMEOUT, AbortCause.TIMEOUT, AbortCause.FENCED]
    page = drawn(*(aborted(T0, cause) for cause in causes), aborted(T0 - 5 * MINUTE_MS))
    minute_ms = T0 // MINUTE_MS * MINUTE_MS
    assert f'href="/history?from={minute_ms}&amp;until={minute_ms + MINUTE_MS - 1}"' in page
    assert '<i class="cause-timeout" style="flex:2"></i><i class="cause-fenced" style="flex:1"></i>' in page
    assert "2026-11-18 11:07:00.000 UTC: 2 timeout, 1 fenced" in page
    assert "timeout 3" in page
    assert "the highest has 3 transactions" in page
    assert "height:100.0%" in page
    assert "height:33.3%" in page


def test_times_are_in_the_readers_zone():
    rows = [aborted(T0)]
    assert "12:08" in str(abort_bars(rows, zone_named("Europe/Berlin"), lambda *_: "/"))
