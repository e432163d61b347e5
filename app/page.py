"""The pages, in the order an engineer on call needs them. Streamlit runs this file; ``indoubt app`` starts it.

Tests find widgets by their keys: Streamlit writes ``key`` as the CSS class ``st-key-<key>``. Live regions have none in them: a card
is an ``article``, its buttons have ``data-order``, links and buttons ``data-click``.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from indoubt.app import live
from indoubt.app.components import bar, shown_cluster
from indoubt.app.components.bar import ALL
from indoubt.app.components.markup import el, join
from indoubt.app.components.time_text import UTC_NAME
from indoubt.app.dialogs import button_clicks, filter_order_dialog, order_form, run_lines, transactions_dialog
from indoubt.app.screens import (
    aborts,
    alerts,
    audit,
    batches,
    checkpoints,
    clusters,
    collector_status,
    fault_injection,
    ids,
    losses,
    overview,
    pending,
    pipelines,
    readers,
    search,
    sections,
    timeouts,
    trends,
)
from indoubt.app.screens.objects import alert, batch, partition, pipeline, transaction

HERE = Path(__file__).parent
# What the keys of static/keys.js do, in one line below each page. c and a open a dialog; no key gives an order.
_KEYS_OF_ITEMS = {"j": "next", "k": "previous", "Enter": "open", "c": "commit …", "a": "abort …"}


def _named_key(key: str, what: str) -> list[object]:
    return [el("kbd", key), f" {what} \u2003"]


_KEYS = el(
    "p",
    *_named_key("/", "search"),
    # static/live.js hides it on a page without cards and rows that have keys.
    el("span", join(_named_key(key, what) for key, what in _KEYS_OF_ITEMS.items()), data_of_items=""),
    class_="keys",
)


def main() -> None:
    """Write the frame, the chosen page, and the open dialog."""
    offers_faults = live.settings().fault_injection_url is not None
    st.set_page_config(
        page_title="indoubt",
        page_icon=str(HERE / "static" / "icon.svg"),
        layout="wide",
        # Streamlit's auto: open on a desk, closed on a phone, where it would cover the page.
        initial_sidebar_state="auto" if offers_faults else "collapsed",
    )
    st.logo(str(HERE / "static" / "logo.svg"), size="medium")
    st.html(HERE / "static" / "style.css")
    of_all = (
        [st.Page(clusters.show, title=ALL, url_path="clusters", default=True)] if len(live.collectors()) > 1 else []
    )
    pages = [
        *of_all,
        st.Page(overview.show, title="Overview", url_path="overview" if of_all else "first", default=not of_all),
        sections.page(
            "Transactions", "transactions", {"pending": ("Pending", pending.show), "batches": ("Batches", batches.show)}
        ),
        st.Page(readers.show, title="Readers", url_path="readers"),
        sections.page(
            "Pipelines",
            "pipelines",
            {
                "pipelines": ("Pipelines", pipelines.show),
                "checkpoints": ("Checkpoints", checkpoints.show),
                "timeouts": ("Timeouts", timeouts.show),
            },
        ),
        st.Page(alerts.show, title="Alerts", url_path="alerts"),
        sections.page(
            "History",
            "history",
            {
                "aborts": ("Aborts", aborts.show),
                "losses": ("Losses", losses.show),
                "ids": ("Ids", ids.show),
                "trends": ("Trends", trends.show),
                "search": ("Search", search.show),
            },
        ),
        st.Page(audit.show, title="Audit", url_path="audit"),
        st.Page(collector_status.show, title="Collector", url_path="collector", visibility="hidden"),
    ]
    if not of_all:
        # Streamlit shows the first page at no path but the root, and links name this one.
        pages.append(st.Page(overview.show, title="Overview", url_path="overview", visibility="hidden"))
    by_path = {page.url_path: page for page in pages} | {"overview": pages[len(of_all)]}
    of_objects = _of_objects()
    page = st.navigation([*pages, *of_objects], position="top")
    shown_cluster.begin_page("" if page in of_all else shown_cluster.name())
    live.read_rights()
    button_clicks.go_where_clicked(by_path | {page.url_path: page for page in of_objects}, page)
    if offers_faults:
        with st.sidebar:
            live.auto_refresh(fault_injection.show, every_s=fault_injection.EVERY_S)
    with st.container(horizontal=True, vertical_alignment="center", key="topline"):
        button_clicks.show_region("frame")
        live.write(bar.SEARCH)
        live.write(
            bar.menu(_zones(), live.zone_name(), st.session_state.get("who", ""), st.session_state.get("rights"))
        )
    if page in of_all:
        page.run()
    elif of_all and not shown_cluster.name():
        clusters.ask_which()
    elif wrong := live.wrong_cluster():
        order_form.write_complaint(wrong)
        if of_all:
            clusters.ask_which()
    else:
        run_lines.show(filter_order_dialog.DIALOG.open_again)
        transactions_dialog.DIALOG.show_last_result()
        page.run()
    live.write(_KEYS)
    button_clicks.show_open_dialog()


def _of_objects() -> list[st.Page]:
    """Return a page for each kind of object, in no navigation."""
    shown = {
        "transaction": transaction.show,
        "batch": batch.show,
        "pipeline": pipeline.show,
        "alert": alert.show,
        "partition": partition.show,
    }
    return [st.Page(show, title=name.capitalize(), url_path=name, visibility="hidden") for name, show in shown.items()]


def _zones() -> list[str]:
    """Return the zones to choose from: UTC, the browser's, and the one that is shown, for which a link may have asked."""
    of_browser = st.context.timezone or UTC_NAME
    if of_browser in ("Etc/UTC", "Etc/GMT"):
        of_browser = UTC_NAME
    return list(dict.fromkeys([UTC_NAME, of_browser, live.zone_name()]))


main()
