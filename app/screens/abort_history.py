"""Abort history: what was aborted or lost, why, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import live
from app.charts import abort_chart
from app.collector_rows import Abort, AbortCause, Rows
from app.markup import Html, el
from app.order_text import table
from app.paging import page_of
from app.time_text import amount, counted, duration, exact_time
from app.verdict_signs import Tone, badge, certainty_badge

_CAUSES = {
    AbortCause.TIMEOUT: "the broker's timeout",
    AbortCause.FENCED: "fenced by a newer producer",
    AbortCause.CLIENT: "its own client",
    AbortCause.OPERATOR: "an operator's order",
    AbortCause.UNKNOWN: "not known",
}
MOST_ROWS = 500
ROWS_A_PAGE = 50


def show() -> None:
    """Write the page."""
    live.looked_again(_history, every_s=live.CHARTS_EVERY_S)


def _history() -> None:
    aborts = live.collector().aborts(limit=MOST_ROWS)
    live.write(el("h3", "Aborted and lost transactions", el("small", _span(aborts))))
    if not aborts:
        live.write(el("p", "✔ Nothing was aborted or lost since the collector watches.", class_="quiet"))
        return
    causes = st.pills(
        "Cause",
        [cause.value for cause in AbortCause if any(one.cause is cause for one in aborts)],
        selection_mode="multi",
        key="abort-cause",
        label_visibility="collapsed",
        bind="query-params",
    )
    event = st.plotly_chart(
        abort_chart(aborts, live.zone()),
        key="abort-chart",
        on_select="rerun",
        selection_mode="points",
        config={"displayModeBar": False},
        alt="Stacked bars: aborted and lost transactions per minute by cause",
    )
    clicked = {point["customdata"] for point in event.selection.points if isinstance(point.get("customdata"), str)}
    wanted = set(causes) | clicked
    found = [one for one in aborts if not wanted or one.cause.value in wanted]
    shown = page_of(found, most=ROWS_A_PAGE, key="abort-page")
    with st.container(key="abort-table"):
        live.write(_table(shown))


def _span(aborts: Rows[Abort]) -> str:
    if not aborts:
        return ""
    more = f", {counted(aborts.more, 'earlier one')} not shown" if aborts.more else ""
    return f" {counted(len(aborts), 'transaction')} since {exact_time(aborts[-1].at_ms, live.zone())}{more}"


def _table(aborts: Sequence[Abort]) -> Html:
    zone = live.zone()
    return table(
        ["When", "What", "Transaction", "Pipeline", "Batch · slot", "Cause", "How sure", "Was open", "Rows"],
        [
            [
                exact_time(one.at_ms, zone),
                badge("✖", "lost", Tone.URGENT, "decided, then aborted") if one.lost else badge("⊘", "aborted", Tone.WARNING),
                el("code", one.transaction),
                one.pipeline,
                "–" if one.batch is None else f"{one.batch} · {one.slot}",
                f"{one.cause.value}: {_CAUSES[one.cause]}" if one.cause is not AbortCause.UNKNOWN else "unknown",
                certainty_badge(one.certainty),
                duration(one.open_ms),
                amount(one.rows),
            ]
            for one in aborts
        ],
    )  # fmt: skip
