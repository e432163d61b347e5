"""Aborts: aborted and lost transactions, their causes, and how certain each cause is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import brush, list_menu
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import after_in_address, choose_page, first_page, go_further, page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.stacked_bars import Bars, stacked_bars
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import amount, clock_time, day_of, duration
from indoubt.app.components.verdict_signs import CERTAINTY_SIGNS, undone_badge, word_badge
from indoubt.app.screens import new_rows
from indoubt.app.screens.sections import search_field
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.ends import AbortRow
from indoubt.lifecycle.verdicts import AbortCause

_CAUSES = {
    AbortCause.TIMEOUT: "timeout: the broker's",
    AbortCause.FENCED: "fenced: by a newer producer",
    AbortCause.CLIENT: "client: its own",
    AbortCause.OPERATOR: "operator: by an order",
    AbortCause.UNKNOWN: "unknown",
}
PATH = "/history"
PIPELINE = "abort-pipeline"
MAX_ROWS = 500
ROWS_A_PAGE = 20
_SORTING: Sorting[AbortRow] = Sorting(
    name="abort-sort",
    default="Ended",
    keys={
        "Transaction": lambda row: row.transaction,
        "Pipeline": lambda row: row.pipeline,
        "Cause": lambda row: row.cause.value,
        "Open for": lambda row: row.open_ms,
        "Rows": lambda row: row.rows,
    },
    texts=frozenset({"Transaction", "Pipeline", "Cause"}),
)


def show() -> None:
    """Write the page."""
    live.auto_refresh(_history, every_s=None)


def _history() -> None:
    after = after_in_address()
    with list_menu.line("aborts"):
        pipeline = search_field(PIPELINE, "application, its whole name")
        aborts = _newest(pipeline, after)
        found = _newest(pipeline, after, **brush.asked()) if brush.stretch() is not None else aborts
        matches = _SORTING.ordered(found)
        list_menu.show("aborts", lambda: matches, page_size=ROWS_A_PAGE)
    live.write(el("h3", "Aborted and lost", el("small", _span(aborts))))
    if not after:
        new_rows.show("aborts", aborts, causes=_chosen(), pipeline=pipeline)
    if not aborts and not _chosen() and not after:
        live.write(el("p", none_was_aborted(pipeline, aborts.next), class_="empty"))
        go_further(aborts.next, key="abort")
        return
    st.pills(
        "Cause",
        [cause.value for cause in AbortCause],
        selection_mode="multi",
        key="abort-cause",
        label_visibility="collapsed",
        bind="query-params",
        on_change=first_page,
    )
    with st.container(key="abort-chart"):
        live.write(_picture(pipeline))
    brush.say("abort-time", live.zone())
    with st.container(key="abort-table"):
        live.write(_table(page_of(matches, page_size=ROWS_A_PAGE)))
    choose_page(matches, page_size=ROWS_A_PAGE, key="abort-page")
    go_further(found.next, key="abort")


def _picture(pipeline: str) -> Html:
    """Return Kafka's aborts over all the time that is known, or over the chosen one, by the chosen causes."""
    found = live.collector().abort_counts(pipeline=pipeline, **brush.asked())
    chosen = _chosen()
    counts = {(one.bucket, one.cause.value): one.transactions for one in found.counts}
    bars = Bars(
        from_ms=found.from_ms,
        length_ms=found.bucket_ms,
        bars=found.buckets,
        counts={key: number for key, number in counts.items() if not chosen or key[1] in chosen},
    )
    alt = "Aborted and lost transactions of Kafka over time by cause"
    path = partial(brush.address, PATH)
    return stacked_bars(
        bars,
        {cause.value: cause.value for cause in AbortCause},
        text=lambda number: counted(number, "transaction"),
        alt=alt,
        zone=live.zone(),
        path=path,
    )


def none_was_aborted(pipeline: str, following: str | None) -> str:
    """Return what an empty list of undone transactions says. ``following``: what the collector said as ``next``."""
    if following is not None:
        return "No such transaction among those looked at so far: press Older to look further back."
    return f"No transaction{f' of {pipeline}' if pipeline else ''} was aborted in all of history."


def _newest(pipeline: str, after: str, **times: str) -> Rows[AbortRow]:
    """Return the newest; of the chosen causes where some are chosen, however many of others there are before them."""
    return live.collector().aborts(limit=MAX_ROWS, causes=_chosen(), after=after, pipeline=pipeline, **times)


def _chosen() -> list[str]:
    """Return the chosen causes, before the widget is there as the address has them."""
    chosen = st.session_state.get("abort-cause") or st.query_params.get_all("abort-cause")
    return [cause.value for cause in AbortCause if cause.value in chosen]


def _batch(abort: AbortRow) -> Html:
    if abort.batch is None:
        return el("span", "–")
    return link(page_paths.batch(abort.pipeline, abort.batch), f"{abort.batch} · {abort.slot}")


def _span(aborts: Rows[AbortRow]) -> str:
    if not aborts:
        return ""
    more = f", at least {counted(aborts.more, 'earlier one')} behind them" if aborts.more else ""
    oldest_ms, zone = aborts[-1].at_ms, live.zone()
    since = f"{day_of(oldest_ms, zone)[:10]} {clock_time(oldest_ms, zone)[:5]}"
    return f" {counted(len(aborts), 'transaction')} since {since}{more}"


def _table(aborts: Sequence[AbortRow]) -> Html:
    return table(
        ["Ended", "Outcome", "Transaction", "Pipeline", "Batch · slot", "Cause", "Certainty", "Open for", "Rows"],
        [
            [
                Moment(abort.at_ms),
                undone_badge(abort.verdict, abort.written_again_at_ms),
                link(page_paths.transaction(abort.key), abort.transaction),
                link(page_paths.pipeline(abort.pipeline), abort.pipeline),
                _batch(abort),
                _CAUSES[abort.cause],
                word_badge(CERTAINTY_SIGNS, abort.certainty),
                duration(abort.open_ms),
                amount(abort.rows),
            ]
            for abort in aborts
        ],
        sorting=_SORTING,
        zone=live.zone(),
        narrow=("Transaction", "Ended", "Outcome"),
    )  # fmt: skip
