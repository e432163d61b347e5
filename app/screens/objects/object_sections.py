"""What the pages of objects have in common: alerts about one, its partitions, transactions in tables, links to copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlencode, urlsplit

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import shown_cluster, viewer_choices
from indoubt.app.components.attention_card import card
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, compared, el, widget_token
from indoubt.app.components.object_names import key_link, key_text, partition_links
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import ago, amount, at, duration, exact, since, time_left
from indoubt.app.components.transaction_groups import grouped, order_buttons
from indoubt.app.components.verdict_signs import badge, outcome_sign, state_text, verdict_badge
from indoubt.app.regions.region_content import RegionContent
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchTransactionRow
from indoubt.lifecycle.rows.events import EndedTransactionRow
from indoubt.lifecycle.rows.orders import UnderWayRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.rows.transactions import TransactionDetailRow, TransactionRow
from indoubt.lifecycle.verdicts import Verdict

MOST_KEYS, ORDERS_SHOWN = 100, 20
"""So many keys takes GET /audit; so many of the newest orders are shown."""
_LEVELS = {"committed": "high", "aborted": "middle", "lost, then written again": "middle", "lost": "low"}
"""The colour of a bar by how the transaction ended (style.css); the state's word stands beside it."""


SIBLING_HEAD = ["Transaction", "Slot", "State", "Verdict", "Rows"]


def transaction_cells(transaction: BatchTransactionRow, shown: str = "") -> list[object]:
    """Return the cells of one transaction of a batch; ``shown``: the key of the one whose page this is."""
    return [
        el("b", key_text(transaction.key)) if transaction.key == shown else key_link(transaction.key),
        "–" if transaction.slot is None else str(transaction.slot),
        state_text(transaction.state),
        verdict_badge(transaction.verdict, transaction.certainty)
        if transaction.verdict is not Verdict.SETTLED
        else "settled",
        amount(transaction.rows),
    ]


def alerts_of(detail: TransactionDetailRow, alerts: Sequence[AlertRow]) -> list[AlertRow]:
    """Return the alerts about a transaction or its batch that stand, or were found while it was open."""
    # An alert may have named it before its start was known; one about readers has the page of their partition.
    paths = {page_paths.transaction(detail.key), page_paths.transaction(detail.key.rpartition("@")[0] or detail.key)}
    return [
        alert
        for alert in alerts
        if alert.path in paths
        or (detail.batch is not None and alert.path == page_paths.batch(detail.pipeline, detail.batch))
        or (alert.labels.get("transaction") == detail.transaction and _was_open_at(detail, alert.found_at_ms))
    ]


def _was_open_at(detail: TransactionDetailRow, at_ms: int) -> bool:
    ended_ms = max((step.at_ms for step in detail.timeline), default=at_ms) if detail.state.is_final else at_ms
    return (detail.opened_at_ms or at_ms) <= at_ms <= ended_ms


def alert_list(alerts: Sequence[AlertRow]) -> Html:
    """Return the alerts as a list, each with a link to its page, where it can be silenced."""
    if not alerts:
        return el("section", el("h3", "Alerts"), el("p", "None about it.", class_="empty"))
    items = [
        el("li", link(page_paths.alert(alert.key), f"{alert.rule} {alert.name}"),
           f" {alert.state} ", el("small", "since ", at(alert.since_ms)), f" {alert.summary}")
        for alert in alerts
    ]  # fmt: skip
    return el("section", el("h3", "Alerts"), el("ul", *items))


def cards_of(client: CollectorClient, is_about: Callable[[Attention], bool]) -> RegionContent:
    """Return the parts of incidents about an object, one block each: who waits, the time left, the remedy."""
    return {f"needs-{widget_token(item.key)}": card(item) for item in client.parts() if is_about(item)}


def under_way(client: CollectorClient, keys: Sequence[str]) -> Html:
    """Return a line for each order about these that is under way, whoever gave it: the collector knows, not this process."""
    return el("section", *[_under_way(order) for order in client.under_way(keys[:MOST_KEYS])])


def _under_way(order: UnderWayRow) -> Html:
    what = el("b", f"◌ {order.action.capitalize()}")
    by_whom = f". Ordered by {order.who}: {order.reason}"
    if order.audit is None:
        return el("p", what, ": under way for ", since(order.at_ms), by_whom, class_="more", role="status")
    unknown = f", and the collector looks up how it ended (audit {order.audit})"
    return el("p", what, ": sent ", ago(order.at_ms), unknown, by_whom, class_="more", role="status")


def orders_about(client: CollectorClient, keys: Sequence[str]) -> Sequence[AuditRow]:
    """Return the newest orders about what these keys name."""
    if not keys:
        # Without keys the collector would tell of all orders.
        return ()
    return client.audit(keys=keys[:MOST_KEYS], limit=ORDERS_SHOWN)


def order_list(orders: Sequence[AuditRow]) -> Html:
    """Return orders and their results."""
    rows = [
        [at(row.at_ms), row.action, row.who, row.reason, badge(*outcome_sign(row.outcome)), f"audit {row.audit}"]
        for row in orders
    ]
    none = el("p", "No order was given about it.", class_="empty")
    listed = table(["Time", "Order", "Who", "Reason", "Outcome", "Entry"], rows) if rows else none
    return el("section", el("h3", "Orders"), listed)


def not_there(error: str, *, search: str = page_paths.SEARCH) -> Html:
    """Return what a page says whose object the collector does not know; ``search``: where it may be found."""
    return el("p", error[:1].upper() + error[1:], ". ", link(search, "Search the history"), class_="empty")


def open_table(transactions: Sequence[TransactionRow], known: Sequence[TransactionRow] = ()) -> Html:
    """Return open transactions, each with a link to its page; the first of a batch or application has its orders.

    ``known``: also those that are not shown, with which they are ordered.
    """
    groups = grouped({row.key: row for row in (*known, *transactions)}.values())
    of_group = {row.key: group for group in groups for row in group.transactions}
    firsts = {id(of_group[row.key]): row.key for row in reversed(transactions)}
    rows = [
        [
            verdict_badge(row.verdict, row.certainty),
            link(page_paths.transaction(row.key), row.transaction),
            link(page_paths.pipeline(row.pipeline), row.pipeline),
            state_text(row.state, row.written_again_at_ms),
            "ended" if row.state.is_final else since(row.opened_at_ms),
            time_left(row.deadline_ms),
            amount(row.rows),
            order_buttons(of_group[row.key]) if firsts[id(of_group[row.key])] == row.key else [],
        ]
        for row in transactions
    ]
    head = ["Verdict", "Transaction", "Application", "State", "Open for", "Time left", "Rows", "Orders"]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return table(head, rows)


def ended_table(ended: Sequence[EndedTransactionRow], *, with_partitions: bool = True) -> Html:
    """Return transactions with bars for how long they were open; colour and word say how each ended."""
    longest = max((row.open_ms or 0 for row in ended), default=0)
    rows = [
        [
            link(page_paths.transaction(row.key), exact(row.opened_at_ms)),
            row.transaction,
            link(page_paths.batch(row.pipeline, row.batch), str(row.batch)) if row.batch is not None else "–",
            state_text(row.state, row.written_again_at_ms),
            _open_for(row, longest),
            amount(row.rows),
            *([el("small", partition_links(row.partitions))] if with_partitions else []),
        ]
        for row in ended
    ]
    head = ["Opened", "Transaction", "Batch", "State", "Open for", "Rows", *(["Partitions"] if with_partitions else [])]
    return table(head, rows)


def _open_for(row: EndedTransactionRow, longest_ms: int) -> Html:
    if row.open_ms is None:
        return el("span", "–")
    return compared(duration(row.open_ms), row.open_ms, longest_ms, _LEVELS.get(row.state.value))


def page_address(path: str) -> str:
    """Return the whole address of a page of this app, as the browser has it: whoever opens it reads times in the same zone."""
    parts, path = urlsplit(st.context.url or ""), shown_cluster.within(path)
    path = f"{path}{'&' if '?' in path else '?'}{urlencode({viewer_choices.ZONE.name: live.zone_name()})}"
    return f"{parts.scheme}://{parts.netloc}{path}" if parts.netloc else path


def share(address: str, note: str, file_name: str) -> None:
    """Write the buttons that show the link to copy, and the incident note in Markdown to copy or download."""
    with st.container(horizontal=True, key="object-share"):
        link_to(address)
        with st.popover("Incident note", key="incident-note"):
            st.code(note, language="markdown", wrap_lines=True)
            st.download_button("Download", note, file_name, "text/markdown", key="note-download")


def link_to(address: str) -> None:
    """Write the button that shows an address with a button to copy it."""
    with st.popover("Copy link", key="copy-link"):
        st.code(address, language=None, wrap_lines=True)
