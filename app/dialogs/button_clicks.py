"""What a click in a live region does: it opens a dialog on what the collector now says of its subject, or another page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.components import brush, shown_cluster, sorting, viewer_choices
from indoubt.app.components.links_and_buttons import (
    FILTER,
    AskOrder,
    AskSilence,
    ChooseTime,
    ChooseZone,
    OpenPage,
    ShowNew,
    SortBy,
    read_click,
)
from indoubt.app.components.time_text import is_zone
from indoubt.app.components.transaction_groups import TransactionGroup
from indoubt.app.dialogs import (
    filter_order_dialog,
    order_form,
    silence_dialog,
    standing_orders_dialog,
    target_dialogs,
    transactions_dialog,
)
from indoubt.app.dialogs.dialog import Dialog
from indoubt.app.regions import component
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.transactions import TransactionRow

_GO_TO, _FAILED = "go_to", "click_failed"
MAX_ASKED_ONE_BY_ONE = 50
MOST_SWITCHES = 3
"""Of one click: a page that changes its own address would be asked for without end."""


DIALOGS: Sequence[Dialog[Any]] = (
    transactions_dialog.DIALOG,
    target_dialogs.BATCH,
    target_dialogs.PIPELINE,
    filter_order_dialog.DIALOG,
    silence_dialog.DIALOG,
    standing_orders_dialog.DIALOG,
)


def show_open_dialog() -> None:
    """Show the dialog that is open. Called once per run of the page, outside every fragment."""
    for dialog in DIALOGS:
        dialog.show_if_asked()


def show_region(name: str, query: Mapping[str, str] | None = None) -> None:
    """Write the live region of this name; clicks in it open dialogs and pages."""
    order_form.write_complaint(st.session_state.pop(_FAILED, ""))
    cluster = shown_cluster.name()
    # Orders are off unless mayOrder, silences unless maySilence; whyNot is what says so. The browser keeps what is to remember.
    viewer = {
        "mayOrder": bool(st.session_state.get("may_order")),
        "maySilence": bool(st.session_state.get("is_operator")),
        "whyNot": str(st.session_state.get("why_no_orders", "")),
        "zone": live.zone_name(),
        "remember": live.remembered(),
        "cluster": cluster,
    }
    query = {**(query or {}), **({page_paths.CLUSTER: cluster} if cluster else {})}
    component.show(name, query, viewer, on_click=handle)


def handle(text: str) -> None:
    """Do what a click asks for; what cannot be done is said on the page."""
    click = read_click(text)
    if isinstance(click, AskOrder | AskSilence) and click.cluster != shown_cluster.name():
        st.session_state[_FAILED] = "Nothing was opened: this page shows another cluster now."
        return
    try:
        match click:
            case OpenPage(path=path):
                st.session_state[_GO_TO] = (path, 0)
            case AskOrder():
                _ask_order(click)
            case AskSilence():
                _ask_silence(click)
            case ShowNew():
                # The click has the table written again: nothing else is to be done.
                pass
            case ChooseTime(first_ms=first_ms, last_ms=last_ms):
                brush.keep((first_ms, last_ms))
            case ChooseZone(name=name) if is_zone(name):
                viewer_choices.ZONE.choose(name)
            case SortBy(name=name, wanted=wanted):
                sorting.keep(name, wanted)
            case _:
                st.session_state[_FAILED] = "The browser sent a click that this app does not know: reload the page."
    except CollectorError as error:
        st.session_state[_FAILED] = f"Nothing was opened: {error}"


def go_where_clicked(pages: Mapping[str, st.Page], shown: st.Page) -> None:
    """Go to the page that a click asked for; ``pages`` by their path. Called once per run, before a page is written.

    A widget that is clicked meanwhile asks for the page on which it stands (``shown``), and its run replaces the one that changes
    the page. So what was asked for is kept until a run is there.
    """
    if _GO_TO not in st.session_state:
        return
    asked, tries = st.session_state[_GO_TO]
    path = urlsplit(shown_cluster.within(asked))
    page, query = pages.get(path.path.strip("/")), parse_qsl(path.query)
    is_there = page is not None and page.url_path == shown.url_path and st.query_params.to_dict() == dict(query)
    if page is None or is_there or tries == MOST_SWITCHES:
        del st.session_state[_GO_TO]
        return
    st.session_state[_GO_TO] = (asked, tries + 1)
    st.switch_page(page, query_params=query)


def _ask_order(click: AskOrder) -> None:
    if click.subject == "pipeline":
        pipeline = next((row for row in live.collector().pipelines() if row.key in click.keys), None)
        is_there = pipeline is not None
        if pipeline is not None:
            target_dialogs.PIPELINE.ask(click.action, pipeline)
    elif click.subject == "batch":
        batch = next((row for row in live.collector().batches() if row.key in click.keys), None)
        is_there = batch is not None
        if batch is not None:
            target_dialogs.BATCH.ask(click.action, batch)
    elif click.subject == FILTER:
        wanted = dict(entry.partition("=")[::2] for entry in click.keys)
        is_there = filter_order_dialog.DIALOG.ask(click.action, wanted)
    else:
        now = transactions_of(live.collector(), click.keys)
        shown = TransactionGroup(transactions=now).orderable(click.action) if now else ()
        is_there = bool(shown)
        if shown:
            transactions_dialog.DIALOG.ask(click.action, shown)
    if not is_there:
        st.session_state[_FAILED] = "It has ended or changed since this page showed it: nothing is left to order."


def _ask_silence(click: AskSilence) -> None:
    if click.number is not None:
        silences = [row for row in live.collector().silences() if row.silence == click.number]
        if silences:
            silence_dialog.DIALOG.ask_to_end(silences[0])
        else:
            st.session_state[_FAILED] = "The collector does not keep this silence any more: nothing is left to end."
        return
    alerts = [row for row in live.collector().alerts() if row.key == click.alert]
    if alerts:
        silence_dialog.DIALOG.ask_to_silence(alerts[0])
    else:
        st.session_state[_FAILED] = "This alert has gone since this page showed it: nothing is left to silence."


def transactions_of(client: CollectorClient, keys: Sequence[str]) -> tuple[TransactionRow, ...]:
    """Return the transactions of these keys as they are now, in this order; those that are gone are left out."""
    known = _by_key([*client.transactions(), *client.hanging()])
    for key in [key for key in keys if key not in known][:MAX_ASKED_ONE_BY_ONE]:
        try:
            known[key] = client.transaction(key)
        except CollectorError as error:
            if error.failure is not Failure.UNKNOWN_KEY:
                raise
    return tuple(known[key] for key in keys if key in known)


def _by_key(rows: Iterable[TransactionRow]) -> dict[str, TransactionRow]:
    return {row.key: row for row in rows}
