"""Pipelines: what each told of itself last, and the orders to its supervisor: restart it, stop it; and Flink's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live, pipeline_dialog
from app.collector_rows import Pipeline
from app.job_rows import FlinkJob
from app.markup import Html, el, widget_token
from app.order_text import table
from app.time_text import amount, counted, duration, exact_time, since
from app.verdict_signs import Tone, badge

BUTTONS_PX = 210
_STATES = {
    "running": ("▸", Tone.GOOD, "its query runs"),
    "recovering": ("◌", Tone.CALM, "a run began and settles what the one before left; its query has not started yet"),
    "restarting": ("△", Tone.WARNING, "its driver ended; its supervisor starts the next run"),
    "stopped": ("■", Tone.NOTICE, "its supervisor ended too: nothing starts it again by itself"),
}
"""Sign, tone and meaning of what a pipeline told last (docs/api.md)."""


def show() -> None:
    """Write the page."""
    live.looked_again(_pipelines, every_s=live.LIVE_EVERY_S)
    live.looked_again(_flink_jobs, every_s=live.CHARTS_EVERY_S)


def _pipelines() -> None:
    rows = live.collector().pipelines()
    live.write(
        el("h3", "Pipelines", el("small", f" {counted(len(rows), 'pipeline')} that started a run" if rows else ""))
    )
    if not rows:
        live.write(el("p", "No run of a pipeline is in the decision log. Other applications have no supervisor to take orders.",
                      class_="empty"))  # fmt: skip
        return
    for one in rows:
        _pipeline(one, live.zone())
    if rows.more:
        live.write(el("p", f"{counted(rows.more, 'pipeline')} more not shown.", class_="more"))


def _pipeline(one: Pipeline, zone: tzinfo) -> None:
    token = widget_token(one.key)
    with st.container(key=f"pipeline-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(one, zone))
        with st.container(
            horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"pipeline-buttons-{token}"
        ):
            pipeline_dialog.buttons(one)


def _card(one: Pipeline, zone: tzinfo) -> Html:
    sign, tone, meaning = _STATES.get(
        one.state, ("?", Tone.NOTICE, "the collector has a word for it that this page does not know")
    )
    title = el("div", badge(sign, one.state, tone, meaning), el("b", one.pipeline, class_="name"), class_="title")
    flow = f"{one.source} → {one.sink}" if one.source and one.sink else "source and sink were not told"
    how_often = f", a checkpoint every {duration(one.interval_ms)}" if one.interval_ms else ""
    run = el("div", el("span", f"run {one.attempt}, begun ", since(one.run_at_ms, zone), " ago"), class_="facts-line")
    sign_of_life = el("div", el("span", "last sign of life ", since(one.sign_at_ms, zone), " ago: ", one.sign or "none"),
                      class_="facts-line")  # fmt: skip
    said = el("div", title, el("div", flow, how_often), run, sign_of_life, class_="said")
    return el("div", said, class_=f"card {tone.value}")


def _flink_jobs() -> None:
    jobs = live.collector().jobs()
    if not jobs:
        return
    more = f", {counted(jobs.more, 'other')} not shown" if jobs.more else ""
    live.write(el("h3", "Flink jobs", el("small", f" {counted(len(jobs), 'job')}{more}; their orders are Flink's own")))
    with st.container(key="job-table"):
        live.write(_table_of_jobs(jobs, live.zone()))


def _table_of_jobs(jobs: Sequence[FlinkJob], zone: tzinfo) -> Html:
    return table(
        ["Job", "State", "Cluster", "Started", "Ended", "Restarts", "Went on last from"],
        [
            [
                [el("div", one.name), el("small", el("code", one.job))],
                one.state,
                one.cluster,
                exact_time(one.started_at_ms, zone),
                exact_time(one.ended_at_ms, zone),
                amount(one.restarts),
                _restored(one, zone),
            ]
            for one in jobs
        ],
    )


def _restored(one: FlinkJob, zone: tzinfo) -> str:
    if one.restored_from is None:
        return "–"
    return f"checkpoint {one.restored_from}, {exact_time(one.restored_at_ms, zone)}"
