"""The picture of checkpoints: the line breaks in a gap, a gap is hatched and named, one long value flattens nothing."""

from __future__ import annotations

import re
from typing import Any

from indoubt.app.components.duration_plot import duration_plot
from indoubt.app.components.value_axis import FLATTENS, MOST_TICKS, ValueAxis
from indoubt.lifecycle.rows.pipelines import CheckpointDurationsRow
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.series import CheckpointGapsRow
from tests.unit.app.contract_pipeline_rows import checkpoint_durations, checkpoint_gap, checkpoint_gaps

T0 = checkpoint_durations()["from_ms"]
MINUTE_MS = 60_000


def plot(*gaps: dict[str, Any], failures: int = 0, **changes: Any) -> str:
    failed = [
        {"number": n, "at_ms": T0 + 5 * MINUTE_MS + n, "failures": 1, "reason": "no <space>"} for n in range(failures)
    ]
    found = read_row(CheckpointGapsRow, checkpoint_gaps(gaps=list(gaps), failures=failed))
    row = read_row(CheckpointDurationsRow, checkpoint_durations(**changes))
    return duration_plot(row, found, lambda first_ms, last_ms: f"/pipelines?from={first_ms}&until={last_ms}")


def line(markup: str) -> str:
    return re.findall(r'd="([^"]*)" class="line-of"', markup)[0]


def test_the_line_breaks_in_a_gap_that_is_hatched_and_named_in_its_own_place() -> None:
    gap = checkpoint_gap(T0 + 2 * MINUTE_MS, T0 + 4 * MINUTE_MS)
    lengths = [None if place in (2, 3) else 1_000 for place in range(10)]
    drawn = plot(gap, bucket_p50_ms=lengths, bucket_longest_ms=lengths)
    assert line(drawn).count("M") == 2
    assert line(plot(bucket_p50_ms=lengths, bucket_longest_ms=lengths)).count("M") == 1, "no checkpoint was due"
    assert 'class="gap-span over" style="left:20.00%;width:20.00%"' in drawn
    assert "<span>no checkpoint for 120 s</span>" in drawn
    assert "ongoing" not in drawn


def test_a_narrow_gap_is_named_below_and_of_many_the_newest() -> None:
    gaps = [checkpoint_gap(T0 + place * MINUTE_MS, T0 + place * MINUTE_MS + 20_000) for place in range(8)]
    drawn = plot(*gaps)
    assert drawn.count("gap-span") == 8
    assert "<span>no checkpoint" not in drawn, "there is no room for the name"
    assert drawn.count(": no checkpoint for 20 s (the driver was frozen)</small>") == 3
    assert "and 5 earlier gaps" in drawn


def test_what_goes_on_is_a_warning_and_what_nobody_looked_at_is_none() -> None:
    ongoing = plot(checkpoint_gap(T0 + 8 * MINUTE_MS, T0 + 10 * MINUTE_MS, ongoing=True))
    assert "gap-span ongoing" in ongoing
    assert "gap-name ongoing" in ongoing
    unseen = plot(checkpoint_gap(T0 + 8 * MINUTE_MS, T0 + 10 * MINUTE_MS, ongoing=True, observed=False))
    assert "gap-span unobserved" in unseen
    assert "gap-name ongoing" not in unseen


def test_failures_in_one_place_are_one_mark_that_says_how_many() -> None:
    drawn = plot(failures=3)
    assert drawn.count("moment failed") == 1
    assert "checkpoint 2 failed: no &lt;space&gt;, and 2 before it" in drawn
    assert "3 failures" in drawn


def test_one_long_value_makes_the_scale_logarithmic() -> None:
    assert "log scale" not in plot()
    drawn = plot(bucket_longest_ms=[1_000, 29_000, None, *[1_000] * 7])
    assert "log scale" in drawn
    axis = ValueAxis.of([700] * 9 + [29_000])
    assert axis.is_log
    assert axis.height(700) > 20, "the usual ones are seen"
    assert not ValueAxis.of([700, 700 * FLATTENS]).is_log


def test_labels_of_an_axis_are_few() -> None:
    for lengths in ([1], [700], [1, 1, 1, 10**9], [40, 40, 900_000], [59_999], [3_600_000, 7_000_000], []):
        assert 0 < ValueAxis.of(lengths).labels().count("<span") <= MOST_TICKS + 1, lengths


def test_what_was_before_memory_is_not_shown_as_without_checkpoints() -> None:
    drawn = plot(known_from_ms=T0 + 4 * MINUTE_MS)
    assert "no earlier one in memory" in drawn
    assert "not-kept" not in plot()


def test_each_part_of_the_time_can_be_pressed_and_each_value_is_said() -> None:
    drawn = plot()
    assert f"/pipelines?from={T0}&amp;until={T0 + 14_999}" in drawn
    (values,) = re.findall(r'data-values="([^"]*)"', drawn)
    assert values.split("|")[1:3] == ["12 completed, p50 1.0 s, longest 1.0 s", "none completed"]
