"""Transactional ids: how many each prefix has and how fast they grow; prefixes that leak or are shared come first."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import choose_page, page_of
from indoubt.app.components.small_plots import Bars, axis_times, bar_plot
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import ago, amount
from indoubt.app.components.verdict_signs import Tone, badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.pipelines import IdsRow
from indoubt.lifecycle.rows.series import TimeAxis

ROWS_A_PAGE = 20
MOST_PLOTS = 6
_SORTING: Sorting[IdsRow] = Sorting(
    name="id-sort",
    default="State",
    keys={
        "Prefix": lambda row: row.prefix,
        "Ids": lambda row: row.ids,
        "New per hour": lambda row: row.growth_per_hour,
        "Never used again": lambda row: row.stale_ids,
        "Fenced in the last hour": lambda row: row.fenced_last_hour,
        "Last used": lambda row: row.newest_at_ms,
    },
    texts=frozenset({"Prefix"}),
)


def show() -> None:
    """Write the page."""
    live.auto_refresh(_ids, every_s=live.CHARTS_EVERY_S)


def _ids() -> None:
    prefixes = live.collector().ids()
    ordered = _SORTING.ordered(_worst_first(prefixes))
    list_menu.show("ids", lambda: ordered, page_size=ROWS_A_PAGE)
    live.write(el("h3", "Transactional ids", el("small", _how_many(prefixes))))
    if not prefixes:
        live.write(el("p", "No transactional id has been used yet.", class_="empty"))
        return
    # Streamlit leaves out drawings of what a page writes itself.
    show_region("ids")
    with st.container(key="id-table"):
        live.write(_table(page_of(ordered, page_size=ROWS_A_PAGE)))
    choose_page(ordered, page_size=ROWS_A_PAGE, key="id-page")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the plots."""
    return {"plots": _picture(_worst_first(client.ids()))}


def _worst_first(prefixes: Sequence[IdsRow]) -> list[IdsRow]:
    # A stable sort: prefixes in the same state keep the collector's order, most ids first.
    return sorted(prefixes, key=lambda prefix: not (prefix.leaks or prefix.shared))


def _picture(prefixes: Sequence[IdsRow]) -> Html:
    """Return how many ids each prefix had in the last day, of the worst ones."""
    hours = max((len(prefix.ids_by_hour) for prefix in prefixes), default=1)
    # The hour that is not over has its place too.
    at_ms = now_ms()
    until_ms = (at_ms // HOUR_MS + 1) * HOUR_MS
    axis = TimeAxis(now_ms=at_ms, from_ms=until_ms - hours * HOUR_MS, until_ms=until_ms, bucket_ms=HOUR_MS)
    plots = [
        bar_plot(
            axis,
            prefix.prefix,
            counted(prefix.ids, "id"),
            [Bars(values=prefix.ids_by_hour, tone="warning" if prefix.leaks else "")],
            text=lambda number: counted(number, "id"),
            below=[axis_times(axis)],
        )
        for prefix in prefixes[:MOST_PLOTS]
    ]
    return el("div", *plots, class_="plot-grid")


def _how_many(prefixes: Rows[IdsRow]) -> str:
    if not prefixes:
        return ""
    ids = counted(sum(prefix.ids for prefix in prefixes), "id")
    leaks, shared = sum(prefix.leaks for prefix in prefixes), sum(prefix.shared for prefix in prefixes)
    grows = f"{counted(leaks, 'prefix', 'prefixes')} growing" if leaks else "not growing"
    fights = f", {counted(shared, 'prefix', 'prefixes')} used twice" if shared else ""
    more = f", {counted(prefixes.more, 'other prefix', 'other prefixes')} not shown" if prefixes.more else ""
    return f" {ids}, {grows}{fights}{more}. The coordinator keeps each for a week after its last use"


def _table(prefixes: Sequence[IdsRow]) -> Html:
    return table(
        ["Prefix", "State", "Ids", "New per hour", "Never used again", "Fenced in the last hour", "Last used", "Why"],
        [
            [
                el("code", prefix.prefix, title=f"for example {prefix.example}"),
                _badge(prefix),
                amount(prefix.ids),
                amount(prefix.growth_per_hour),
                amount(prefix.stale_ids),
                amount(prefix.fenced_last_hour),
                ago(prefix.newest_at_ms),
                prefix.why or "–",
            ]
            for prefix in prefixes
        ],
        sorting=_SORTING,
        narrow=("Prefix", "State", "Ids"),
    )


def _badge(prefix: IdsRow) -> Html:
    if prefix.shared:
        return badge("✖", "shared", Tone.URGENT, "two writers use the same ids and fence each other")
    if prefix.leaks:
        return badge("△", "leaks", Tone.WARNING, "it takes new ids all the time, and never uses the old ones again")
    return badge("✔", "not growing", Tone.GOOD, "it uses its ids again")
