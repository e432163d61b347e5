"""Checkpoints: how long each took, which of them failed, and what each committed."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.components import brush, downloads
from indoubt.app.components.charts import checkpoint_chart
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import first_page, page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, duration, written
from indoubt.app.components.verdict_signs import CHECKPOINT_SIGNS, badge
from indoubt.app.screens import new_rows
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import CheckpointRow

MAX_ROWS = 500
PIPELINE = "checkpoint-pipeline"
ROWS_A_PAGE = 50
_SORTING: Sorting[CheckpointRow] = Sorting(
    name="checkpoint-sort",
    default="Started",
    keys={
        "Pipeline": lambda row: row.pipeline,
        "State": lambda row: row.state.value,
        "Took": lambda row: row.duration_ms,
        "Transactions": lambda row: row.transactions,
        "Rows": lambda row: row.rows,
    },
    texts=frozenset({"Pipeline", "State"}),
)


def show() -> None:
    """Write the page."""
    live.auto_refresh(_checkpoints, every_s=None)


def _checkpoints() -> None:
    client, chosen, gaps = live.collector(), _chosen(), live.collector().checkpoint_gaps()
    wanted = {"pipeline": chosen} if chosen else {}
    rows = client.checkpoints(limit=MAX_ROWS, **wanted)
    live.write(
        el(
            "h3",
            "Checkpoints",
            el("small", f" {counted(rows.more, 'earlier checkpoint')} not shown" if rows.more else ""),
        )
    )
    new_rows.show("checkpoints", [row.ended_at_ms or row.started_at_ms for row in rows], chosen)
    if not rows and not chosen:
        live.write(el("p", "The history has no checkpoint yet.", class_="empty"))
        return
    # Also those that have none among the newest.
    pipelines = sorted(
        {row.pipeline for row in rows} | {row.pipeline for row in gaps} | ({chosen} if chosen else set())
    )
    if len(pipelines) > 1:
        st.selectbox("Pipeline", pipelines, index=None, placeholder="every pipeline", key=PIPELINE, width=320,
                     label_visibility="collapsed", bind="query-params", on_change=first_page)  # fmt: skip
    with st.container(key="checkpoint-chart"):
        brush.show(
            checkpoint_chart(rows, gaps, live.zone()),
            key="checkpoint-durations",
            zone=live.zone(),
            alt="Duration of each checkpoint over time; shaded: none came; a cross is a failed checkpoint, a triangle a hung one",
        )
    matches = client.checkpoints(limit=MAX_ROWS, **wanted, **brush.asked()) if brush.stretch() is not None else rows
    ordered = _SORTING.ordered(matches)
    downloads.offer("checkpoints", lambda: ordered)
    shown = page_of(ordered, page_size=ROWS_A_PAGE, key="checkpoint-page")
    live.write(el("p", counted(len(matches), "checkpoint"), class_="how-many"))
    with st.container(key="checkpoint-table"):
        live.write(_table(shown))


def _chosen() -> str:
    """Return the chosen pipeline, before the widget is there as the address has it; empty: every pipeline."""
    return str(st.session_state.get(PIPELINE) or st.query_params.get(PIPELINE, ""))


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
        sorting=_SORTING,
    )
