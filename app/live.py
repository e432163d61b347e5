"""What every page stands on: the collector's client, fragments that look again by themselves, and the line that says so
when the collector cannot be asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path

import streamlit as st
import streamlit.components.v2 as components

from app.collector_client import CollectorClient, CollectorError, Failure
from app.collector_rows import Role, Status
from app.markup import Html, el, join
from app.settings import Settings
from app.time_text import clock_time, counted, exact_time, since, zone_named

URGENT_EVERY_S = 0.5
"""For what needs a hand: a transaction is to be on the page within a second of its opening."""
LIVE_EVERY_S = 1.0
CHARTS_EVERY_S = 5.0

_LOST_SINCE = "lost_since_ms"
_clock = components.component("indoubt_clock", js=Path(__file__).with_name("clock.js").read_text(encoding="utf-8"))


@st.cache_resource
def settings() -> Settings:
    """Return the settings the process was started with."""
    return Settings.from_environment()


@st.cache_resource(on_release=lambda client: client.close())
def collector() -> CollectorClient:
    """Return the one client of this process; it may be used from many sessions at once."""
    return CollectorClient(settings())


def zone() -> tzinfo:
    """Return the zone in which this reader wants absolute times."""
    return zone_named(st.context.timezone) if st.session_state.get("times") == "local" else UTC


def write(markup: Html) -> None:
    """Write markup that was built by app.markup, and nothing else."""
    st.html(markup)


def looked_again(body: Callable[[], None], *, every_s: float) -> None:
    """Run ``body`` now and every ``every_s`` seconds; it reads all it needs before it writes.

    When the collector cannot be asked it writes one line instead, and comes back by itself.
    """

    @st.fragment(run_every=every_s, key=f"{body.__module__}-{body.__qualname__}")
    def look() -> None:
        if st.session_state.pop("show_dialog", False):
            st.rerun()
        try:
            body()
        except CollectorError as error:
            if not error.is_lost:
                _say_what_failed(error)

    look()


def top_line() -> None:
    """Write the line above every page: is it live, which cluster, who asks. It alone says that the collector is lost."""
    try:
        status = collector().status()
    except CollectorError as error:
        _say_what_failed(error)
        return
    st.session_state.pop(_LOST_SINCE, None)
    st.session_state["may_order"] = status.may_order
    st.session_state["is_operator"] = status.role is Role.OPERATOR
    st.session_state["why_no_orders"] = why_no_orders(status)
    _clock(data={"nowMs": status.now_ms}, key="clock", height=0)
    write(_who_and_where(status))


def why_no_orders(status: Status) -> str:
    """Return why the buttons are off, or nothing when they are on."""
    if status.read_only:
        return "The collector is in read-only mode: it takes no orders."
    return "" if status.may_order else f"{status.name} is a viewer: orders need an operator's token."


def _who_and_where(status: Status) -> Html:
    down = [observer for observer in status.observers if observer.state == "down"]
    return el(
        "div",
        el("span", "live", class_="look", data_look="", role="status"),
        el("span", "cluster ", el("b", status.cluster or "?"), f" at {status.bootstrap}"),
        down and el("span", f"✖ {counted(len(down), 'observer')} down: see Collector", class_="badge warning"),
        status.history.error
        and el("span", "✖ history cannot be written, orders are refused: see Collector", class_="badge urgent"),
        status.malformed > 0
        and el(
            "span", f"{counted(status.malformed, 'malformed record')} kept aside: see Collector", class_="badge notice"
        ),
        el(
            "span",
            el("b", status.name),
            f" ({status.role.value}{', read only' if status.read_only else ''})",
            class_="who",
        ),
        class_="topline",
    )


def _say_what_failed(error: CollectorError) -> None:
    if not error.is_lost:
        write(el("div", el("b", "✖ "), str(error), class_="lost", role="alert"))
        return
    lost_since_ms = st.session_state.setdefault(_LOST_SINCE, int(time.time() * 1000))
    heading = {
        Failure.TOKEN: "The collector refuses this app's token",
        Failure.NOT_READY: "The collector is loading its history",
        Failure.TOO_MANY: "The collector was asked too often",
    }.get(error.failure, "The collector does not answer")
    # The collector's clock is out of reach now: this one line counts by the app's own.
    _clock(data={"nowMs": int(time.time() * 1000)}, key="clock", height=0)
    parts = [
        el("b", "✖ ", heading),
        f" at {collector().address} since {clock_time(lost_since_ms, zone())} {_zone_name(lost_since_ms)} (",
        since(lost_since_ms, zone()),
        f"): {error}. Nothing below can be shown until it does; this page tries again every second.",
    ]
    with st.container(key="collector-lost"):
        write(el("div", join(parts), class_="lost", role="alert"))


def _zone_name(at_ms: int) -> str:
    return exact_time(at_ms, zone()).rsplit(" ", 1)[-1]
