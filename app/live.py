"""What all pages share: the settings, the collector's client, who reads them and in which zone, and their refreshing parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import tzinfo

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.components import shown_cluster, viewer_choices
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import UTC_NAME, is_zone, zone_named
from indoubt.app.settings import Settings, of_cluster
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
    """Return the settings of this process; what is said of a collector is of the first one."""
    return Settings.from_environment()


def _close(clients: Mapping[str, CollectorClient]) -> None:
    for client in clients.values():
        client.close()


@st.cache_resource(on_release=_close)
def collectors() -> Mapping[str, CollectorClient]:
    """Return the process's clients by the cluster's name, one for each collector; sessions share them."""
    return {
        name: CollectorClient(each, shared_for_s=SHARED_FOR_S, asking_person=asking_person)
        for name, each in Settings.by_cluster().items()
    }


def collector() -> CollectorClient:
    """Return the client of the cluster that this page shows. Raises CollectorError where there is no such cluster."""
    cluster = shown_cluster.name()
    if cluster != shown_cluster.written():
        # A press on the page of one cluster while the browser goes to another's.
        raise CollectorError(Failure.REFUSED, "this page shows another cluster now")
    # One that has no name here was asked for its name by page.py.
    client = of_cluster(collectors(), cluster)
    if client is None:
        raise CollectorError(Failure.UNKNOWN_KEY, unknown_cluster(cluster))
    return client


def unknown_cluster(cluster: str) -> str:
    """Return that there is no such cluster, and which there are."""
    names = ", ".join(collectors())
    return (
        f"these pages show no cluster {cluster!r}, but {names or 'one without a name'}"
        if cluster
        else f"which cluster? {names}"
    )


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
    """Keep in the session who this is, what they may order and where; once per run of a page, before anything is written."""
    try:
        status = collector().status()
    except CollectorError as error:
        st.session_state["may_order"] = st.session_state["is_operator"] = False
        st.session_state["why_no_orders"] = f"{error}."
        return
    signed_in = asking_person()
    name = status.name if signed_in is None else signed_in.name
    st.session_state["who"], st.session_state["rights"] = (
        name,
        _rights(name, status, is_signed_in=signed_in is not None),
    )
    st.session_state["cluster_name"] = status.cluster_name
    st.session_state["may_order"] = status.may_order
    st.session_state["is_operator"] = status.role is Role.OPERATOR
    st.session_state["why_no_orders"] = why_no_orders(status)


def wrong_cluster() -> str:
    """Return why nothing may be shown of the cluster that the address names, or an empty text."""
    cluster = shown_cluster.name()
    try:
        client = collector()
        if not cluster or "" not in collectors():
            return ""
        # It has no name here: only it can say whether it is meant.
        name = client.status().cluster_name
    except CollectorError as error:
        return str(error)
    return (
        "" if name == cluster else f"this address is of cluster {cluster}, and these pages are of {name or 'another'}"
    )


def _rights(name: str, status: Status, *, is_signed_in: bool) -> Html:
    """Return in whose name orders are given from here, or why none are, and where to sign out."""
    said = why_no_orders(status) or f"{'' if is_signed_in else 'Nobody signs in here: '}orders are audited as {name}."
    sign_out = st.context.headers.get(SIGN_OUT_HEADER)
    leave = el("p", el("a", "Sign out", href=sign_out, target="_self")) if sign_out else None
    standby = el("p", f"A standby answers: orders go to {status.standby_of}.") if status.standby_of else None
    return el(
        "div", el("p", el("b", name), f" ({status.role.value})"), el("p", said[:1].upper(), said[1:]), standby, leave
    )


def why_no_orders(status: Status) -> str:
    """Return why the order buttons are off and where orders are given, or an empty text."""
    if status.read_only:
        return "The collector is read-only: it accepts no orders."
    if status.may_order:
        return ""
    signed_in = asking_person()
    if signed_in is not None:
        return f"{signed_in.name} may look, not order: that takes a group of operators."
    return (
        "You may look here, not order: run 'indoubt commit KEY' where indoubt was started, or start it with a sign-in or an "
        "operator's token (docs/security.md)."
    )
