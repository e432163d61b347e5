"""The charts on which a stretch of time can be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

import plotly.graph_objects as go

from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.series import ApplicationSeries, CheckpointGap, CheckpointGapsRow, Series

HEIGHT_PX = 220
LOST = "#c92a2a"
NAME_CHARACTERS, REASON_CHARACTERS = 40, 80
"""Of a name and of a reason, at most so many are shown."""

TIME_TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M"},
    {"dtickrange": [86_400_000, None], "value": "%d %b"},
]
"""The format of times on the axis by the ticks' distance in ms: no two ticks have the same text."""


def checkpoint_chart(rows: Sequence[CheckpointRow], gaps: Sequence[CheckpointGapsRow], zone: tzinfo) -> go.Figure:
    """Return durations over time, a line per pipeline that breaks where none came: that time is shaded and named.

    A failed checkpoint is a red cross at its time, a hung one a triangle at its beginning.
    """
    figure, by_name = go.Figure(), {row.pipeline: row for row in gaps}
    for pipeline in sorted({row.pipeline for row in rows}):
        _add_line(figure, pipeline, [row for row in rows if row.pipeline == pipeline], by_name.get(pipeline), zone)
    shown = {row.pipeline for row in rows}
    first_ms = min((row.started_at_ms or row.ended_at_ms or 0 for row in rows), default=0)
    for found in gaps:
        for gap in found.gaps if found.pipeline in shown else ():
            if gap.until_ms > first_ms:
                _shade(figure, found.pipeline if len(shown) > 1 else "", gap, zone)
    failed = [row for row in rows if row.state is CheckpointState.FAILED and (row.ended_at_ms or row.started_at_ms)]
    ended = [
        (row.ended_at_ms or row.started_at_ms or 0, row.duration_ms or 0, row.number, row.reason) for row in failed
    ]
    _add_checkpoints(figure, "failed", "x", ended, zone)
    hung = [one for found in gaps if found.pipeline in shown for one in found.hung if one.until_ms > first_ms]
    # On the axis: its length so far would flatten the others'. Its name has it.
    _add_checkpoints(
        figure, "hung", "triangle-up", [(one.started_at_ms, 0, one.number, one.name) for one in hung], zone
    )
    return _styled(figure).update_yaxes(ticksuffix=" s")


def waiting_chart(series: Series, row: ApplicationSeries, zone: tzinfo) -> go.Figure:
    """Return for how long readers waited for an application, over time; where nothing was observed the line breaks."""
    figure = go.Figure()
    figure.add_scatter(
        x=[chart_moment(series.from_ms + place * series.bucket_ms, zone) for place in range(len(row.longest_wait_ms))],
        y=[None if value is None else value / 1000 for value in row.longest_wait_ms],
        mode="lines+markers",
        connectgaps=False,
        line={"width": 1.5, "color": LOST},
        marker={"size": 4},
        name="longest wait",
        hovertemplate="%{y:.1f} s<br>%{x|%H:%M:%S}",
    )
    return _styled(figure).update_yaxes(ticksuffix=" s")


def _add_line(
    figure: go.Figure, pipeline: str, rows: Sequence[CheckpointRow], gaps: CheckpointGapsRow | None, zone: tzinfo
) -> None:
    done = sorted(
        (row.ended_at_ms, row.duration_ms / 1000, row.number)
        for row in rows
        if row.ended_at_ms is not None and row.duration_ms is not None and row.state is CheckpointState.COMPLETED
    )
    at: list[datetime | None] = []
    lengths: list[float | None] = []
    numbers: list[int | None] = []
    before_ms: int | None = None
    for ended_ms, length_s, number in done:
        between = gaps is not None and before_ms is not None and any(
            gap.from_ms >= before_ms and gap.until_ms <= ended_ms for gap in gaps.gaps
        )  # fmt: skip
        if between:
            # A point without a value breaks the line.
            at, lengths, numbers = [*at, None], [*lengths, None], [*numbers, None]
        at, lengths, numbers = [*at, chart_moment(ended_ms, zone)], [*lengths, length_s], [*numbers, number]
        before_ms = ended_ms
    figure.add_scatter(
        x=at,
        y=lengths,
        customdata=numbers,
        mode="lines+markers",
        connectgaps=False,
        line={"width": 1.5},
        marker={"size": 4},
        name=_shortened(pipeline),
        hovertemplate="checkpoint %{customdata} · %{y:.2f} s<br>%{x|%H:%M:%S}",
    )


def _shade(figure: go.Figure, pipeline: str, gap: CheckpointGap, zone: tzinfo) -> None:
    name = f"{_shortened(pipeline)}: {gap.name}" if pipeline else gap.name
    figure.add_vrect(
        x0=chart_moment(gap.from_ms, zone),
        x1=chart_moment(gap.until_ms, zone),
        fillcolor=LOST if gap.observed else "#8a94a3",
        opacity=0.18,
        line_width=0,
        annotation={"text": name, "font": {"size": 11}, "textangle": 0},
        annotation_position="top left",
    )


def _add_checkpoints(
    figure: go.Figure, name: str, symbol: str, checkpoints: Sequence[tuple[int, int, int, str]], zone: tzinfo
) -> None:
    """Add one mark for each (time, length in ms, number, why)."""
    if not checkpoints:
        return
    figure.add_scatter(
        x=[chart_moment(at_ms, zone) for at_ms, _, _, _ in checkpoints],
        y=[length_ms / 1000 for _, length_ms, _, _ in checkpoints],
        customdata=[[number, _begun(why)] for _, _, number, why in checkpoints],
        mode="markers",
        marker={"symbol": symbol, "size": 11, "color": LOST},
        name=name,
        hovertemplate="checkpoint %{customdata[0]} " + name + "<br>%{customdata[1]}<br>%{x|%H:%M:%S}",
    )


def chart_moment(at_ms: int, zone: tzinfo) -> datetime:
    """Return a time as a chart's axis has it, in the reader's zone."""
    # Plotly draws times without a zone unchanged, so the user's zone is applied here.
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)


def _shortened(name: str) -> str:
    """Return a name that fits: cut in the middle, because its end tells it from its siblings."""
    end = NAME_CHARACTERS // 2
    return _escaped(name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1 - end]}…{name[-end:]}")


def _begun(sentence: str) -> str:
    return _escaped(sentence if len(sentence) <= REASON_CHARACTERS else f"{sentence[: REASON_CHARACTERS - 1]}…")


def _escaped(text: str) -> str:
    # Plotly reads some HTML: the characters that start a tag are written as entities.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _styled(figure: go.Figure) -> go.Figure:
    figure.update_layout(
        height=HEIGHT_PX,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "y": 1.02, "x": 0, "yanchor": "bottom", "traceorder": "normal"},
        showlegend=True,
        hovermode="closest",
        hoverlabel={"namelength": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
    )
    figure.update_yaxes(rangemode="tozero", nticks=5)
    return figure.update_xaxes(tickformatstops=TIME_TICKS, title=None)
