"""Transactional ids: how many each prefix has and how fast they grow; prefixes that leak or are shared come first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_rows import Rows
from indoubt.app.components import downloads
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import ago, amount
from indoubt.app.components.verdict_signs import Tone, badge
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import IdsRow

ROWS_A_PAGE = 50
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
    live.write(el("h3", "Transactional ids", el("small", _how_many(prefixes))))
    if not prefixes:
        live.write(el("p", "The collector has seen no transactional id yet.", class_="empty"))
        return
    # A stable sort: prefixes in the same state keep the collector's order, most ids first.
    worst_first = sorted(prefixes, key=lambda prefix: not (prefix.leaks or prefix.shared))
    ordered = _SORTING.ordered(worst_first)
    downloads.offer("ids", lambda: ordered)
    shown = page_of(ordered, page_size=ROWS_A_PAGE, key="id-page")
    with st.container(key="id-table"):
        live.write(_table(shown, live.zone()))


def _how_many(prefixes: Rows[IdsRow]) -> str:
    if not prefixes:
        return ""
    ids = counted(sum(prefix.ids for prefix in prefixes), "id")
    more = f", {counted(prefixes.more, 'other prefix', 'other prefixes')} not shown" if prefixes.more else ""
    of = counted(len(prefixes), "prefix", "prefixes")
    return f" {ids} of {of}{more}; the coordinator keeps each for a week after its last use"


def _table(prefixes: Sequence[IdsRow], zone: tzinfo) -> Html:
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
                ago(prefix.newest_at_ms, zone),
                prefix.why or "–",
            ]
            for prefix in prefixes
        ],
        sorting=_SORTING,
    )


def _badge(prefix: IdsRow) -> Html:
    if prefix.shared:
        return badge("✖", "shared", Tone.URGENT, "two pipelines or writers use the same ids and fence each other")
    if prefix.leaks:
        return badge("△", "leaks", Tone.WARNING, "it keeps creating ids, and never uses the old ones again")
    return badge("✔", "bounded", Tone.GOOD, "it uses its ids again")
