"""The lower part of a transaction's page: its link and incident note, raw events, orders, earlier transactions of its id."""

from __future__ import annotations

import json

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.incident_note import transaction_note
from indoubt.app.components.markup import Html, el
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import exact
from indoubt.app.screens.objects.object_sections import (
    alerts_of,
    ended_table,
    order_list,
    orders_about,
    page_address,
    share,
)
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.events import EARLIER_COUNTED, EndedTransactionRow, EventKind, RawEventRow

EVENTS_SHOWN = 200
ALL = "all"


def show() -> None:
    """Write the part for the transaction in the page's address."""
    key = st.query_params.get("key", "")
    client = live.collector()
    detail = client.transaction(key)
    events, earlier = client.events(key, limit=EVENTS_SHOWN), client.earlier(key)
    needs, alerts = client.parts([key]), alerts_of(detail, client.alerts())
    orders = orders_about(client, [key])
    address = page_address(page_paths.transaction(key))
    note = transaction_note(
        detail,
        link=address,
        at_ms=client.status().now_ms,
        needs=next(iter(needs), None),
        alerts=alerts,
        orders=orders,
    )
    share(address, note, f"incident-{detail.transaction}.md")
    _events(events)
    live.write(order_list(orders))
    _earlier(earlier)


def _events(events: Rows[RawEventRow]) -> None:
    more = (
        f" the first {len(events)}, {counted(events.more, 'later one')} not shown" if events.more else f" {len(events)}"
    )
    live.write(el("h3", "Events", el("small", more)))
    kinds = list(dict.fromkeys(event.kind.value for event in events))
    with st.container(horizontal=True, vertical_alignment="center"):
        chosen = st.segmented_control("Source", [ALL, *kinds], default=ALL, required=True, key="event-kind",
                                      label_visibility="collapsed", bind="query-params")  # fmt: skip
        shown = [event for event in events if chosen in (ALL, event.kind.value)]
        list_menu.show("events", lambda: shown)
    rows = [
        [
            exact(event.at_ms),
            event.kind.value,
            event.what,
            el("small", _place(event)),
            el("details", el("summary", "raw"), el("pre", *_lines(event))),
        ]
        for event in shown
    ]
    with st.container(key="event-table"):
        live.write(table(["Time", "Source", "Event", "Where it stands", "Record"], rows))


def _place(event: RawEventRow) -> str:
    if event.kind is EventKind.ORDER:
        return f"audit {event.offset}"
    return f"{event.source}{'' if event.partition is None else f'-{event.partition}'} at {event.offset}"


def _lines(event: RawEventRow) -> list[Html]:
    # Each is an element: markup shows a line end inside a text as a control character.
    return [el("div", line) for line in json.dumps(event.raw, indent=1, ensure_ascii=False).split("\n")]


def _earlier(earlier: Rows[EndedTransactionRow]) -> None:
    number = f"{'at least ' * (earlier.more == EARLIER_COUNTED)}{counted(earlier.more, 'earlier one')}"
    more = f" {number} not shown" if earlier.more else ""
    live.write(el("h3", "Earlier transactions of this id", el("small", more)))
    if not earlier:
        live.write(
            el(
                "p",
                "The history has none: it is the first of its id, or the ones before it left history.",
                class_="empty",
            )
        )
        return
    with st.container(key="earlier-table"):
        live.write(ended_table(earlier))
