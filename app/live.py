"""What all pages share: the settings, the collector's client, who reads them and in which zone, and their refreshing parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import tzinfo

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from indoubt.app.client.collector_client import CollectorClient, CollectorError
from indoubt.app.components import viewer_choices
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import UTC_NAME, is_zone, zone_named
from indoubt.app.settings import Settings
from indoubt.app.sign_in.guard import SIGN_OUT_HEADER
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import NAME_HEADER, ROLE_HEADER, Person, person
from indoubt.lifecycle.rows.status import Status

SHARED_FOR_S = 0.25
"""A tab may reuse another tab's answer for this long: half of the shortest refresh interval."""
LIVE_EVERY_S = 1.0
CHARTS_EVERY_S = 5.0


@st.cache_resource
def settings() -> Settings:
    """Return the settings of this process."""
    return Settings.from_environment()


@st.cache_resource(on_release=lambda client: client.close())
def collector() -> CollectorClient:
    """Return the process's only client; sessions share it."""
    return CollectorClient(settings(), shared_for_s=SHARED_FOR_S, asking_person=asking_person)


def asking_person() -> Person | None:
    """Return who signed in to this session, None where nobody signs in, and outside of any session."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return None
    headers = st.context.headers
    return person(headers.get(NAME_HEADER), headers.get(ROLE_HEADER))


def zone() -> tzinfo:
    """Return the zone in which this user reads absolute times."""
    return zone_named(zone_name())


def zone_name() -> str:
    """Return the name of that zone: the one in the address, else the one that was chosen or is remembered, else UTC."""
    return viewer_choices.ZONE.read(is_zone) or UTC_NAME


def remembered() -> dict[str, str]:
    """Return what this browser keeps of the user's choices, by the names of its cookies; empty: nothing was chosen."""
    return {choice.cookie: choice.remembered for choice in viewer_choices.REMEMBERED}


def write(markup: Html) -> None:
    """Write markup that app.components.markup built."""
    st.html(markup)


def auto_refresh(body: Callable[[], None], *, every_s: float | None) -> None:
    """Run ``body`` now and every ``every_s`` seconds (None: not by itself); it reads all that it needs before it writes.

    If a request fails, the fragment writes the error instead, and tries again after ``every_s``, or after 5 s. One that runs by
    itself goes on showing what it showed before while the collector is away: the line at the top says how old that is.
    """
    shown = f"shown-{body.__module__}-{body.__qualname__}"

    def write_now() -> None:
        if every_s is None:
            body()
            return
        with collector().kept_answers.keeping():
            body()
        st.session_state[shown] = True

    def write_as_before(error: CollectorError) -> bool:
        if not (error.is_lost and st.session_state.get(shown)):
            return False
        try:
            with collector().kept_answers.looking_back():
                body()
        except (CollectorError, StreamlitAPIException):
            # Not all was kept, or a part of it was written already.
            return False
        return True

    @st.fragment(run_every=every_s, key=f"{body.__module__}-{body.__qualname__}")
    def refresh() -> None:
        if st.session_state.pop("show_dialog", False):
            st.rerun()
        try:
            write_now()
        except CollectorError as error:
            if write_as_before(error):
                return
            write(el("div", el("b", "✖ "), str(error), class_="lost", role="alert"))
            if every_s is None:
                _try_again(f"again-{body.__module__}-{body.__qualname__}")

    refresh()


def _try_again(key: str) -> None:
    """Write the page again after a while; by then this is not asked for any more, or once more."""
    failed_s = time.monotonic()

    @st.fragment(run_every=CHARTS_EVERY_S, key=key)
    def again() -> None:
        # The first run follows the failure at once.
        if time.monotonic() - failed_s > CHARTS_EVERY_S / 2:
            st.rerun()

    again()


def read_rights() -> None:
    """Keep in the session who this is and what they may order; once per run of a page, before anything is written."""
    try:
        status = collector().status()
    except CollectorError as error:
        st.session_state["may_order"] = st.session_state["is_operator"] = False
        st.session_state["why_no_orders"] = f"The collector does not answer: {error}"
        return
    st.session_state["who"] = _who(status)
    st.session_state["may_order"] = status.may_order
    st.session_state["is_operator"] = status.role is Role.OPERATOR
    st.session_state["why_no_orders"] = why_no_orders(status)


def _who(status: Status) -> Html:
    rights = f"{status.role.value}{', read only' if status.read_only else ''}"
    signed_in = asking_person()
    if signed_in is None:
        return el("span", "no sign-in: orders are audited as ", el("b", status.name), f" ({rights})", class_="who")
    sign_out = st.context.headers.get(SIGN_OUT_HEADER)
    leave = [" · ", el("a", "sign out", href=sign_out, target="_self")] if sign_out else None
    return el("span", el("b", signed_in.name), f" ({rights})", leave, class_="who")


def why_no_orders(status: Status) -> str:
    """Return why the order buttons are off, or an empty text."""
    if status.read_only:
        return "The collector is read-only: it accepts no orders."
    return "" if status.may_order else f"{status.name} is a viewer: orders need an operator."
