"""The charts on which a stretch of time can be drawn."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

import plotly.graph_objects as go

from indoubt.lifecycle.rows.series import ApplicationSeries, Series

HEIGHT_PX = 220
LOST = "#c92a2a"

TIME_TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M"},
    {"dtickrange": [86_400_000, None], "value": "%d %b"},
]
"""The format of times on the axis by the ticks' distance in ms: no two ticks have the same text."""


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


def chart_moment(at_ms: int, zone: tzinfo) -> datetime:
    """Return a time as a chart's axis has it, in the reader's zone."""
    # Plotly draws times without a zone unchanged, so the user's zone is applied here.
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).replace(tzinfo=None)


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
