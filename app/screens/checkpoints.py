"""Checkpoints: how long each took, which of them failed, and what each committed."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import live
from app.components import brush, downloads
from app.components.charts import checkpoint_chart
from app.components.markup import Html, el
from app.components.paging import first_page, page_of
from app.components.presses import link
from app.components.time_text import amount, duration, written
from app.components.verdict_signs import CHECKPOINT_SIGNS, badge
from app.dialogs.order_text import table
from app.screens import news
from lifecycle import page_paths
from lifecycle.counted_nouns import counted
from lifecycle.rows.pipelines import CheckpointRow

MAX_ROWS = 500
ROWS_A_PAGE = 50


def show() -> None:
    """Write the page."""
    live.auto_refresh(_checkpoints, every_s=None)


def _checkpoints() -> None:
    rows = live.collector().checkpoints(limit=MAX_ROWS)
    live.write(
        el(
            "h3",
            "Checkpoints",
            el("small", f" {counted(rows.more, 'earlier checkpoint')} not shown" if rows.more else ""),
        )
    )
    news.show("checkpoints", [row.ended_at_ms or row.started_at_ms for row in rows])
    if not rows:
        live.write(el("p", "The history has no checkpoint yet.", class_="empty"))
        return
    pipelines = sorted({row.pipeline for row in rows})
    chosen = None
    if len(pipelines) > 1:
        chosen = st.selectbox("Pipeline", pipelines, index=None, placeholder="every pipeline", key="checkpoint-pipeline",
                              label_visibility="collapsed", width=320, on_change=first_page)  # fmt: skip
    matches = [row for row in rows if chosen in (None, row.pipeline)]
    with st.container(key="checkpoint-chart"):
        brush.show(
            checkpoint_chart(matches, live.collector().checkpoint_gaps(), live.zone()),
            key="checkpoint-durations",
            zone=live.zone(),
            alt="Duration of each checkpoint over time; shaded: none came; a cross is a failed checkpoint, a triangle a hung one",
        )
    matches = brush.within(matches, lambda row: row.ended_at_ms or row.started_at_ms)
    downloads.offer("checkpoints", lambda: matches)
    shown = page_of(matches, page_size=ROWS_A_PAGE, key="checkpoint-page")
    live.write(el("p", counted(len(matches), "checkpoint"), class_="how-many"))
    with st.container(key="checkpoint-table"):
        live.write(_table(shown))


def _table(rows: Sequence[CheckpointRow]) -> Html:
    zone = live.zone()
    return table(
        ["Pipeline", "Checkpoint", "State", "Started", "Ended", "Took", "Transactions", "Rows", "Source"],
        [
            [
                link(page_paths.pipeline(row.pipeline), row.pipeline),
                link(page_paths.batch(row.pipeline, row.number), str(row.number)),
                badge(CHECKPOINT_SIGNS[row.state][0], row.state.value, CHECKPOINT_SIGNS[row.state][1]),
                written(row.started_at_ms, zone),
                written(row.ended_at_ms, zone),
                duration(row.duration_ms),
                amount(row.transactions),
                amount(row.rows),
                row.source,
            ]
            for row in rows
        ],
    )
