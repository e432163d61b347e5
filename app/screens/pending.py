"""Pending transactions: every transaction that is not settled, most urgent first, with its evidence and its orders."""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from app import live
from app.client.collector_rows import Rows
from app.components.markup import Html, el
from app.components.paging import page_of
from app.components.time_text import amount, counted, since, time_left, time_left_bar
from app.components.transaction_groups import TransactionGroup, grouped, matching
from app.components.verdict_signs import VERDICT_SIGNS, state_text, verdict_badge
from app.dialogs import order_dialog
from app.screens import evidence
from lifecycle.rows.transactions import TransactionRow
from lifecycle.states import FINAL
from lifecycle.verdicts import URGENCY, Verdict

GROUPS_A_PAGE = 20
MAX_TRANSACTIONS = 500
MAX_WITH_SETTLED = 200
"""The limit with settled transactions, which even a quiet cluster reaches: the most urgent come first, then the newest."""
BUTTONS_PX = 400


def show() -> None:
    """Write the page."""
    live.auto_refresh(_list, every_s=live.URGENT_EVERY_S)


def _list() -> None:
    verdicts, words, settled_too = _filters()
    most = MAX_WITH_SETTLED if settled_too else MAX_TRANSACTIONS
    transactions = live.collector().transactions(settled_too=settled_too, limit=most)
    groups = grouped(transactions)
    matches = matching(groups, words=words, verdicts=verdicts)
    zone = live.zone()
    opened = st.query_params.get("open")
    with st.container(horizontal=True, vertical_alignment="center", key="list-head"):
        live.write(_how_many(transactions, groups, matches))
        shown = page_of(matches, page_size=GROUPS_A_PAGE, key="page")
    names = {transaction.key: transaction.transaction for transaction in transactions}
    opened_group = next((group for group in shown if opened in _keys(group)), None)
    if opened and opened_group is None:
        evidence.show(opened, names)
        st.button("Close", key="evidence-close", on_click=_open, args=(None,))
    if not matches:
        live.write(_none(groups))
        return
    live.write(_HEAD)
    for group in shown:
        _row(group, zone, is_open=group is opened_group)
        if group is opened_group and opened:
            evidence.show(opened, names)


def _filters() -> tuple[list[Verdict], str, bool]:
    with st.container(horizontal=True, vertical_alignment="center", key="filters"):
        chosen = st.pills(
            "Verdict",
            [verdict.value for verdict in URGENCY if verdict is not Verdict.SETTLED],
            selection_mode="multi",
            format_func=lambda word: f"{VERDICT_SIGNS[Verdict(word)][0]} {word}",
            key="filter-verdict",
            label_visibility="collapsed",
            bind="query-params",
        )
        words = st.text_input(
            "Filter",
            placeholder="pipeline, id, topic …",
            key="filter-words",
            label_visibility="collapsed",
            bind="query-params",
            width=260,
        )
        settled_too = st.toggle("include settled", key="filter-settled", bind="query-params")
    return [Verdict(word) for word in chosen], words or "", settled_too


def _how_many(
    transactions: Rows[TransactionRow], groups: list[TransactionGroup], matches: list[TransactionGroup]
) -> Html:
    count = sum(len(group.transactions) for group in matches)
    size = (
        counted(count, "transaction")
        + f" in {counted(len(matches), 'batch or application', 'batches and applications')}"
    )
    hidden = len(transactions) - count
    return el(
        "p",
        size,
        hidden > 0 and f" · the filter hides {counted(hidden, 'other')}",
        transactions.more > 0 and f" · {counted(transactions.more, 'less urgent transaction')} not shown",
        class_="how-many",
    )


def _none(groups: list[TransactionGroup]) -> Html:
    if groups:
        return el("p", "No transaction matches the filter.", class_="empty")
    return el("p", "✔ Nothing is pending: no transaction is open on this cluster.", class_="quiet")


def _keys(group: TransactionGroup) -> set[str | None]:
    return {transaction.key for transaction in group.transactions}


def _row(group: TransactionGroup, zone: tzinfo, *, is_open: bool) -> None:
    token = group.token
    with st.container(key=f"pending-{token}", horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_line(group, zone))
        with st.container(
            key=f"pending-buttons-{token}", horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"
        ):
            order_dialog.buttons(group, key="")
            st.button(
                "Close" if is_open else "Evidence",
                key=f"evidence-{token}",
                type="tertiary",
                on_click=_open,
                args=(None if is_open else group.first.key,),
            )


def _open(key: str | None) -> None:
    if key is None:
        st.query_params.pop("open", None)
    else:
        st.query_params["open"] = key


_COLUMNS = ("verdict", "pipeline", "batch · slot", "state", "open for", "time left", "rows")
_HEAD = el("div", *[el("span", name) for name in _COLUMNS], class_="line head")


def _line(group: TransactionGroup, zone: tzinfo) -> Html:
    first = group.first
    slots = [str(transaction.slot) for transaction in group.transactions if transaction.slot is not None]
    batch = "–" if first.batch is None else f"{first.batch}"
    states = list(dict.fromkeys(transaction.state for transaction in group.transactions))
    is_over = all(transaction.state in FINAL for transaction in group.transactions)
    name = first.pipeline or first.transaction
    return el(
        "div",
        el("span", verdict_badge(group.verdict)),
        el(
            "span",
            el("b", name, title=name),
            el("small", _where(group), title=", ".join(group.partitions)),
            class_="name",
        ),
        el(
            "span",
            batch,
            el("small", f"slot {_ranges(slots)}") if slots else el("small", "foreign" if not first.ours else ""),
        ),
        el("span", *[state_text(state) for state in states], class_="states"),
        el("span", "ended" if is_over else since(group.opened_at_ms, zone)),
        el(
            "span",
            time_left(group.deadline_ms, zone),
            time_left_bar(group.opened_at_ms, group.deadline_ms),
            class_="left",
        ),
        el("span", amount(group.rows), class_="number"),
        class_=f"line {VERDICT_SIGNS[group.verdict][1].value}",
    )


def _where(group: TransactionGroup) -> str:
    topics = sorted({partition.rpartition("-")[0] or partition for partition in group.partitions})
    topics = [topic for topic in topics if not topic.startswith("__")] or topics
    is_one = len(group.transactions) == 1 and group.first.transaction != group.first.pipeline
    count = group.first.transaction if is_one else counted(len(group.transactions), "transaction")
    size = f"{', '.join(group.resource_managers)} · {count}"
    return f"{size} · {', '.join(topics)}" if topics else size


def _ranges(slots: list[str]) -> str:
    numbers = sorted(int(slot) for slot in slots)
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}–{numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))
