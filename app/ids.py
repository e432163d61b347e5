"""Transactional ids: how many each prefix has and how fast they grow, those that leak or are shared first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live
from app.collector_rows import Rows
from app.id_rows import PrefixIds
from app.markup import Html, el
from app.order_text import table
from app.paging import page_of
from app.time_text import amount, counted, exact_time, since
from app.verdict_signs import Tone, badge

ROWS_A_PAGE = 50


def show() -> None:
    """Write the page."""
    live.looked_again(_ids, every_s=live.CHARTS_EVERY_S)


def _ids() -> None:
    prefixes = live.collector().ids()
    live.write(el("h3", "Transactional ids", el("small", _how_many(prefixes))))
    if not prefixes:
        live.write(el("p", "No transactional id was seen yet.", class_="empty"))
        return
    # Stable: the collector's order, most ids first, stays among those that stand alike.
    ordered = sorted(prefixes, key=lambda one: not (one.leaks or one.shared))
    shown = page_of(ordered, most=ROWS_A_PAGE, key="id-page")
    with st.container(key="id-table"):
        live.write(_table(shown, live.zone()))


def _how_many(prefixes: Rows[PrefixIds]) -> str:
    if not prefixes:
        return ""
    ids = counted(sum(one.ids for one in prefixes), "id")
    more = f", {counted(prefixes.more, 'prefix', 'prefixes')} more not shown" if prefixes.more else ""
    of = counted(len(prefixes), "prefix", "prefixes")
    return f" {ids} of {of}{more}; the coordinator keeps each for a week after its last use"


def _table(prefixes: Sequence[PrefixIds], zone: tzinfo) -> Html:
    return table(
        ["Prefix", "Stands", "Ids", "More per hour", "Never came back", "Fenced in the last hour", "Last used", "Why"],
        [
            [
                el("code", one.prefix, title=f"for example {one.example}"),
                _badge(one),
                amount(one.ids),
                amount(one.growth_per_hour),
                amount(one.stale_ids),
                amount(one.fenced_last_hour),
                el("span", since(one.newest_at_ms, zone), " ago", title=exact_time(one.newest_at_ms, zone)),
                one.why or "–",
            ]
            for one in prefixes
        ],
    )


def _badge(one: PrefixIds) -> Html:
    if one.shared:
        return badge("✖", "shared", Tone.URGENT, "two pipelines or writers take each other's ids")
    if one.leaks:
        return badge("△", "leaks", Tone.WARNING, "new ids all the time, and those before never come back")
    return badge("✔", "bounded", Tone.GOOD, "its ids are used again")
