"""Applications over time: small plots below the overview, and on the page of one application."""

from __future__ import annotations

import streamlit as st

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.small_plots import application_plots, checkpoint_plot
from indoubt.app.components.time_text import at
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import HOUR_MS, MINUTE_MS
from indoubt.lifecycle.rows.series import ApplicationSeries, Series

WINDOWS = {"15 min": 15 * MINUTE_MS, "1 h": HOUR_MS, "6 h": 6 * HOUR_MS, "24 h": 24 * HOUR_MS}
WINDOW = "1 h"
KEPT_S = 10.0
"""No bucket is shorter."""
MOST_APPLICATIONS = 8
CHECKPOINTS_LOOKED_AT = 500


def show(pipeline: str = "") -> None:
    """Write the choice of the time and the plots; ``pipeline``: of this application only."""
    window = st.segmented_control("Time shown", list(WINDOWS), default=WINDOW, required=True, key="window",
                                  label_visibility="collapsed", bind="query-params")  # fmt: skip
    with st.container(key="over-time"):
        show_region("over-time", {"window": window or WINDOW, "pipeline": pipeline})


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a block for each application, those that lost data or made readers wait first."""
    pipeline, window_ms = query.get("pipeline", ""), WINDOWS.get(query.get("window", ""), WINDOWS[WINDOW])
    series = client.series(window_ms=window_ms, pipeline=pipeline, limit=MOST_APPLICATIONS)
    gaps = {row.pipeline: row for row in client.checkpoint_gaps(pipeline=pipeline)}
    content: RegionContent = {"head": _head(series)}
    for row in series.applications:
        plots: list[object] = [application_plots(series, row)]
        if row.pipeline in gaps:
            checkpoints = client.checkpoints(pipeline=row.pipeline, limit=CHECKPOINTS_LOOKED_AT)
            plots.append(checkpoint_plot(checkpoints, gaps[row.pipeline], series))
        content[f"of-{widget_token(row.pipeline)}"] = el("section", _name(row), *plots, class_="series")
    return content


def _head(series: Series) -> Html:
    if not series.applications:
        return el("p", "No transaction ended in this time, and no reader waited.", class_="empty")
    gaps = [el("span", gap.text, " from ", at(gap.from_ms), " to ", at(gap.until_ms)) for gap in series.gaps[-3:]]
    more = series.more > 0 and el("span", f"{counted(series.more, 'quieter application')} not shown")
    return el("p", el("span", "Since ", at(series.from_ms)), more, *gaps, class_="facts-line")


def _name(row: ApplicationSeries) -> Html:
    if not row.pipeline:
        return el(
            "h3", "Holder not known", el("small", " records are hidden, and no transaction is known that hides them")
        )
    return el("h3", link(page_paths.pipeline(row.pipeline), row.pipeline))
