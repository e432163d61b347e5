"""Search: every transaction that history has, in Kafka and in databases; the collector looks, this page asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import topics_of
from indoubt.app.components.paging import (
    AFTER,
    after_in_address,
    first_page,
    go_further,
    rows_a_page,
)
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import amount, duration, exact, moment_ms, since
from indoubt.app.components.verdict_signs import CERTAINTY_SIGNS, state_text, word_badge
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS
from indoubt.lifecycle.rows.search import FoundTransactionRow, SearchOutcome
from indoubt.lifecycle.verdicts import AbortCause
from indoubt.lifecycle.visible_text import actual

ANY = "any"
SPANS = {"1 h": HOUR_MS, "24 h": DAY_MS, "7 days": 7 * DAY_MS, "all": None}
SPAN = "24 h"
ROWS_A_PAGE = 20
_TEXTS = {
    "transaction": "id, or a part of it",
    "pipeline": "its whole name",
    "topic": "written to",
    "group": "reading there",
}


def show() -> None:
    """Write the page."""
    live.auto_refresh(_search, every_s=None)


def _search() -> None:
    filters = _filters()
    after = after_in_address()
    found = live.collector().search(limit=rows_a_page(ROWS_A_PAGE), after=after, **filters)
    list_menu.show("search", lambda: found, page_size=ROWS_A_PAGE)
    live.write(el("p", *_how_many(found, filters, is_first=not after), class_="how-many"))
    if found:
        with st.container(key="search-table"):
            live.write(_table(found, live.zone()))
    go_further(found.next, key="search")


def _filters() -> dict[str, str]:
    """Return what is looked for as the API's parameters; the address has the choice."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="search-filters"):
        texts = {
            name: st.text_input(name.capitalize(), placeholder=hint, key=f"search-{name}", width=150, bind="query-params",
                                on_change=first_page)
            for name, hint in _TEXTS.items()
        }  # fmt: skip
        outcome = st.selectbox("Outcome", [ANY, *(one.value for one in SearchOutcome)], key="search-outcome", width=120,
                               bind="query-params", on_change=first_page)  # fmt: skip
        cause = st.selectbox("Cause of an abort", [ANY, *(one.value for one in AbortCause)], key="search-cause", width=140,
                             bind="query-params", on_change=first_page)  # fmt: skip
        span = st.segmented_control("Opened in the last", list(SPANS), default=SPAN, required=True, key="search-span",
                                    bind="query-params", on_change=first_page)  # fmt: skip
        before = st.text_input("Before", placeholder="now, or 2026-11-21 14:00", key="search-until", width=180,
                               bind="query-params", on_change=first_page)  # fmt: skip
    wanted = {name: actual((text or "").strip()) for name, text in texts.items()}
    wanted |= {"outcome": outcome if outcome != ANY else "", "cause": cause if cause != ANY else ""}
    return wanted | _times(SPANS.get(span or SPAN), (before or "").strip())


def _times(length_ms: int | None, before: str) -> dict[str, str]:
    """Return the stretch of time that is searched, as the API's parameters: so long before a moment, or before now."""
    until_ms = moment_ms(before, live.zone()) if before else None
    if before and until_ms is None:
        live.write(
            el("p", f"{before!r} is no time; it takes a date and a time such as 2026-11-21 14:00.", class_="warn")
        )
    wanted = {} if until_ms is None else {"until_ms": str(until_ms)}
    if length_ms is not None:
        # Whole minutes: the pages of one search begin at the same time, and tabs share an answer.
        end_ms = live.collector().status().now_ms if until_ms is None else until_ms
        wanted["since_ms"] = str(max(0, end_ms - length_ms) // 60_000 * 60_000)
    return wanted


def _how_many(found: Rows[FoundTransactionRow], filters: Mapping[str, str], *, is_first: bool) -> list[str | Html]:
    if not found and found.next is not None:
        return ["Nothing among those looked at so far: press Older to look further back, or choose a shorter time."]
    if not found:
        if "since_ms" not in filters:
            return ["Nothing in history fits." if is_first else "Nothing older fits."]
        return ["Nothing that was opened ", *_when(filters), " fits. ", link(_of_all_time(), "Search all of history")]
    behind = ", more behind them" if found.next is not None else ", and no older one"
    return [f"{counted(len(found), 'transaction')}, newest opening first{behind}"]


def _when(filters: Mapping[str, str]) -> list[str | Html]:
    since = ["since ", exact(int(filters["since_ms"]))]
    until = [" and before ", exact(int(filters["until_ms"]))] if "until_ms" in filters else []
    return [*since, *until]


def _of_all_time() -> str:
    """Return the address of the same search over any time."""
    shown = st.query_params.to_dict() | {"show": "search", "search-span": "all"}
    return f"/history?{urlencode({name: text for name, text in shown.items() if name not in ('search-until', AFTER)})}"


def _table(found: Sequence[FoundTransactionRow], zone: tzinfo) -> Html:
    return table(
        ["Opened", "Transaction", "Application", "Batch", "State", "Cause", "Open for", "Rows", "Topics"],
        [
            [
                Moment(row.opened_at_ms),
                link(page_paths.transaction(row.key), row.transaction),
                link(page_paths.pipeline(row.pipeline), row.pipeline),
                link(page_paths.batch(row.pipeline, row.batch), str(row.batch)) if row.batch is not None else "–",
                state_text(row.state, row.written_again_at_ms),
                [row.cause.value, " ", word_badge(CERTAINTY_SIGNS, row.certainty or "")]
                if row.cause is not None
                else "–",
                duration(row.open_ms) if row.open_ms is not None or row.state.is_final else since(row.opened_at_ms),
                amount(row.rows),
                topics_of(row.partitions),
            ]
            for row in found
        ],
        zone=zone,
        narrow=("Transaction", "Opened", "State"),
        may_drop=("Batch", "Cause", "Rows"),
    )
