"""Pipelines: how each stands, and the orders to its supervisor, restart and stop; and Flink's jobs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import list_menu
from indoubt.app.components.application_plots import COLUMNS, application_row, is_quiet
from indoubt.app.components.links_and_buttons import card_with_buttons, link, order_button
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.pipeline_standing import PipelineStanding
from indoubt.app.components.small_plots import axis_line
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import ago, amount, duration, exact
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent, kept_for
from indoubt.app.screens.over_time import KEPT_S, WINDOWS, first_window
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Attention, Remedy
from indoubt.lifecycle.rows.pipelines import JobRow, PipelineRow

MOST_SERIES = 100
_AXIS = ""
"""No pipeline is called so."""


def show() -> None:
    """Write the section."""
    list_menu.show("pipelines", live.collector().pipelines)
    with st.container(key="pipelines"):
        show_region("pipelines")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a card for each pipeline, one block each, then Flink's jobs."""
    rows = client.pipelines()
    # A batch that waits for a frozen driver is known before its silence is long enough to call it frozen.
    incidents = client.incidents()
    content: RegionContent = {
        "head": el("h3", "Pipelines", el("small", f" {counted(len(rows), 'pipeline')}" if rows else ""))
    }
    if not rows:
        text = "No pipeline of yours has ever run here. Other applications have no supervisor here: indoubt cannot restart them."
        content["none"] = el("p", text, class_="empty")
    plots = _kept_plots(client, {}) if rows else {}
    for pipeline in rows:
        token = widget_token(pipeline.key)
        content[f"pipeline-{token}"] = pipeline_card(PipelineStanding.of(pipeline, incidents))
        if pipeline.pipeline in plots:
            content[f"plots-{token}"] = plots[pipeline.pipeline]
    if plots:
        content["axis"] = plots[_AXIS]
    if rows.more:
        content["more"] = el("p", f"{counted(rows.more, 'other pipeline')} not shown.", class_="more")
    return content | _jobs(client)


def _plots(client: CollectorClient, query: Query) -> RegionContent:
    """Return the plots by pipeline, and the axis of them all."""
    series = client.series(window_ms=WINDOWS[first_window(client)], limit=MOST_SERIES)
    gaps = {row.pipeline: row for row in client.checkpoint_gaps()}
    plots = {
        row.pipeline: application_row(series, row, gaps.get(row.pipeline))
        for row in series.applications
        if row.managed and not is_quiet(row, series)
    }
    return plots | {_AXIS: axis_line(series, COLUMNS)} if plots else {}


_kept_plots = kept_for(KEPT_S, _plots)


def pipeline_buttons(pipeline: PipelineRow, needs: Attention | None) -> list[Html]:
    """Return the buttons of the orders about a pipeline; blue is the one that it needs.

    What does not run may be started; a frozen driver's supervisor reads an order to restart, as ``needs`` says. One that
    restarts already is offered no second restart, which would begin it anew.
    """
    stop = order_button("Stop", Action.STOP, "pipeline", [pipeline.key])
    if pipeline.restart is not None:
        return [stop]
    is_restarted = needs is not None and needs.remedy is Remedy.RESTART
    first = Action.START if pipeline.may_start and not is_restarted else Action.RESTART
    return [
        order_button(first.value.capitalize(), first, "pipeline", [pipeline.key], is_main=needs is not None),
        stop,
    ]


def pipeline_card(standing: PipelineStanding, *, is_listed: bool = True) -> Html:
    """Return how a pipeline stands, with its orders; in a list with its name, and a link to its page."""
    pipeline, where = standing.row, page_paths.pipeline(standing.row.pipeline)
    flow = f"{pipeline.source} → {pipeline.sink}" if pipeline.source and pipeline.sink else "source and sink unknown"
    how_often = f", a checkpoint every {duration(pipeline.interval_ms)}" if pipeline.interval_ms else ""
    heartbeat = f": {pipeline.last_heartbeat or 'none'}"
    name = is_listed and link(where, el("b", pipeline.pipeline, class_="name"))
    text = el(
        "div",
        el("div", standing.badge(), name, class_="title"),
        standing.why and el("div", standing.why, class_="why"),
        standing.under_way,
        el("div", flow, how_often),
        el("div", el("span", f"run {pipeline.attempt}, started ", ago(pipeline.run_at_ms)), class_="facts-line"),
        el("div", el("span", "last heartbeat ", ago(pipeline.last_seen_at_ms), heartbeat), class_="facts-line"),
        class_="said",
    )
    opening = is_listed and link(where, "Open", class_="press", is_opening=True)
    return card_with_buttons(standing.tone, text, buttons=[*pipeline_buttons(pipeline, standing.needs), opening])


def _jobs(client: CollectorClient) -> RegionContent:
    jobs = client.jobs()
    if not jobs:
        return {}
    more = f", {counted(jobs.more, 'other job')} not shown" if jobs.more else ""
    head = el("h3", "Flink jobs", el("small", f" {counted(len(jobs), 'job')}{more}; control them in Flink"))
    return {"jobs-head": head, "jobs": _table_of_jobs(jobs)}


def _table_of_jobs(jobs: Sequence[JobRow]) -> Html:
    return table(
        ["Job", "State", "Cluster", "Started", "Ended", "Restarts", "Last restored from"],
        [
            [
                [el("div", link(page_paths.pipeline(job.pipeline), job.name)), el("small", el("code", job.job))],
                job.state,
                job.cluster,
                exact(job.started_at_ms),
                exact(job.ended_at_ms),
                amount(job.restarts),
                _restored(job),
            ]
            for job in jobs
        ],
    )


def _restored(job: JobRow) -> Html:
    if job.restored_from is None:
        return el("span", "–")
    return el("span", f"checkpoint {job.restored_from}, ", exact(job.restored_at_ms))
