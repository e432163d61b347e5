"""The figures. Colours tell apart for the colour-blind, and hatching says the same again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

import plotly.graph_objects as go

from app.collector_rows import Abort, AbortCause, CheckpointRow, Minute
from lifecycle.checkpoints import CheckpointState

HEIGHT_PX = 220
LEAST_SPAN_MS = 30 * 60_000
"""How much time the axis of aborts shows at least."""
COMMITTED, ABORTED, LOST = "#2b8cbe", "#e6a117", "#c92a2a"
CAUSES: dict[AbortCause, tuple[str, str]] = {
    AbortCause.TIMEOUT: ("#c92a2a", "x"),
    AbortCause.FENCED: ("#7b5ea7", "/"),
    AbortCause.CLIENT: ("#e6a117", ""),
    AbortCause.OPERATOR: ("#2b8cbe", "\\"),
    AbortCause.UNKNOWN: ("#8a94a3", "."),
}
"""Colour and hatching of each cause."""

TIME_TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M"},
    {"dtickrange": [86_400_000, None], "value": "%d %b"},
]
"""Times on the axis as exact as their distance in ms asks for: no two ticks read the same."""


def per_minute_chart(minutes: Sequence[Minute], zone: tzinfo) -> go.Figure:
    """Return stacked bars: transactions per minute by outcome, oldest first."""
    at = [_moment(minute.minute_ms, zone) for minute in minutes]
    figure = go.Figure()
    for name, colour, shape, values in (
        ("committed", COMMITTED, "", [minute.committed for minute in minutes]),
        ("aborted", ABORTED, "/", [minute.aborted for minute in minutes]),
        ("lost", LOST, "x", [minute.lost for minute in minutes]),
    ):
        figure.add_bar(
            x=at, y=values, name=name, marker=_marker(colour, shape), hovertemplate="%{x|%H:%M} · %{y} " + name
        )
    most = max((minute.committed + minute.aborted + minute.lost for minute in minutes), default=0)
    return _styled(figure, "transactions", most)


def abort_chart(aborts: Iterable[Abort], zone: tzinfo) -> go.Figure:
    """Return stacked bars: aborts per minute by cause; each bar's customdata is its cause."""
    counts = Counter((one.at_ms // 60_000 * 60_000, one.cause) for one in aborts)
    minutes = sorted({minute_ms for minute_ms, _ in counts})
    figure = go.Figure()
    for cause, (colour, shape) in CAUSES.items():
        found = [minute_ms for minute_ms in minutes if counts[minute_ms, cause]]
        if not found:
            continue
        figure.add_bar(
            x=[_moment(minute_ms, zone) for minute_ms in found],
            y=[counts[minute_ms, cause] for minute_ms in found],
            width=50_000,
            name=cause.value,
            customdata=[cause.value] * len(found),
            marker=_marker(colour, shape),
            hovertemplate="%{x|%d %b %H:%M} · %{y} " + cause.value,
        )
    most = max((sum(counts[minute_ms, cause] for cause in CAUSES) for minute_ms in minutes), default=0)
    styled = _styled(figure, "aborted or lost", most)
    if minutes and minutes[-1] - minutes[0] < LEAST_SPAN_MS:
        # By itself the axis would end with its bars, and a single minute fill the page.
        ends = (minutes[-1] + 60_000 - LEAST_SPAN_MS, minutes[-1] + 60_000)
        styled.update_xaxes(range=[_moment(end, zone) for end in ends])
    return styled


def checkpoint_chart(rows: Sequence[CheckpointRow], zone: tzinfo) -> go.Figure:
    """Return durations over time, one line per pipeline; a failed checkpoint is a red cross at its time."""
    figure = go.Figure()
    for pipeline in sorted({row.pipeline for row in rows}):
        done = sorted(
            (row.ended_at_ms, row.duration_ms / 1000, row.number)
            for row in rows
            if row.pipeline == pipeline and row.ended_at_ms is not None and row.duration_ms is not None
            and row.state is CheckpointState.COMPLETED
        )  # fmt: skip
        figure.add_scatter(
            x=[_moment(at_ms, zone) for at_ms, _, _ in done],
            y=[length_s for _, length_s, _ in done],
            customdata=[number for _, _, number in done],
            mode="lines+markers",
            line={"width": 1.5},
            marker={"size": 4},
            name=_shortened(pipeline),
            hovertemplate="checkpoint %{customdata} · %{y:.2f} s<br>%{x|%H:%M:%S}",
        )
    failed = [row for row in rows if row.state is CheckpointState.FAILED and (row.ended_at_ms or row.started_at_ms)]
    if failed:
        figure.add_scatter(
            x=[_moment(row.ended_at_ms or row.started_at_ms or 0, zone) for row in failed],
            y=[(row.duration_ms or 0) / 1000 for row in failed],
            customdata=[row.number for row in failed],
            mode="markers",
            marker={"symbol": "x", "size": 11, "color": LOST},
            name="failed",
            hovertemplate="checkpoint %{customdata} failed<br>%{x|%H:%M:%S}",
        )
    return _styled(figure).update_yaxes(ticksuffix=" s")


def _moment(at_ms: int, zone: tzinfo) -> datetime:
    # Plotly draws times without a zone as they are: the reader's zone is applied here.
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)


def _marker(colour: str, shape: str) -> dict[str, object]:
    return {"color": colour, "pattern": {"shape": shape, "size": 5, "solidity": 0.35}, "line": {"width": 0}}


def _shortened(name: str, most: int = 40) -> str:
    # Plotly reads a little HTML in names: the signs that would start a tag are written as entities.
    short = name if len(name) <= most else name[: most - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _styled(figure: go.Figure, counted: str = "", most: int = 0) -> go.Figure:
    figure.update_layout(
        barmode="stack",
        bargap=0.15,
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
    if counted:
        # Counts are whole: below five, one line each.
        step = {"dtick": 1} if most < 5 else {}
        figure.update_yaxes(title={"text": counted, "font": {"size": 11}}, tickformat=",d", **step)
    return figure.update_xaxes(tickformatstops=TIME_TICKS, title=None)
