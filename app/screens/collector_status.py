"""The collector's state: its history, each of its observers, and the records that it quarantined."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import choose_page, page_of
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, at, duration, exact, since
from indoubt.app.components.verdict_signs import OBSERVER_SIGNS, Tone, badge, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import new_rows, standing_orders
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.records import QuarantinedRow
from indoubt.lifecycle.rows.status import ObserverRow, Status

ROWS_A_PAGE = 20


def show() -> None:
    """Write the page."""
    with st.container(key="collector"):
        show_region("collector")
    # Of this session: a live region is the same for all who look.
    live.write(st.session_state.get("rights") or el("span"))
    live.auto_refresh(standing_orders.show, every_s=live.LIVE_EVERY_S)
    live.auto_refresh(_quarantined, every_s=None)


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the state of the collector and of each of its observers."""
    status = client.status()
    why = " each reads one source; where one fails, the others go on"
    return {
        "facts": el("section", el("h3", "Collector"), _facts(status)),
        "observers": el("section", el("h3", "Observers", el("small", why)), _observers(status.observers)),
    }


def _facts(status: Status) -> Html:
    history = status.history
    written = (
        badge("✖", f"cannot be written: {history.error}", Tone.URGENT, "no order is accepted until it can be written")
        if history.error
        else badge("✔", "written", Tone.GOOD)
    )
    waiting = f" {counted(history.waiting, 'row')} not on disk yet" if history.waiting else ""
    facts: list[tuple[str, object]] = [
        ("cluster", f"{status.cluster or 'unknown yet'} at {status.bootstrap}"),
        ("events read", amount(status.events)),
        ("history", [written, waiting]),
    ]
    if status.lost_forgotten:
        count = counted(status.lost_forgotten, "lost transaction")
        facts.append(
            (
                "no longer listed",
                badge("✖", f"{count} that nothing replayed", Tone.URGENT, "the collector lists the newest 10,000; the section "
                      "Search of History has all of them"),
            )
        )  # fmt: skip
    if history.archive_error:
        away = badge("✖", history.archive_error, Tone.URGENT, "history is kept until it can be archived")
        facts.append(("archive", away))
    elif history.archived_until_ms is not None:
        facts.append(
            ("archive", ["all before ", at(history.archived_until_ms)] if history.archived_until_ms else "nothing yet")
        )
    if history.set_aside:
        facts.append(("damaged files moved aside", ", ".join(history.set_aside)))
    pairs = [(el("dt", name), el("dd", value)) for name, value in facts]
    return el("dl", *[part for pair in pairs for part in pair], class_="facts")


def _observers(observers: Sequence[ObserverRow]) -> Html:
    return table(
        ["Observer", "State", "Since", "Last read", "Records", "Message"],
        [
            [
                observer.name,
                word_badge(OBSERVER_SIGNS, observer.state),
                since(observer.since_ms),
                f"{duration(observer.delay_ms)} ago" if observer.delay_ms is not None else "–",
                amount(observer.records),
                observer.error or "–",
            ]
            for observer in observers
        ],
    )


def _quarantined() -> None:
    records = live.collector().quarantined()
    if records:
        list_menu.show("quarantined", lambda: records, page_size=ROWS_A_PAGE)
    live.write(el("h3", "Quarantined records", el("small", _how_many(records))))
    new_rows.show("quarantined", records)
    if not records:
        live.write(el("p", "✔ The collector understood every record.", class_="quiet"))
        return
    with st.container(key="quarantined-table"):
        live.write(_records(page_of(records, page_size=ROWS_A_PAGE)))
    choose_page(records, page_size=ROWS_A_PAGE, key="quarantined-page")


def _how_many(records: Rows[QuarantinedRow]) -> str:
    more = f", {counted(records.more, 'earlier record')} not shown" if records.more else ""
    return (
        f" {counted(len(records), 'record')} that the collector could not understand, newest first{more}"
        if records
        else ""
    )


def _records(records: Sequence[QuarantinedRow]) -> Html:
    return table(
        ["When", "Source", "Partition · offset", "Error", "First characters"],
        [
            [
                exact(record.at_ms),
                record.source,
                f"{amount(record.partition)} · {amount(record.offset)}",
                record.error,
                el("code", record.value),
            ]
            for record in records
        ],
    )
