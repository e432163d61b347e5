"""The axis that pictures stand on: round ticks in the reader's zone, few enough not to touch."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from indoubt.app.components.plot_axis import MOST_TICKS, PlotAxis

T0 = 1_795_000_000_000  # 2026-11-18 11:06:40 UTC
DAY_MS = 86_400_000


@pytest.mark.parametrize("length_ms", [7, 300, 4_700, 60_000, 1_000_000, 5_400_000, DAY_MS, 9 * DAY_MS, 400 * DAY_MS])
def test_a_ruler_has_few_labels_and_all_differ(length_ms: int) -> None:
    axis = PlotAxis(from_ms=T0, until_ms=T0 + length_ms, zone=UTC)
    step_ms, ticks = axis._ticks(0)
    assert 0 < len(ticks) <= MOST_TICKS + 1
    assert all(tick % step_ms == 0 for tick in ticks)
    labels = [axis._label(tick, step_ms) for tick in ticks]
    assert length_ms < 5_000 or len(set(labels)) == len(labels)


def test_a_tick_is_a_round_time_in_the_readers_zone() -> None:
    kathmandu = timezone(timedelta(hours=5, minutes=45))
    ruler = PlotAxis(from_ms=T0, until_ms=T0 + DAY_MS, zone=kathmandu).ruler()
    assert ">18:00<" in ruler
    assert ">19 Nov<" in ruler


def test_a_line_that_begins_at_zero_says_how_long_after_its_beginning_each_tick_is() -> None:
    ruler = PlotAxis(from_ms=T0, until_ms=T0 + 1_000).ruler_from_start()
    assert "2026-11-18 11:06:40.000 UTC" in ruler
    assert "+200 ms" in ruler


def test_what_is_outside_stands_at_the_end() -> None:
    axis = PlotAxis(from_ms=T0, until_ms=T0 + 100)
    assert [axis.place(T0 + place) for place in (-5, 25, 300)] == [0, 25, 100]
