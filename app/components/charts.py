"""The charts. Colour-blind readers can tell the colours apart, and hatching repeats what a colour says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

import plotly.graph_objects as go

from lifecycle.checkpoints import CheckpointState
from lifecycle.rows.ends import AbortRow
from lifecycle.rows.overview import MinuteRow
from lifecycle.rows.pipelines import CheckpointRow
from lifecycle.verdicts import AbortCause

HEIGHT_PX = 220
MIN_SPAN_MS = 30 * 60_000
"""The shortest time that the axis of aborts covers."""
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
"""The format of times on the axis by the ticks' distance in ms: no two ticks have the same text."""


def per_minute_chart(minutes: Sequence[MinuteRow], zone: tzinfo) -> go.Figure:
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


def abort_chart(aborts: Iterable[AbortRow], zone: tzinfo) -> go.Figure:
    """Return stacked bars: aborts per minute by cause; each bar's customdata is its cause."""
    counts = Counter((abort.at_ms // 60_000 * 60_000, abort.cause) for abort in aborts if abort.at_ms is not None)
    minutes = sorted({minute_ms for minute_ms, _ in counts})
    figure = go.Figure()
    for cause, (colour, shape) in CAUSES.items():
        with_cause = [minute_ms for minute_ms in minutes if counts[minute_ms, cause]]
        if not with_cause:
            continue
        figure.add_bar(
            x=[_moment(minute_ms, zone) for minute_ms in with_cause],
            y=[counts[minute_ms, cause] for minute_ms in with_cause],
            width=50_000,
            name=cause.value,
            customdata=[cause.value] * len(with_cause),
            marker=_marker(colour, shape),
            hovertemplate="%{x|%d %b %H:%M} · %{y} " + cause.value,
        )
    most = max((sum(counts[minute_ms, cause] for cause in CAUSES) for minute_ms in minutes), default=0)
    styled = _styled(figure, "aborted or lost", most)
    if minutes and minutes[-1] - minutes[0] < MIN_SPAN_MS:
        # Without a range the axis ends with its bars, and a single minute fills the page.
        ends = (minutes[-1] + 60_000 - MIN_SPAN_MS, minutes[-1] + 60_000)
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
    # Plotly draws times without a zone unchanged, so the user's zone is applied here.
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)


def _marker(colour: str, shape: str) -> dict[str, object]:
    return {"color": colour, "pattern": {"shape": shape, "size": 5, "solidity": 0.35}, "line": {"width": 0}}


def _shortened(name: str, most: int = 40) -> str:
    # Plotly reads some HTML in names: the characters that start a tag are written as entities.
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
        # Counts are whole numbers: below five, each has its own line.
        step = {"dtick": 1} if most < 5 else {}
        figure.update_yaxes(title={"text": counted, "font": {"size": 11}}, tickformat=",d", **step)
    return figure.update_xaxes(tickformatstops=TIME_TICKS, title=None)
