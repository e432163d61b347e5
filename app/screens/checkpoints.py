"""Checkpoints: how long each took, which of them failed, and what each committed."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import brush, list_menu
from indoubt.app.components.duration_plot import axis_of, duration_plot
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.paging import choose_page, first_page, number_in, page_of
from indoubt.app.components.sink_commits import announced
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import amount, at, duration
from indoubt.app.components.verdict_signs import CHECKPOINT_SIGNS, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import new_rows
from indoubt.app.screens.sections import SHOW, in_address
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.series import CheckpointGapsRow

MAX_ROWS = 500
MOST_PICTURES = 6
PIPELINE = "checkpoint-pipeline"
ROWS_A_PAGE = 20
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
    rows = client.checkpoints(limit=MAX_ROWS, pipeline=chosen)
    of_time = brush.asked()
    matches = client.checkpoints(limit=MAX_ROWS, pipeline=chosen, **of_time) if of_time else rows
    ordered = _SORTING.ordered(matches)
    # Also those that have none among the newest.
    pipelines = sorted(
        {row.pipeline for row in rows} | {row.pipeline for row in gaps} | ({chosen} if chosen else set())
    )
    with list_menu.line("checkpoints"):
        if len(pipelines) > 1:
            st.selectbox("Pipeline", pipelines, index=None, placeholder="every pipeline", key=PIPELINE, width=320,
                         label_visibility="collapsed", bind="query-params", on_change=first_page)  # fmt: skip
        list_menu.show("checkpoints", lambda: ordered, page_size=ROWS_A_PAGE)
    show_region("checkpoints-answer", {"pipeline": chosen})
    new_rows.show("checkpoints", rows, pipeline=chosen)
    if not rows and not chosen:
        return
    with st.container(key="checkpoint-chart"):
        show_region("checkpoints", in_address(SHOW, brush.FROM, brush.UNTIL) | {"pipeline": chosen})
    brush.say("checkpoint-durations", live.zone())
    more = f", {counted(rows.more, 'earlier one')} not shown" if rows.more else ""
    live.write(el("p", f"{counted(len(matches), 'checkpoint')}{more}", class_="how-many"))
    with st.container(key="checkpoint-table"):
        live.write(_table(page_of(ordered, page_size=ROWS_A_PAGE)))
    choose_page(ordered, page_size=ROWS_A_PAGE, key="checkpoint-page")


def render_answer(client: CollectorClient, query: Query) -> RegionContent:
    """Return whether checkpoints complete, in a sentence, and what was wrong with them before."""
    pipeline = query.get("pipeline", "")
    gaps = client.checkpoint_gaps(pipeline=pipeline)
    if not gaps and not client.checkpoints(limit=1, pipeline=pipeline):
        none = el("p", "The history has no checkpoint yet.", class_="empty")
        return {"answer": el("div", el("h3", "Do checkpoints complete?"), none)}
    now = [
        f"{row.pipeline}: {gap.name}{f' ({gap.why})' if gap.why else ''}."
        for row in gaps
        for gap in row.gaps
        if gap.ongoing
    ]
    answer = el("p", " ".join(now) or "No checkpoint is overdue.", class_="warn" if now else "answer")
    return {"answer": el("div", el("h3", "Do checkpoints complete?", el("small", " ", *_before(gaps))), answer)}


def _before(gaps: Sequence[CheckpointGapsRow]) -> list[object]:
    """Return how many gaps that are over, and how many that failed, and when the newest was."""
    over_ms = [gap.from_ms for row in gaps for gap in row.gaps if not gap.ongoing]
    failed = [(one.at_ms, one.failures) for row in gaps for one in row.failures]
    of_gaps = [f"{counted(len(over_ms), 'gap')}, the last at ", at(max(over_ms))] if over_ms else []
    failures = counted(sum(number for _, number in failed), "failure")
    of_failed = [f"{failures}, the last at ", at(max(failed)[0])] if failed else []
    return [*of_gaps, "; " if of_gaps and of_failed else "", *of_failed]


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a picture for each pipeline, those first whose checkpoints fail or do not come, and the axis of them all."""
    pipeline = query.get("pipeline", "")
    ends = {"since_ms": query.get(brush.FROM, ""), "until_ms": query.get(brush.UNTIL, "")}
    wanted = {name: text for name, text in ends.items() if number_in(text) is not None}
    rows = client.checkpoint_durations(**wanted, pipeline=pipeline)
    found = {row.pipeline: row for row in client.checkpoint_gaps(pipeline=pipeline)}
    wrong = {name: (any(gap.ongoing for gap in row.gaps), len(row.failures)) for name, row in found.items()}
    worst_first = sorted(rows, key=lambda row: wrong.get(row.pipeline, (False, 0)), reverse=True)

    def address(first_ms: int, last_ms: int) -> str:
        chosen = {PIPELINE: pipeline} if pipeline else {}
        ends = {brush.FROM: first_ms, brush.UNTIL: last_ms}
        return f"/pipelines?{urlencode({SHOW: query.get(SHOW, ''), **chosen, **ends})}"

    content: RegionContent = {
        f"of-{widget_token(row.pipeline)}": duration_plot(row, found.get(row.pipeline), address)
        for row in worst_first[:MOST_PICTURES]
    }
    if not rows:
        content["none"] = el("p", "No checkpoint is in memory: there is no picture.", class_="empty")
    else:
        content["axis"] = el("div", axis_of(rows[0]).ruler(), class_="of-values")
    more = len(rows) - MOST_PICTURES + rows.more
    if more > 0:
        content["more"] = el("p", f"{counted(more, 'other pipeline')} not drawn: choose one.", class_="more")
    return content


def _chosen() -> str:
    """Return the chosen pipeline, before the widget is there as the address has it; empty: every pipeline."""
    return str(st.session_state.get(PIPELINE) or st.query_params.get(PIPELINE, ""))


def _table(rows: Sequence[CheckpointRow]) -> Html:
    has_sinks = any(row.sinks for row in rows)
    sinks = ["Announced"] if has_sinks else []
    return table(
        ["Pipeline", "Checkpoint", "State", "Started", "Ended", "Took", "Transactions", *sinks, "Rows", "Source"],
        [
            [
                link(page_paths.pipeline(row.pipeline), row.pipeline),
                link(page_paths.batch(row.pipeline, row.number), str(row.number)),
                word_badge(CHECKPOINT_SIGNS, row.state.value),
                Moment(row.started_at_ms),
                Moment(row.ended_at_ms),
                duration(row.duration_ms),
                amount(row.transactions),
                *([announced(row.sinks)] if has_sinks else []),
                amount(row.rows),
                row.source,
            ]
            for row in rows
        ],
        sorting=_SORTING,
        zone=live.zone(),
        narrow=("Pipeline", "Checkpoint", "State", "Started", "Took"),
        may_drop=("Source",),
    )
