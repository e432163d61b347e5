"""What all pages share: the collector's client, fragments that refresh themselves, and the line at the top of each page."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path

import streamlit as st
import streamlit.components.v2 as components

from app.client.collector_client import CollectorClient, CollectorError, Failure
from app.components.markup import Html, el, join
from app.components.time_text import clock_time, counted, exact_time, since, zone_named
from app.settings import Settings
from lifecycle.orders import Role
from lifecycle.rows.status import Status

URGENT_EVERY_S = 0.5
"""For transactions that need attention: a new one is on the page within a second."""
LIVE_EVERY_S = 1.0
SHARED_FOR_S = 0.25
"""A tab may reuse another tab's answer for this long: half of the shortest refresh interval."""
CHARTS_EVERY_S = 5.0

_LOST_SINCE = "lost_since_ms"
_clock = components.component(
    "indoubt_clock", js=(Path(__file__).parent / "static" / "clock.js").read_text(encoding="utf-8")
)


@st.cache_resource
def settings() -> Settings:
    """Return the settings of this process."""
    return Settings.from_environment()


@st.cache_resource(on_release=lambda client: client.close())
def collector() -> CollectorClient:
    """Return the process's only client; sessions share it."""
    return CollectorClient(settings(), shared_for_s=SHARED_FOR_S)


def zone() -> tzinfo:
    """Return the zone in which this user reads absolute times."""
    return zone_named(st.context.timezone) if st.session_state.get("times") == "local" else UTC


def write(markup: Html) -> None:
    """Write markup that app.components.markup built."""
    st.html(markup)


def auto_refresh(body: Callable[[], None], *, every_s: float) -> None:
    """Run ``body`` now and every ``every_s`` seconds; it reads all that it needs before it writes.

    If a request fails, the fragment writes the error instead, and tries again after ``every_s``.
    """

    @st.fragment(run_every=every_s, key=f"{body.__module__}-{body.__qualname__}")
    def refresh() -> None:
        if st.session_state.pop("show_dialog", False):
            st.rerun()
        try:
            body()
        except CollectorError as error:
            if not error.is_lost:
                _write_error(error)

    refresh()


def top_line() -> None:
    """Write the line above every page: how fresh it is, which cluster, which user. Only here a lost collector is reported."""
    try:
        status = collector().status()
    except CollectorError as error:
        _write_error(error)
        return
    st.session_state.pop(_LOST_SINCE, None)
    st.session_state["may_order"] = status.may_order
    st.session_state["is_operator"] = status.role is Role.OPERATOR
    st.session_state["why_no_orders"] = why_no_orders(status)
    _clock(data={"nowMs": status.now_ms}, key="clock", height=0)
    write(_who_and_where(status))


def why_no_orders(status: Status) -> str:
    """Return why the order buttons are off, or an empty text."""
    if status.read_only:
        return "The collector is read-only: it accepts no orders."
    return "" if status.may_order else f"{status.name} is a viewer: orders need an operator."


def _who_and_where(status: Status) -> Html:
    down = [observer for observer in status.observers if observer.state == "down"]
    return el(
        "div",
        el("span", "live", class_="refreshed", data_refreshed="", role="status"),
        el("span", "cluster ", el("b", status.cluster or "?"), f" at {status.bootstrap}"),
        down and el("span", f"✖ {counted(len(down), 'observer')} down: see Collector", class_="badge warning"),
        status.history.error
        and el("span", "✖ history cannot be written; orders are refused: see Collector", class_="badge urgent"),
        status.quarantined > 0
        and el(
            "span",
            f"{counted(status.quarantined, 'malformed record')} quarantined: see Collector",
            class_="badge notice",
        ),
        el(
            "span",
            el("b", status.name),
            f" ({status.role.value}{', read only' if status.read_only else ''})",
            class_="who",
        ),
        class_="topline",
    )


def _write_error(error: CollectorError) -> None:
    if not error.is_lost:
        write(el("div", el("b", "✖ "), str(error), class_="lost", role="alert"))
        return
    lost_since_ms = st.session_state.setdefault(_LOST_SINCE, int(time.time() * 1000))
    heading = {
        Failure.TOKEN: "The collector refuses this app's token",
        Failure.NOT_READY: "The collector is loading its history",
        Failure.TOO_MANY: "The collector limits the number of requests",
    }.get(error.failure, "The collector does not answer")
    # The collector's clock is unreachable, so this line counts by the app's clock.
    _clock(data={"nowMs": int(time.time() * 1000)}, key="clock", height=0)
    parts = [
        el("b", "✖ ", heading),
        f" at {collector().address} since {clock_time(lost_since_ms, zone())} {_zone_name(lost_since_ms)} (",
        since(lost_since_ms, zone()),
        f"): {error}. This page shows no data until it answers, and tries again every second.",
    ]
    with st.container(key="collector-lost"):
        write(el("div", join(parts), class_="lost", role="alert"))


def _zone_name(at_ms: int) -> str:
    return exact_time(at_ms, zone()).rsplit(" ", 1)[-1]
