"""Applications over time: small plots below the overview, and on the page of one application."""

from __future__ import annotations

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components.application_plots import COLUMNS, application_row, is_quiet
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.small_plots import axis_line
from indoubt.app.components.time_text import at
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import HOUR_MS, MINUTE_MS
from indoubt.lifecycle.rows.series import Series, SeriesGap

WINDOWS = {"15 min": 15 * MINUTE_MS, "1 h": HOUR_MS, "6 h": 6 * HOUR_MS, "24 h": 24 * HOUR_MS}
SHORTEST, WINDOW = "15 min", "1 h"
KEPT_S = 5.0
"""What changes sooner is the last commit alone, and the last of the buckets."""
MOST_APPLICATIONS = 8


def show(pipeline: str = "") -> None:
    """Write the choice of the time and the plots; ``pipeline``: of this application only."""
    first = first_window(live.collector())
    window = st.segmented_control("Time shown", list(WINDOWS), default=first, required=True, key="window",
                                  label_visibility="collapsed", bind="query-params")  # fmt: skip
    with st.container(key="over-time"):
        show_region("over-time", {"window": window or first, "pipeline": pipeline})


def picture() -> None:
    """Write the plots of all applications beside a list; a phone shows them behind it."""
    with st.container(key="plots-beside-list"):
        show_region("over-time", {"window": first_window(live.collector()), "pipeline": ""})


def first_window(client: CollectorClient) -> str:
    """Return the time that is shown until another one is chosen: the shortest while there is no more to show."""
    try:
        seen = client.series(window_ms=WINDOWS[SHORTEST], limit=1)
    except CollectorError:
        return WINDOW  # the region says why
    return SHORTEST if any(gap.from_ms <= seen.from_ms for gap in seen.gaps) else WINDOW


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a block for each application, those that lost data or made readers wait first, and the times of their axis."""
    pipeline, window_ms = query.get("pipeline", ""), WINDOWS.get(query.get("window", ""), WINDOWS[WINDOW])
    series = client.series(window_ms=window_ms, pipeline=pipeline, limit=MOST_APPLICATIONS)
    gaps = {row.pipeline: row for row in client.checkpoint_gaps(pipeline=pipeline)}
    shown = [row for row in series.applications if pipeline or not is_quiet(row, series)]
    content: RegionContent = {"head": _head(series, len(shown))}
    for row in shown:
        content[f"of-{widget_token(row.pipeline)}"] = application_row(series, row, gaps.get(row.pipeline))
    if shown:
        content["axis"] = axis_line(series, COLUMNS)
    return content


def _head(series: Series, shown: int) -> Html:
    if not shown:
        return el("p", "No transaction ended in this time, and no reader waited.", class_="empty")
    more = series.more + len(series.applications) - shown
    left_out = more > 0 and el("span", f"{counted(more, 'quieter application')} not shown")
    gaps = _gaps(series)
    return el("p", left_out, *gaps, class_="facts-line") if left_out or gaps else Html("")


def _gaps(series: Series) -> list[Html]:
    """Return before when there is no data, then the newest other times without."""
    before_ms, why = series.from_ms, ""
    others: list[SeriesGap] = []
    for gap in series.gaps:
        if gap.from_ms > before_ms:
            others.append(gap)
        elif gap.until_ms > before_ms:
            before_ms, why = gap.until_ms, why or gap.text.partition(": ")[2]
    said = [el("span", at(gap.from_ms), f": {gap.text}") for gap in others[-2:]]
    if before_ms > series.from_ms:
        said.insert(0, el("span", "no data before ", at(before_ms), f": {why}" if why else ""))
    return said
