"""Pipelines: the state that each reported last, and the orders to its supervisor, restart and stop; and Flink's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live
from app.components.markup import Html, el, widget_token
from app.components.time_text import amount, counted, duration, exact_time, since
from app.components.verdict_signs import UNKNOWN_SIGN, Tone, badge
from app.dialogs import pipeline_dialog
from app.dialogs.order_text import table
from lifecycle.rows.pipelines import JobRow, PipelineRow

BUTTONS_PX = 210
STATES = {
    "running": ("▸", Tone.GOOD, "its query runs"),
    "recovering": ("◌", Tone.CALM, "a new run settles what the run before it left; its query has not started yet"),
    "restarting": ("△", Tone.WARNING, "its driver ended; its supervisor starts the next run"),
    "stopped": ("■", Tone.NOTICE, "its supervisor ended too: only you can start it again"),
}
"""Sign, tone and meaning of a pipeline's state (docs/api.md)."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_pipelines, every_s=live.LIVE_EVERY_S)
    live.auto_refresh(_flink_jobs, every_s=live.CHARTS_EVERY_S)


def _pipelines() -> None:
    rows = live.collector().pipelines()
    live.write(el("h3", "Pipelines", el("small", f" {counted(len(rows), 'pipeline')}" if rows else "")))
    if not rows:
        live.write(el("p", "No run of a pipeline is in the decision log. Other applications have no supervisor, so indoubt cannot "
                      "restart them.", class_="empty"))  # fmt: skip
        return
    for pipeline in rows:
        _pipeline(pipeline, live.zone())
    if rows.more:
        live.write(el("p", f"{counted(rows.more, 'other pipeline')} not shown.", class_="more"))


def _pipeline(pipeline: PipelineRow, zone: tzinfo) -> None:
    token = widget_token(pipeline.key)
    with st.container(key=f"pipeline-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(pipeline, zone))
        with st.container(
            horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"pipeline-buttons-{token}"
        ):
            pipeline_dialog.buttons(pipeline)


def _card(pipeline: PipelineRow, zone: tzinfo) -> Html:
    sign, tone, meaning = STATES.get(pipeline.state, UNKNOWN_SIGN)
    title = el(
        "div", badge(sign, pipeline.state, tone, meaning), el("b", pipeline.pipeline, class_="name"), class_="title"
    )
    flow = f"{pipeline.source} → {pipeline.sink}" if pipeline.source and pipeline.sink else "source and sink unknown"
    how_often = f", a checkpoint every {duration(pipeline.interval_ms)}" if pipeline.interval_ms else ""
    run = el(
        "div",
        el("span", f"run {pipeline.attempt}, started ", since(pipeline.run_at_ms, zone), " ago"),
        class_="facts-line",
    )
    last_seen = el(
        "div",
        el(
            "span",
            "last heartbeat ",
            since(pipeline.last_seen_at_ms, zone),
            " ago: ",
            pipeline.last_heartbeat or "none",
        ),
        class_="facts-line",
    )
    text = el("div", title, el("div", flow, how_often), run, last_seen, class_="said")
    return el("div", text, class_=f"card {tone.value}")


def _flink_jobs() -> None:
    jobs = live.collector().jobs()
    if not jobs:
        return
    more = f", {counted(jobs.more, 'other job')} not shown" if jobs.more else ""
    live.write(el("h3", "Flink jobs", el("small", f" {counted(len(jobs), 'job')}{more}; control them in Flink")))
    with st.container(key="job-table"):
        live.write(_table_of_jobs(jobs, live.zone()))


def _table_of_jobs(jobs: Sequence[JobRow], zone: tzinfo) -> Html:
    return table(
        ["Job", "State", "Cluster", "Started", "Ended", "Restarts", "Last restored from"],
        [
            [
                [el("div", job.name), el("small", el("code", job.job))],
                job.state,
                job.cluster,
                exact_time(job.started_at_ms, zone),
                exact_time(job.ended_at_ms, zone),
                amount(job.restarts),
                _restored(job, zone),
            ]
            for job in jobs
        ],
    )


def _restored(job: JobRow, zone: tzinfo) -> str:
    if job.restored_from is None:
        return "–"
    return f"checkpoint {job.restored_from}, {exact_time(job.restored_at_ms, zone)}"
