"""Counts over time: how long a bar is, what stands in it, and where it leads."""

from __future__ import annotations

import re
from datetime import UTC

import pytest

from indoubt.app.components.stacked_bars import MOST_BARS, Bars, stacked_bars
from indoubt.app.components.time_text import zone_named
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import DAY_MS, MINUTE_MS

T0 = 1_795_000_020_000
KINDS = {"timeout": "timeout", "fenced": "fenced", "dry_run": "dry run"}


def transactions(number: int) -> str:
    return counted(number, "transaction")


def drawn(*moments: tuple[int, str], zone: str = "UTC") -> str:
    def path(first_ms: int, last_ms: int) -> str:
        return f"/history?from={first_ms}&until={last_ms}"

    return stacked_bars(Bars.of(moments), KINDS, text=transactions, alt="aborts", zone=zone_named(zone), path=path)


def test_without_counts_nothing_is_drawn() -> None:
    nothing = Bars(from_ms=T0, length_ms=MINUTE_MS, bars=30, counts={})
    assert "figure" not in stacked_bars(nothing, KINDS, text=transactions, alt="aborts", zone=UTC)


@pytest.mark.parametrize("minutes", [[0], [0, 3], [0, 28]])
def test_a_few_minutes_do_not_fill_the_page(minutes: list[int]) -> None:
    page = drawn(*((T0 + minute * MINUTE_MS, "timeout") for minute in minutes))
    assert "--bars:30" in page
    assert page.count('class="stacked-bar"') == len(minutes)
    assert "each bar is 1 min 00 s" in page
    assert f"grid-column:{30 - minutes[-1]};" in page, "the axis ends with its newest bar"


@pytest.mark.parametrize("span_ms", [119 * MINUTE_MS, 2 * DAY_MS, 30 * DAY_MS, 900 * DAY_MS, 9_000 * DAY_MS])
def test_a_long_time_has_no_more_bars_than_fit(span_ms: int) -> None:
    page = drawn((T0 - span_ms, "timeout"), (T0, "timeout"))
    (bars,) = re.findall(r"--bars:(\d+)", page)
    assert 1 < int(bars) <= MOST_BARS
    assert "grid-column:1;" in page


def test_a_bar_has_a_part_for_each_kind_and_leads_to_its_time() -> None:
    moments = [(T0, "timeout"), (T0, "timeout"), (T0, "dry_run"), (T0 - 5 * MINUTE_MS, "timeout")]
    page = drawn(*moments)
    minute_ms = T0 // MINUTE_MS * MINUTE_MS
    assert f'href="/history?from={minute_ms}&amp;until={minute_ms + MINUTE_MS - 1}"' in page
    assert '<i class="kind-timeout" style="flex:2"></i><i class="kind-dry-run" style="flex:1"></i>' in page
    assert "2026-11-18 11:07:00.000 UTC: 2 timeout, 1 dry run" in page
    assert "timeout 3" in page
    assert "the highest has 3 transactions" in page
    assert "height:100.0%" in page
    assert "height:33.3%" in page
    assert "<a" not in stacked_bars(Bars.of(moments), KINDS, text=transactions, alt="orders", zone=UTC), (
        "it leads nowhere"
    )


def test_times_are_in_the_readers_zone() -> None:
    assert ">12:00<" in drawn((T0, "timeout"), zone="Europe/Berlin")
    assert ">11:00<" in drawn((T0, "timeout"))
