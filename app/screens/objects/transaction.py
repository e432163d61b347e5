"""The page of one transaction: what it is and what to do, its time line, evidence, writes, siblings, alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.components.attention_card import pipeline_button
from indoubt.app.components.facts import decision, evidence_list, facts
from indoubt.app.components.life_line import life_line
from indoubt.app.components.links_and_buttons import card_with_buttons, link, order_button
from indoubt.app.components.markup import Html, el, join
from indoubt.app.components.object_names import key_link, partition_link
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, at, duration, since, time_left
from indoubt.app.components.verdict_signs import VERDICT_SIGNS, card_tone, state_text, verdict_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.objects import records
from indoubt.app.screens.objects.object_sections import (
    SIBLING_HEAD,
    alert_list,
    alerts_of,
    transaction_cells,
    under_way,
)
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Attention, Remedy
from indoubt.lifecycle.rows.batches import BatchTransactionRow
from indoubt.lifecycle.rows.ends import OffsetRange
from indoubt.lifecycle.rows.partitions import BlockedRow
from indoubt.lifecycle.rows.transactions import TransactionDetailRow
from indoubt.lifecycle.verdicts import Verdict


def show() -> None:
    """Write the page."""
    key = st.query_params.get("key", "")
    try:
        detail = live.collector().transaction(key)
    except CollectorError as error:
        if error.is_lost:
            # The region keeps its last content and says why.
            show_region("transaction", {"key": key})
        else:
            live.write(_missing(key) if error.failure is Failure.UNKNOWN_KEY else el("p", str(error), class_="warn"))
        return
    with st.container(key="transaction"):
        if _is_over(detail):
            content = _content(live.collector(), detail)
            live.write(join(block for name, block in content.items() if name != "alerts"))
            # An alert about it may outlast it.
            live.auto_refresh(_alerts, every_s=live.CHARTS_EVERY_S)
        else:
            show_region("transaction", {"key": key})
    live.auto_refresh(records.show, every_s=None if _is_over(detail) else live.CHARTS_EVERY_S)


def _alerts() -> None:
    detail = live.collector().transaction(st.query_params.get("key", ""))
    live.write(alert_list(alerts_of(detail, live.collector().alerts())))


def _is_over(detail: TransactionDetailRow) -> bool:
    # One that was lost is not: it waits for its batch to be written again.
    return detail.state.is_final and detail.verdict is Verdict.SETTLED


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the page's upper part for the transaction ``key``."""
    return _content(client, client.transaction(query.get("key", "")))


def _missing(key: str) -> Html:
    return el(
        "p", "The collector does not know ", el("code", key), ": it never saw it, or it has left history. ",
        link(page_paths.search(transaction=_name(key)), "Search the history"), class_="empty",
    )  # fmt: skip


def _name(key: str) -> str:
    """Return the transactional id in a key of Kafka, or the name of a database's branch."""
    manager, _, name = key.partition(":")
    return name.rsplit(":", 2)[0] if manager == "kafka" else name.rpartition("@")[0] or name


def _content(client: CollectorClient, detail: TransactionDetailRow) -> RegionContent:
    blocked = client.blocked(lagging_too=True)
    needs = next(iter(client.parts([detail.key])), None)
    same_batch = _same_batch(client, detail)
    return {
        "path": _path(detail, same_batch),
        "head": _head(detail, needs),
        "under-way": under_way(client, [detail.key]),
        "life": life_line(detail, needs.waits if needs is not None else ()),
        "why": _why(detail),
        "writes": _writes(detail, blocked),
        "siblings": _siblings(detail, same_batch),
        "alerts": alert_list(alerts_of(detail, client.alerts())),
    }


def _same_batch(client: CollectorClient, detail: TransactionDetailRow) -> Sequence[BatchTransactionRow]:
    """Return all transactions of its batch's attempt by slot, as far as they are in memory."""
    if not detail.managed or detail.batch is None:
        return ()
    attempts = client.batches(pipeline=detail.pipeline, batch=detail.batch)
    return next((one.transactions for one in attempts if any(t.key == detail.key for t in one.transactions)), ())


def _path(detail: TransactionDetailRow, same_batch: Sequence[BatchTransactionRow]) -> Html:
    parts: list[object] = [link(page_paths.pipeline(detail.pipeline), detail.pipeline)]
    number = detail.batch if detail.batch is not None else detail.checkpoint
    if number is not None:
        name = "batch" if detail.batch is not None else "checkpoint"
        parts += [" › ", link(page_paths.batch(detail.pipeline, number), f"{name} {number}")]
    parts += [" › ", el("code", detail.transaction)]
    keys = [transaction.key for transaction in same_batch]
    if len(keys) > 1:
        place = keys.index(detail.key)
        before, behind = keys[place - 1], keys[(place + 1) % len(keys)]
        parts += [" ", link(page_paths.transaction(before), "‹", class_="step"), f" {place + 1} of {len(keys)} ",
                  link(page_paths.transaction(behind), "›", class_="step")]  # fmt: skip
    return el("nav", *parts, class_="object-path", aria_label="Where this is")


def _head(detail: TransactionDetailRow, needs: Attention | None) -> Html:
    meaning = needs.headline if needs is not None else VERDICT_SIGNS[detail.verdict][2].capitalize() + "."
    left = ["· time left ", el("b", time_left(detail.deadline_ms))] if detail.deadline_ms is not None else []
    said = [
        el(
            "div",
            verdict_badge(detail.verdict, detail.certainty),
            " ",
            state_text(detail.state, detail.written_again_at_ms),
            " ",
            *left,
            class_="title",
        ),
        el("div", meaning, class_="why"),
        el("div", *_times(detail), class_="facts-line"),
        needs is not None and el("div", el("small", "without action: "), needs.consequence, class_="consequence"),
    ]
    tone = card_tone(detail.verdict, detail.deadline_ms)
    return card_with_buttons(tone, el("div", *said, class_="said"), buttons=_buttons(detail, needs))


def _times(detail: TransactionDetailRow) -> list[object]:
    ended_ms = max((step.at_ms for step in detail.timeline), default=None)
    parts: list[object] = []
    if detail.opened_at_ms is not None and not detail.state.is_final:
        parts.append(el("span", "opened ", at(detail.opened_at_ms), ", open for ", since(detail.opened_at_ms)))
    elif detail.opened_at_ms is not None and ended_ms is not None:
        open_for = duration(max(0, ended_ms - detail.opened_at_ms))
        parts.append(el("span", "opened ", at(detail.opened_at_ms), ", ended ", at(ended_ms), f", open for {open_for}"))
    parts.append(el("span", counted(detail.rows, "row") if detail.rows is not None else "rows unknown"))
    if detail.producer_id is not None:
        parts.append(el("span", f"producer {detail.producer_id}, epoch {detail.producer_epoch}"))
    return parts


def _buttons(detail: TransactionDetailRow, needs: Attention | None) -> list[Html]:
    keys = [detail.key, *detail.siblings] if detail.managed and detail.batch is not None else [detail.key]
    of = f" batch {detail.batch}" if len(keys) > 1 else ""
    buttons = []
    if detail.may_commit and not detail.state.is_final:
        buttons.append(order_button(f"Commit{of}", Action.COMMIT, "transactions", keys, is_main=True))
    if detail.may_abort and not detail.state.is_final:
        # What loses rows is ordered one by one.
        buttons.append(order_button(f"Abort{'' if detail.loses_data else of}", Action.ABORT, "transactions",
                                    [detail.key] if detail.loses_data else keys, loses_data=detail.loses_data))  # fmt: skip
    if needs is not None and needs.remedy in (Remedy.RESTART, Remedy.START):
        buttons.append(pipeline_button(needs.remedy, needs.target, is_main=True))
    return buttons


def _why(detail: TransactionDetailRow) -> Html:
    broker = detail.broker and {**detail.broker, "client_transaction_version": detail.client_transaction_version}
    why = el(
        "section",
        el("h3", f"Why “{detail.verdict.value}”", el("small", f" rule {detail.rule}, {detail.certainty.value}")),
        evidence_list(detail.evidence),
        detail.loss is not None and el("p", el("b", f"Data: {detail.loss.verdict}. "), detail.loss.why),
    )
    views = [facts("Handle", detail.handle), facts("Broker's view", broker)]
    if detail.branch:
        views.append(facts("Database's view", detail.branch))
    return el("div", why, decision(detail), *views, class_="evidence")


def _writes(detail: TransactionDetailRow, blocked: Sequence[BlockedRow]) -> Html:
    """Return a row for each partition: where it wrote, as far as that is known, and who waits there."""
    if not detail.partitions:
        return el("section", el("h3", "Writes"), el("p", "No partition is known.", class_="empty"))
    ranges = {offsets.partition: offsets for offsets in detail.loss.offsets} if detail.loss is not None else {}
    readers = {row.topic_partition: row for row in blocked}
    rows = []
    for name in detail.partitions:
        offsets, row = ranges.get(name), readers.get(name)
        held = row is not None and row.holder_key == detail.key
        first = offsets.first if offsets is not None else row.holder_start_offset if row is not None and held else None
        # It may still write: what it wrote last is before the high watermark.
        at_most = f"at most {amount(row.high_watermark)}" if row is not None and held else amount(None)
        following = amount(offsets.next) if offsets is not None else at_most
        groups = [el("div", el("code", group.group), f" {group.kind}, lag {amount(group.lag)}")
                  for group in (row.groups if row is not None else ())]  # fmt: skip
        hidden = amount(row.hidden) if row is not None and held else "–"
        rows.append([partition_link(name), amount(first), following, hidden, groups or "–"])
    head = ["Partition", "First offset", "Next offset", "Hidden behind it", "Readers"]
    how_many = detail.rows is not None and el("small", f" {counted(detail.rows, 'row')}")
    return el("section", el("h3", "Writes", how_many), table(head, rows), _not_known(detail, ranges))


def _not_known(detail: TransactionDetailRow, ranges: Mapping[str, OffsetRange]) -> Html | None:
    """Return how the offsets of an ended one are known, or why not; nothing while it is open."""
    if not detail.state.is_final:
        return None
    if all(name in ranges for name in detail.partitions):
        return el("p", "; ".join(sorted({found.how for found in ranges.values()})), class_="empty")
    text = (
        "Its offsets are not known: it was open for less than 5 s (or a quarter of its timeout). The collector asks "
        "for offsets of longer ones, and of those that were lost."
    )
    return el("p", text, class_="empty")


def _siblings(detail: TransactionDetailRow, same_batch: Sequence[BatchTransactionRow]) -> Html:
    if len(same_batch) > 1:
        rows = [transaction_cells(transaction, detail.key) for transaction in same_batch]
        return el("section", el("h3", f"Batch {detail.batch}"), table(SIBLING_HEAD, rows))
    if not detail.siblings:
        return el("section")
    links = [el("li", key_link(key)) for key in detail.siblings]
    return el("section", el("h3", "Others of its batch"), el("ul", *links))
