"""The charts: what their axes show."""

from __future__ import annotations

from datetime import UTC

from indoubt.app.components.charts import checkpoint_chart
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.row_json import read_row
from indoubt.lifecycle.rows.series import CheckpointGapsRow
from tests.unit.app.contract_pipeline_rows import checkpoint, checkpoint_gap, checkpoint_gaps

T0 = 1_795_000_020_000
MINUTE_MS = 60_000


def completed(number: int, at_ms: int, **changes: object) -> CheckpointRow:
    return read_row(
        CheckpointRow, checkpoint(number, started_at_ms=at_ms - 900, ended_at_ms=at_ms, duration_ms=900, **changes)
    )


def gaps(**changes: object) -> CheckpointGapsRow:
    return read_row(CheckpointGapsRow, checkpoint_gaps(**changes))


def test_the_checkpoint_line_breaks_where_none_came_and_says_so() -> None:
    rows = [completed(1, T0), completed(2, T0 + 5_000), completed(3, T0 + 90_000)]
    without = gaps(gaps=[checkpoint_gap(T0 + 5_000, T0 + 90_000)])
    chart = checkpoint_chart(rows, [without], UTC)
    (line,) = chart.data
    assert list(line.customdata) == [1, 2, None, 3]
    assert line.y[2] is None
    assert line.connectgaps is False
    (shade,) = chart.layout.shapes
    assert (shade.x1 - shade.x0).total_seconds() == 85
    assert [note.text for note in chart.layout.annotations] == ["no checkpoint for 85 s"]
    assert list(checkpoint_chart(rows, [gaps()], UTC).data[0].customdata) == [1, 2, 3]


def test_failed_and_hung_checkpoints_are_marked_with_why() -> None:
    rows = [completed(1, T0), completed(2, T0 + 9_000, state="failed", reason="no space left")]
    hung = gaps(hung=[{"number": 3, "started_at_ms": T0 + 20_000, "until_ms": T0 + 80_000, "name": "hung for 60 s"}])
    by_name = {trace.name: trace for trace in checkpoint_chart(rows, [hung], UTC).data}
    assert list(map(tuple, by_name["failed"].customdata)) == [(2, "no space left")]
    assert list(map(tuple, by_name["hung"].customdata)) == [(3, "hung for 60 s")]
    assert by_name["hung"].y[0] == 0, "its length so far does not flatten the line"


def test_gaps_of_other_pipelines_do_not_shade_a_chart() -> None:
    other = gaps(pipeline="other", gaps=[checkpoint_gap(T0, T0 + 90_000)])
    assert not checkpoint_chart([completed(1, T0)], [other], UTC).layout.shapes


def test_a_long_name_keeps_its_end_in_a_chart() -> None:
    names = [f"orders-of-a-department-with-a-very-long-name-{number}" for number in (1, 2)]
    rows = [completed(number, T0 + number * 1000, pipeline=name) for name in names for number in range(3)]
    shown = [line.name for line in checkpoint_chart(rows, [], UTC).data]
    assert [name[-6:] for name in shown] == ["name-1", "name-2"]
    assert all(len(name) <= 40 for name in shown)
