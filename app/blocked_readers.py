"""Blocked readers: what hides records from read_committed readers, which groups wait behind it, and what hangs for good."""

from __future__ import annotations

from datetime import tzinfo
from urllib.parse import quote

import streamlit as st

from app import live, order_dialog
from app.collector_rows import BlockedPartition, Reader, Transaction
from app.markup import Html, el
from app.order_text import fact_line, table
from app.time_text import amount, clock_time, counted, duration, since
from app.transaction_groups import TransactionGroup
from app.verdict_signs import VERDICT_SIGNS, Tone, badge, verdict_badge

BUTTONS_PX = 300
_KINDS = {
    "waiting": ("‖", Tone.URGENT, "it has read all it may, and does not move while records are hidden"),
    "stalled": ("✖", Tone.WARNING, "it has records to read and has not moved for long: its own trouble"),
    "markers only": (
        "●",
        Tone.GOOD,
        "its lag is transaction markers and aborted records: it has read everything there is",
    ),
    "reads uncommitted": ("▸", Tone.CALM, "it is past the last stable offset: open transactions do not hold it back"),
    "reading": ("▸", Tone.CALM, "it has records to read and moved not long ago"),
}
"""Sign, tone and meaning of how a group stands (docs/api.md)."""


def page() -> st.Page:
    """Return the page, so that others can lead to it."""
    return st.Page(show, title="Blocked readers", url_path="blocked-readers")


def show() -> None:
    """Write the page."""
    live.looked_again(_blocked, every_s=live.LIVE_EVERY_S)


def _blocked() -> None:
    lagging_too = st.toggle("partitions on which a group only lags, too", key="blocked-all", bind="query-params")
    hanging, blocked = live.collector().hanging(), live.collector().blocked(lagging_too=lagging_too)
    zone = live.zone()
    if hanging:
        live.write(
            el("h3", "Hanging transactions", el("small", " no coordinator will end them: their readers wait for ever"))
        )
        for one in hanging:
            _hanging(one, zone)
        if hanging.more:
            live.write(el("p", f"{counted(hanging.more, 'younger one')} not shown.", class_="more"))
    live.write(el("h3", "Partitions whose readers are held back", el("small", _how_many(blocked))))
    if not blocked:
        live.write(
            el("p", "✔ No record is hidden from read_committed readers, and no group has stopped.", class_="quiet")
        )
        return
    with st.container(key="blocked-table"):
        live.write(_table(blocked, {one.key for one in hanging}, zone))
    if blocked.more:
        live.write(el("p", f"{counted(blocked.more, 'partition')} with shorter waits not shown.", class_="more"))


def _how_many(blocked: list[BlockedPartition]) -> str:
    waiting = {reader.group for one in blocked for reader in one.readers if reader.kind == "waiting"}
    hidden = sum(one.hidden for one in blocked)
    if not blocked:
        return ""
    waits = "waits" if len(waiting) == 1 else "wait"
    return f" {counted(hidden, 'offset')} hidden on {counted(len(blocked), 'partition')}, {counted(len(waiting), 'group')} {waits}"


def _hanging(one: Transaction, zone: tzinfo) -> None:
    group = TransactionGroup(transactions=(one,))
    with st.container(key=f"hanging-{group.token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(one, zone))
        with st.container(
            horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"hanging-buttons-{group.token}"
        ):
            order_dialog.buttons(group, key="hanging-")


def _card(one: Transaction, zone: tzinfo) -> Html:
    facts = [fact_line(fact, zone) for fact in one.evidence]
    title = el("div", verdict_badge(one.verdict), el("b", one.transaction, class_="name"), f" on {', '.join(one.partitions)}",
               class_="title")  # fmt: skip
    open_for = el("div", el("span", "open ", since(one.opened_at_ms, zone)),
                  one.rule is not None and el("span", f"rule H{one.rule}"), class_="facts-line")  # fmt: skip
    said = el("div", title, open_for, el("ul", *facts), class_="said facts")
    return el("div", said, class_=f"card {VERDICT_SIGNS[one.verdict][1].value}")


def _table(blocked: list[BlockedPartition], hanging: set[str], zone: tzinfo) -> Html:
    most_hidden = max(one.hidden for one in blocked)
    return table(
        ["Partition", "Last stable offset → end", "Hidden", "Held by", "Held for", "Groups", "Seen"],
        [
            [
                one.partition,
                f"{amount(one.last_stable_offset)} → {amount(one.high_watermark)}",
                _hidden(one.hidden, most_hidden),
                _holder(one, hanging),
                since(one.held_since_ms, zone),
                [_reader(reader) for reader in one.readers] or "no group was seen",
                clock_time(one.seen_at_ms, zone),
            ]
            for one in blocked
        ],
    )


def _hidden(hidden: int, most: int) -> Html:
    """Return how many offsets are hidden, and a bar that compares it with the other partitions."""
    width = 100 * hidden / most if most else 0
    bar = el("span", el("i", data_level="low", style=f"width:{width:.0f}%"), class_="bar", aria_hidden="true")
    return el("div", amount(hidden), bar, class_="hidden-part")


def _holder(one: BlockedPartition, hanging: set[str]) -> Html:
    if not one.holder:
        return el("span", "not known yet" if one.hidden else "–")
    name = el("code", one.holder)
    if one.holder_key in hanging:
        return el("span", name, " ", el("small", "hanging, above"))
    if not one.holder_key:
        return name
    return el(
        "a", name, href=f"pending-commits?open={quote(one.holder_key, safe='')}", target="_self", title="its evidence"
    )


def _reader(reader: Reader) -> Html:
    sign, tone, meaning = _KINDS.get(reader.kind, ("?", Tone.NOTICE, "what this means is not known here"))
    word = f"{reader.kind} {duration(reader.waited_ms // 1000 * 1000)}" if reader.waited_ms is not None else reader.kind
    lag = f" lag {amount(reader.lag)}" if reader.lag is not None else ""
    unsure = "" if reader.certainty == "certain" else f", {reader.certainty}"
    return el("div", el("code", reader.group), " ", badge(sign, word, tone, meaning), el("small", f"{lag}{unsure}"))
