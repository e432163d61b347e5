"""Readers: open transactions that hide records from read_committed readers, and the groups that wait for them."""

from __future__ import annotations

from datetime import tzinfo
from urllib.parse import quote

import streamlit as st

from app import live
from app.components.markup import Html, el
from app.components.time_text import amount, clock_time, counted, duration, since
from app.components.transaction_groups import TransactionGroup
from app.components.verdict_signs import UNKNOWN_SIGN, VERDICT_SIGNS, Tone, badge, verdict_badge
from app.dialogs import order_dialog
from app.dialogs.order_text import fact_line, table
from lifecycle.rows.partitions import BlockedRow, GroupRow
from lifecycle.rows.transactions import TransactionRow

BUTTONS_PX = 300
KINDS = {
    "waiting": ("‖", Tone.URGENT, "it has read every visible record, and waits for the hidden ones"),
    "stalled": (
        "✖",
        Tone.WARNING,
        "it has visible records to read, but has not moved for long: the group itself is stuck",
    ),
    "markers only": (
        "●",
        Tone.GOOD,
        "its lag is only transaction markers and aborted records: it has read everything",
    ),
    "reads uncommitted": ("▸", Tone.CALM, "it has read past the last stable offset: open transactions do not block it"),
    "reading": ("▸", Tone.CALM, "it has records to read, and moved recently"),
}
"""Sign, tone and meaning of a group's state (docs/api.md)."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_blocked, every_s=live.LIVE_EVERY_S)


def _blocked() -> None:
    lagging_too = st.toggle("include partitions where a group only lags", key="blocked-all", bind="query-params")
    hanging, blocked = live.collector().hanging(), live.collector().blocked(lagging_too=lagging_too)
    zone = live.zone()
    if hanging:
        live.write(
            el(
                "h3",
                "Hanging transactions",
                el("small", " no coordinator will end them: their readers wait until you do"),
            )
        )
        for transaction in hanging:
            _hanging(transaction, zone)
        if hanging.more:
            live.write(el("p", f"{counted(hanging.more, 'younger transaction')} not shown.", class_="more"))
    live.write(el("h3", "Blocked partitions", el("small", _how_many(blocked))))
    if not blocked:
        live.write(
            el("p", "✔ No record is hidden from read_committed readers, and no group has stopped.", class_="quiet")
        )
        return
    with st.container(key="blocked-table"):
        live.write(_table(blocked, {transaction.key for transaction in hanging}, zone))
    if blocked.more:
        live.write(el("p", f"{counted(blocked.more, 'partition')} with shorter waits not shown.", class_="more"))


def _how_many(blocked: list[BlockedRow]) -> str:
    waiting = {reader.group for partition in blocked for reader in partition.groups if reader.kind == "waiting"}
    hidden = sum(partition.hidden for partition in blocked)
    if not blocked:
        return ""
    waits = "waits" if len(waiting) == 1 else "wait"
    return f" {counted(hidden, 'offset')} hidden on {counted(len(blocked), 'partition')}, {counted(len(waiting), 'group')} {waits}"


def _hanging(transaction: TransactionRow, zone: tzinfo) -> None:
    group = TransactionGroup(transactions=(transaction,))
    with st.container(key=f"hanging-{group.token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(transaction, zone))
        with st.container(
            horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"hanging-buttons-{group.token}"
        ):
            order_dialog.buttons(group, key="hanging-")


def _card(transaction: TransactionRow, zone: tzinfo) -> Html:
    facts = [fact_line(fact, zone) for fact in transaction.evidence]
    title = el("div", verdict_badge(transaction.verdict), el("b", transaction.transaction, class_="name"),
               f" on {', '.join(transaction.partitions)}", class_="title")  # fmt: skip
    open_for = el("div", el("span", "open ", since(transaction.opened_at_ms, zone)),
                  transaction.rule is not None and el("span", f"rule H{transaction.rule}"), class_="facts-line")  # fmt: skip
    text = el("div", title, open_for, el("ul", *facts), class_="said facts")
    return el("div", text, class_=f"card {VERDICT_SIGNS[transaction.verdict][1].value}")


def _table(blocked: list[BlockedRow], hanging: set[str], zone: tzinfo) -> Html:
    max_hidden = max(partition.hidden for partition in blocked)
    return table(
        [
            "Partition",
            "Last stable offset → end",
            "Hidden",
            "The oldest open transaction",
            "Blocked for",
            "Groups",
            "Read at",
        ],
        [
            [
                partition.topic_partition,
                f"{amount(partition.last_stable_offset)} → {amount(partition.high_watermark)}",
                _hidden(partition.hidden, max_hidden),
                _holder(partition, hanging),
                since(partition.held_since_ms, zone),
                [_reader(reader) for reader in partition.groups] or "no consumer group",
                clock_time(partition.seen_at_ms, zone),
            ]
            for partition in blocked
        ],
    )


def _hidden(hidden: int, most: int) -> Html:
    """Return the number of hidden offsets, with a bar that compares it with the other partitions."""
    width = 100 * hidden / most if most else 0
    bar = el("span", el("i", data_level="low", style=f"width:{width:.0f}%"), class_="bar", aria_hidden="true")
    return el("div", amount(hidden), bar, class_="hidden-part")


def _holder(partition: BlockedRow, hanging: set[str]) -> Html:
    if not partition.holder:
        return el("span", "unknown yet" if partition.hidden else "–")
    name = el("code", partition.holder)
    if partition.holder_key in hanging:
        return el("span", name, " ", el("small", "hanging: see above"))
    if not partition.holder_key:
        return name
    return el(
        "a",
        name,
        href=f"transactions?open={quote(partition.holder_key, safe='')}",
        target="_self",
        title="show its evidence",
    )


def _reader(reader: GroupRow) -> Html:
    sign, tone, meaning = KINDS.get(reader.kind, UNKNOWN_SIGN)
    word = f"{reader.kind} {duration(reader.waited_ms // 1000 * 1000)}" if reader.waited_ms is not None else reader.kind
    lag = f" lag {amount(reader.lag)}" if reader.lag is not None else ""
    unsure = "" if reader.certainty == "certain" else f", {reader.certainty}"
    return el("div", el("code", reader.group), " ", badge(sign, word, tone, meaning), el("small", f"{lag}{unsure}"))
