"""Readers: open transactions that hide records from read_committed readers, who waits for them, and every group's lag."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.client.hanging_transactions import HangingTransaction
from indoubt.app.components import list_menu
from indoubt.app.components.facts import evidence_list
from indoubt.app.components.links_and_buttons import card_with_buttons, chip, link
from indoubt.app.components.markup import Html, compared, el, widget_token
from indoubt.app.components.object_names import application_name, cut, partition_link, partition_path
from indoubt.app.components.paging import PAGE, ROWS, page_in_address, page_links, rows_a_page, size_of
from indoubt.app.components.partition_plot import partition_plot
from indoubt.app.components.time_text import amount, since
from indoubt.app.components.transaction_groups import TransactionGroup, order_buttons
from indoubt.app.components.verdict_signs import Tone, card_tone, verdict_badge, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.groups import KINDS
from indoubt.app.screens.sections import in_address
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import MINUTE_MS
from indoubt.lifecycle.rows.partitions import BlockedRow, GroupRow

ROWS_A_PAGE = 50
PATH, ALL = "/readers", "all"
MOST_PLOTS, QUARTER_HOUR_MS = 2, 15 * MINUTE_MS
SHORT_MS = 5_000
"""A partition is held back for so long by each transaction in progress: that is health."""


def show() -> None:
    """Write the page."""
    query, client = in_address(ALL, PAGE), live.collector()
    list_menu.show("readers", lambda: client.blocked(lagging_too=ALL in query), page_size=ROWS_A_PAGE)
    with st.container(key="readers"):
        show_region("readers", query | {ROWS: str(rows_a_page(ROWS_A_PAGE))})
    with st.container(key="groups"):
        show_region("groups")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a card for each hanging transaction, then a row for each partition, one block each."""
    hanging, held = client.hanging(), client.blocked(lagging_too=ALL in query)
    blocked = held if ALL in query else Rows((row for row in held if not _is_short(row)), held.more)
    content: RegionContent = {}
    if hanging:
        why = " no coordinator will end them: their readers wait until you do"
        content["hanging"] = el("h3", "Hanging transactions", el("small", why))
    for transaction in hanging:
        content[f"hanging-{widget_token(transaction.key)}"] = hanging_card(transaction)
    if hanging.more:
        content["more-hanging"] = el("p", f"{counted(hanging.more, 'younger transaction')} not shown.", class_="more")
    if not blocked:
        content["none"] = el("p", "✔ No reader waits.", class_="quiet")
        content["filters"] = _filters(query)
        return content
    content["head"], content["filters"] = _head(blocked), _filters(query)
    return content | _partitions(client, blocked, {transaction.key for transaction in hanging}, query)


def _is_short(row: BlockedRow) -> bool:
    """Say whether a partition is held back for a moment only, and nobody has stopped on it."""
    is_stalled = any(reader.kind == "stalled" for reader in row.groups)
    return not is_stalled and row.held_since_ms is not None and row.seen_at_ms - row.held_since_ms < SHORT_MS


def _partitions(client: CollectorClient, blocked: Rows[BlockedRow], hanging: set[str], query: Query) -> RegionContent:
    shown, number, pages = page_in_address(blocked, query, page_size=size_of(query, ROWS_A_PAGE))
    most_hidden = max(partition.hidden for partition in blocked)
    content: RegionContent = {"columns": _COLUMN_NAMES}
    for partition in shown:
        content[f"partition-{widget_token(partition.topic_partition)}"] = _row(partition, hanging, most_hidden)
    for partition in [row for row in shown if row.hidden][:MOST_PLOTS]:
        series = client.series_of_partition(partition.topic, partition.partition, window_ms=QUARTER_HOUR_MS)
        if any(end is not None for end in series.high_watermark):
            name = el("h4", f"{partition.topic_partition}, the last 15 min")
            content[f"plot-{widget_token(partition.topic_partition)}"] = el("section", name, partition_plot(series))
    if links := page_links(PATH, query, number, pages):
        content["pages"] = links
    if blocked.more:
        content["more"] = el("p", f"{counted(blocked.more, 'partition')} with shorter waits not shown.", class_="more")
    return content


def _head(blocked: Sequence[BlockedRow]) -> Html:
    waiting = {reader.group for partition in blocked for reader in partition.groups if reader.kind == "waiting"}
    hidden = sum(partition.hidden for partition in blocked)
    waits = "waits" if len(waiting) == 1 else "wait"
    where = f"{counted(hidden, 'offset')} hidden on {counted(len(blocked), 'partition')}"
    read = el("time", "", data_at=max(partition.seen_at_ms for partition in blocked))
    return el(
        "h3",
        "Blocked partitions",
        el("small", f" {where}, {counted(len(waiting), 'group')} {waits}; read at ", read),
    )


def _filters(query: Query) -> Html:
    is_on = ALL in query
    path = PATH if is_on else f"{PATH}?{urlencode({ALL: '1'})}"
    text = "include partitions where a group only lags"
    return el("nav", chip(path, text, is_on=is_on), class_="chips", aria_label="Filter")


def hanging_card(transaction: HangingTransaction, *, opens: bool = True) -> Html:
    """Return the card of a transaction that hangs; ``opens``: with links to the page of its partition."""
    name = next(iter(transaction.partitions))
    facts = [
        el("span", f"from offset {amount(transaction.start_offset)}"),
        el("span", "open ", since(transaction.opened_at_ms)),
        el("span", f"remedy: {transaction.remedy}"),
        el("span", f"rule H{transaction.rule}"),
    ]
    said = el(
        "div",
        el(
            "div",
            verdict_badge(transaction.verdict, transaction.certainty),
            el("b", transaction.transaction, class_="name"),
            opens and [" on ", partition_link(name)],
            class_="title",
        ),
        el("div", *facts, class_="facts-line"),
        evidence_list(transaction.evidence),
        class_="said facts",
    )
    opening = opens and link(partition_path(name), "Open", class_="press", is_opening=True)
    buttons = order_buttons(TransactionGroup(transactions=(transaction,)))
    return card_with_buttons(card_tone(transaction.verdict, transaction.deadline_ms), said, buttons=[*buttons, opening])


_COLUMNS = (
    "partition",
    "last stable offset → end",
    "hidden",
    "the oldest open transaction",
    "blocked for",
    "groups",
)
_COLUMN_NAMES = el("div", *[el("span", name) for name in _COLUMNS], class_="line partition head", aria_hidden="true")


_NO_GROUP = el("span", "no consumer group")


def _row(partition: BlockedRow, hanging: set[str], most_hidden: int) -> Html:
    where = page_paths.partition(partition.topic, partition.partition)
    name = link(where, cut(partition.topic_partition, "b"), is_opening=True)
    offsets = f"{amount(partition.last_stable_offset)} → {amount(partition.high_watermark)}"
    is_urgent = any(reader.kind == "waiting" for reader in partition.groups)
    hidden = compared(amount(partition.hidden), partition.hidden, most_hidden, "low" if is_urgent else None)
    cells = [
        el("span", name, class_="name"),
        el("span", offsets, data_name="visible to"),
        el("span", hidden, data_name="hidden"),
        el("span", _holder(partition, hanging), class_="name", data_name="behind"),
        el("span", since(partition.held_since_ms), data_name="blocked for"),
        el("span", *([_reader(reader) for reader in partition.groups] or [_NO_GROUP]), class_="name"),
    ]
    return el(
        "article",
        el("div", *cells, class_="line partition"),
        class_=f"row {Tone.URGENT.value if is_urgent else Tone.CALM.value}",
        data_item="",
        tabindex="-1",
    )


def _holder(partition: BlockedRow, hanging: set[str]) -> Html:
    if not partition.holder:
        return el("span", "–")
    name = cut(partition.holder, "code")
    if partition.holder_key in hanging:
        return el("span", name, " ", el("small", "hanging: see above"))
    named = link(page_paths.transaction(partition.holder_key), name) if partition.holder_key else name
    return el("span", named, " ", application_name(partition.application))


def _reader(reader: GroupRow) -> Html:
    waits = [" ", since(reader.since_ms)] if reader.waited_ms is not None else []
    lag = f" lag {amount(reader.lag)}" if reader.lag is not None else ""
    unsure = "" if reader.certainty == "certain" else f", {reader.certainty}"
    word = el("span", reader.kind, *waits)
    return el(
        "div", cut(reader.group, "code"), " ", word_badge(KINDS, reader.kind, word), el("small", f"{lag}{unsure}")
    )
