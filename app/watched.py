"""What the collector watches: itself and its history, each observer's state, and the records that were kept aside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live
from app.collector_rows import Observer, Rows, Status
from app.kept_aside_rows import KeptAside
from app.markup import Html, el
from app.order_text import table
from app.paging import page_of
from app.time_text import amount, counted, duration, exact_time, since
from app.verdict_signs import OBSERVER_SIGNS, Tone, badge

ROWS_A_PAGE = 50


def show() -> None:
    """Write the page."""
    live.looked_again(_collector, every_s=live.LIVE_EVERY_S)
    live.looked_again(_kept_aside, every_s=live.CHARTS_EVERY_S)


def _collector() -> None:
    status, zone = live.collector().status(), live.zone()
    with st.container(key="collector-facts"):
        live.write(el("h3", "Collector"))
        live.write(_facts(status))
    with st.container(key="observer-table"):
        live.write(
            el("h3", "Observers", el("small", " each source that is watched; one that fails leaves the others alone"))
        )
        live.write(_observers(status.observers, zone))


def _facts(status: Status) -> Html:
    history = status.history
    orders = live.why_no_orders(status) or f"{status.name} may give orders."
    written = (
        badge("✖", f"cannot be written: {history.error}", Tone.URGENT, "orders are refused until it can")
        if history.error
        else badge("✔", "written", Tone.GOOD)
    )
    waiting = f" {counted(history.waiting, 'row')} not on disk yet" if history.waiting else ""
    facts: list[tuple[str, object]] = [
        ("cluster", f"{status.cluster or 'not known yet'} at {status.bootstrap}"),
        ("who asks", f"{status.name} ({status.role.value})"),
        ("orders", orders),
        ("events taken in", amount(status.events)),
        ("history", [written, waiting]),
    ]
    if history.set_aside:
        facts.append(("damaged files set aside", ", ".join(history.set_aside)))
    pairs = [(el("dt", name), el("dd", value)) for name, value in facts]
    return el("dl", *[part for pair in pairs for part in pair], class_="facts")


def _observers(observers: Sequence[Observer], zone: tzinfo) -> Html:
    return table(
        ["Observer", "State", "Since", "Last good look", "Records", "What it says"],
        [
            [
                one.name,
                badge(*_sign(one)),
                el("span", since(one.since_ms, zone), title=exact_time(one.since_ms, zone)),
                f"{duration(one.delay_ms)} ago" if one.delay_ms is not None else "–",
                amount(one.records),
                one.error or "–",
            ]
            for one in observers
        ],
    )


def _sign(one: Observer) -> tuple[str, str, Tone]:
    sign, tone = OBSERVER_SIGNS.get(one.state, ("?", Tone.NOTICE))
    return sign, one.state, tone


def _kept_aside() -> None:
    records, zone = live.collector().malformed(), live.zone()
    live.write(el("h3", "Kept aside", el("small", _how_many(records))))
    if not records:
        live.write(el("p", "✔ Every record was understood.", class_="quiet"))
        return
    shown = page_of(records, most=ROWS_A_PAGE, key="malformed-page")
    with st.container(key="malformed-table"):
        live.write(_records(shown, zone))


def _how_many(records: Rows[KeptAside]) -> str:
    more = f", {counted(records.more, 'earlier one')} not shown" if records.more else ""
    return f" {counted(len(records), 'record')} that could not be understood, newest first{more}" if records else ""


def _records(records: Sequence[KeptAside], zone: tzinfo) -> Html:
    return table(
        ["When", "Source", "Partition · offset", "What is wrong", "It begins"],
        [
            [
                exact_time(one.at_ms, zone),
                one.source,
                f"{amount(one.partition)} · {amount(one.offset)}",
                one.error,
                el("code", one.value),
            ]
            for one in records
        ],
    )
