"""Pending transactions: every transaction that is not settled, most urgent first, with its orders; an application is one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.attention_card import remedy_buttons
from indoubt.app.components.links_and_buttons import chip, link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut
from indoubt.app.components.paging import PAGE, ROWS, page_in_address, page_links, rows_a_page, size_of
from indoubt.app.components.time_text import amount, since, time_left, time_left_bar
from indoubt.app.components.transaction_groups import TransactionGroup, filter_order_buttons, grouped, order_buttons
from indoubt.app.components.verdict_signs import VERDICT_SIGNS, card_tone, state_text, verdict_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import over_time
from indoubt.app.screens.batches import needs_of_lost
from indoubt.app.screens.sections import in_address, search_field
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.application import ApplicationKind
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.partitions import BlockedRow
from indoubt.lifecycle.rows.transactions import TransactionCountRow, TransactionRow
from indoubt.lifecycle.states import FINAL
from indoubt.lifecycle.verdicts import URGENCY, Verdict

GROUPS_A_PAGE = 20
PARTS_SHOWN = 20
MAX_TRANSACTIONS = 500
MAX_WITH_SETTLED = 200
"""The limit with settled transactions, which even a quiet cluster reaches: the most urgent come first, then the newest."""
WORDS, VERDICT, SETTLED = "filter-words", "verdict", "settled"
PATH = "/transactions"
Counts = Mapping[tuple[ApplicationKind, str, Verdict], TransactionCountRow]


def show() -> None:
    """Write the section: the search and the list."""
    query = in_address(WORDS, VERDICT, SETTLED, PAGE)
    client = live.collector()
    with list_menu.line("transactions"):
        search_field(WORDS, "pipeline, id, topic …")
        list_menu.show("transactions", lambda: _shown(client, query), page_size=GROUPS_A_PAGE)
    with st.container(key="pending"):
        show_region("pending", query | {ROWS: str(rows_a_page(GROUPS_A_PAGE))})
    over_time.picture()


def _shown(client: CollectorClient, query: Query) -> list[TransactionRow]:
    """Return the transactions that fit the query, on whichever page."""
    return [transaction for group in grouped(_asked(client, query)) for transaction in group.transactions]


def _asked(client: CollectorClient, query: Query) -> Rows[TransactionRow]:
    is_settled_too = SETTLED in query
    most = MAX_WITH_SETTLED if is_settled_too else MAX_TRANSACTIONS
    # The collector looks among all of them: here are only the most urgent of what it finds.
    parts = [
        client.transactions(settled_too=is_settled_too, limit=most, words=query.get(WORDS, ""), verdict=verdict)
        for verdict in [verdict.value for verdict in _chosen(query)] or [""]
    ]
    return Rows((row for part in parts for row in part), sum(part.more for part in parts))


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the filters with their counts, then a row for each batch or application, one block each."""
    transactions, words = _asked(client, query), query.get(WORDS, "")
    whole = {row.of_whom: row for row in client.transaction_counts()}
    counts = {row.of_whom: row for row in client.transaction_counts(words=words)} if words else whole
    waits, matches = _waits(client.blocked()), grouped(transactions)
    of_any_verdict = {name: text for name, text in query.items() if name != VERDICT}
    found = grouped(_asked(client, of_any_verdict)) if _chosen(query) else matches
    shown, number, pages = page_in_address(matches, query, page_size=size_of(query, GROUPS_A_PAGE))
    links = page_links(PATH, query, number, pages)
    query = {name: text for name, text in query.items() if name != ROWS}
    content: RegionContent = {
        "filters": _filters(found, query, counts),
        "count": _how_many(transactions, matches, counts, whole),
    }
    if (orders := _of_the_filter(matches, query, counts)) is not None:
        content["whole"] = orders
    if not matches:
        content["none"] = _none(words, is_filtered=bool(whole))
    else:
        content["head"] = _HEAD
    needs = needs_of_lost(client, [group.first.key for group in shown if group.verdict is Verdict.LOST])
    for group in shown:
        of_whom = _of_whom(group)
        is_whole = counts.get(of_whom) == whole.get(of_whom)
        content[f"row-{group.token}"] = _row(
            group,
            waits,
            _count(group, matches, counts),
            needs.get((group.first.pipeline, group.first.batch)),
            is_whole=is_whole,
        )
    if links:
        content["pages"] = links
    return content


def _chosen(query: Query) -> list[Verdict]:
    words = query.get(VERDICT, "").split(",")
    return [verdict for verdict in URGENCY if verdict.value in words]


def _count(group: TransactionGroup, groups: Sequence[TransactionGroup], counts: Counts) -> int:
    """Return how many transactions a group has: not all of an application's need be listed."""
    listed, first = len(group.transactions), group.first
    whom = _of_whom(group)
    if first.managed or whom not in counts or sum(whom == _of_whom(other) for other in groups) > 1:
        return listed
    return max(listed, counts[whom].transactions)


def _of_whom(group: TransactionGroup) -> tuple[ApplicationKind, str, Verdict]:
    return group.first.application.kind, group.first.pipeline, group.first.verdict


def _filters(groups: Sequence[TransactionGroup], query: Query, counts: Counts) -> Html:
    """Return a link for each verdict, which adds it to the filter or takes it out, with how many transactions have it."""
    count = Counter(transaction.verdict for group in groups for transaction in group.transactions)
    known: Counter[Verdict] = Counter()
    for row in counts.values():
        known[row.verdict] += row.transactions
    # What hangs, and what is settled, is listed and not counted there.
    count |= known
    chosen = _chosen(query)
    others = {name: text for name, text in query.items() if name not in (VERDICT, PAGE)}
    chips = []
    for verdict in URGENCY:
        if not count[verdict] and verdict not in chosen:
            continue
        wanted = [other.value for other in URGENCY if (other in chosen) is not (other is verdict)]
        text = f"{VERDICT_SIGNS[verdict][0]} {verdict.value} {count[verdict]:,}"
        chips.append(_chip(text, others | ({VERDICT: ",".join(wanted)} if wanted else {}), is_on=verdict in chosen))
    settled = {name: text for name, text in query.items() if name not in (SETTLED, PAGE)}
    is_on = SETTLED in query
    chips.append(_chip("include settled", settled if is_on else settled | {SETTLED: "1"}, is_on=is_on))
    return el("nav", *chips, class_="chips", aria_label="Filter")


def _chip(text: str, query: Mapping[str, str], *, is_on: bool) -> Html:
    path = f"{PATH}?{urlencode(query)}" if query else PATH
    return chip(path, text, is_on=is_on)


def _how_many(
    transactions: Rows[TransactionRow], matches: Sequence[TransactionGroup], counts: Counts, whole: Counts
) -> Html:
    count = sum(_count(group, matches, counts) for group in matches)
    unlisted = count - len(transactions)
    is_open = not any(group.verdict in (Verdict.LOST, Verdict.SETTLED) for group in matches)
    size = counted(count, "open transaction" if is_open else "transaction")
    if len(matches) > 1:
        size += f" in {len(matches):,} batches or applications"
    left_out = max(0, transactions.more - unlisted)
    hidden = sum(row.transactions for row in whole.values()) - count - left_out
    return el(
        "p",
        size,
        hidden > 0 and f" · the filter hides {counted(hidden, 'other')}",
        left_out > 0 and f" · {counted(left_out, 'less urgent transaction')} not shown",
        class_="how-many",
    )


def _of_the_filter(matches: Sequence[TransactionGroup], query: Query, counts: Counts) -> Html | None:
    """Return the orders for everything that the filter means, where that is one verdict, one application, or both."""
    verdicts, words = _chosen(query), query.get(WORDS, "").strip()
    if len(verdicts) > 1 or (words and not any(words == name for _, name, _ in counts)) or not (verdicts or words):
        return None
    wanted = ({"pipeline": words} if words else {}) | ({"verdict": verdicts[0].value} if verdicts else {})
    number = sum(
        row.transactions
        for (_, name, verdict), row in counts.items()
        if words in ("", name) and (not verdicts or verdict is verdicts[0])
    )
    of_filter = tuple(row for group in matches for row in group.transactions if words in ("", row.pipeline))
    if number < 2 or not of_filter:
        return None
    buttons = filter_order_buttons(TransactionGroup(transactions=of_filter), wanted, number)
    named = " and ".join(f"{name} {value}" for name, value in wanted.items())
    return el("p", f"Everything with {named}: ", *buttons, class_="more") if buttons else None


def _none(words: str, *, is_filtered: bool) -> Html:
    if words:
        # What has ended is not listed here.
        ended = link(page_paths.search(transaction=words), f"Search all of history for {words!r}")
        return el("p", "No pending transaction matches the filter. ", ended, class_="empty")
    if is_filtered:
        return el("p", "No transaction matches the filter.", class_="empty")
    return el("p", "✔ Nothing is pending: no transaction is open on this cluster.", class_="quiet")


def _waits(blocked: Sequence[BlockedRow]) -> dict[str, dict[str, int]]:
    """Return who waits behind each transaction: its key -> group -> since when."""
    waits: dict[str, dict[str, int]] = {}
    for partition in blocked:
        for reader in partition.groups:
            if reader.kind == "waiting" and partition.holder_key:
                groups = waits.setdefault(partition.holder_key, {})
                groups[reader.group] = min(reader.since_ms, groups.get(reader.group, reader.since_ms))
    return waits


_COLUMNS = ("verdict", "who", "batch · slot", "state", "open for", "time left", "who waits", "rows")
_HEAD = el("div", *[el("span", name) for name in _COLUMNS], class_="line head", aria_hidden="true")


def _row(
    group: TransactionGroup,
    waits: Mapping[str, Mapping[str, int]],
    count: int,
    needs: Attention | None,
    *,
    is_whole: bool,
) -> Html:
    first = group.first
    slots = [str(transaction.slot) for transaction in group.transactions if transaction.slot is not None]
    states = list(dict.fromkeys(transaction.state for transaction in group.transactions))
    is_over = all(transaction.state in FINAL for transaction in group.transactions)
    cells = [
        el("span", verdict_badge(group.verdict, group.certainty)),
        el("span", cut(first.pipeline or first.transaction, "b"), _where(group, count), class_="name"),
        el(
            "span",
            "–" if first.batch is None else f"batch {first.batch}",
            el("small", f"slot {_ranges(slots)}" if slots else "" if first.managed else "foreign"),
            class_="absent" if first.batch is None else None,
        ),
        el("span", *[state_text(state) for state in states], class_="states"),
        el("span", "ended") if is_over else el("span", since(group.opened_at_ms), data_name="open for"),
        el(
            "span",
            time_left(group.deadline_ms),
            time_left_bar(group.opened_at_ms, group.deadline_ms),
            class_="left" if group.deadline_ms is not None else "left absent",
        ),
        el("span", *_who_waits(group, waits), class_="name"),
        el(
            "span", amount(group.rows), class_="number" if group.rows is not None else "number absent", data_name="rows"
        ),
    ]
    # What is lost has no order of its own.
    orders = order_buttons(group) or (remedy_buttons(needs) if needs is not None else [])
    opening = link(page_paths.transaction(first.key), "Open", class_="press", is_opening=True)
    return el(
        "article",
        el("div", *cells, class_="line"),
        el("div", *orders, opening, class_="remedies"),
        _parts(group, count, is_whole=is_whole),
        class_=f"row {card_tone(group.verdict, group.deadline_ms).value}",
        data_item="",
        tabindex="-1",
    )


def _who_waits(group: TransactionGroup, waits: Mapping[str, Mapping[str, int]]) -> list[Html]:
    since_ms: dict[str, int] = {}
    for transaction in group.transactions:
        for name, at_ms in waits.get(transaction.key, {}).items():
            since_ms[name] = min(at_ms, since_ms.get(name, at_ms))
    longest = sorted(since_ms.items(), key=lambda pair: pair[1])
    if not longest:
        return []
    more = f" and {len(longest) - 1} more" if len(longest) > 1 else ""
    return [cut(longest[0][0], "span"), el("small", since(longest[0][1]), more)]


def _parts(group: TransactionGroup, count: int, *, is_whole: bool) -> Html | None:
    """Return the transactions of a batch or an application, folded; live.js keeps what a person has opened.

    ``is_whole``: no word leaves some of the application out, of which an order by filter would be as well.
    """
    if count == 1:
        return None
    lines = [
        el(
            "li",
            state_text(transaction.state),
            link(page_paths.transaction(transaction.key), cut(transaction.transaction, "code")),
            transaction.slot is not None and el("span", f"slot {transaction.slot}"),
            transaction.rows is not None and el("span", counted(transaction.rows, "row")),
            transaction.state not in FINAL and el("span", "open ", since(transaction.opened_at_ms)),
        )
        for transaction in group.transactions[:PARTS_SHOWN]
    ]
    more, unlisted = count - len(lines), count - len(group.transactions)
    return el(
        "details",
        el("summary", counted(count, "transaction")),
        el("ul", *lines, class_="parts"),
        more > 0 and el("p", f"and {counted(more, 'other')}: search for an id to see it alone", class_="more"),
        unlisted > 0 and is_whole and _reach(group, count),
        class_="unfolds",
    )


def _reach(group: TransactionGroup, count: int) -> Html | None:
    """Return what reaches those that are not listed: the orders beside the row are about the listed ones alone."""
    buttons = filter_order_buttons(group, {"pipeline": group.first.pipeline, "verdict": group.verdict.value}, count)
    if not buttons:
        return None
    listed = (
        f"The buttons above reach the {len(group.transactions):,} that are listed. An order by filter reaches all: "
    )
    return el("p", listed, *buttons, class_="more")


def _where(group: TransactionGroup, count: int) -> Html:
    topics = sorted({partition.rpartition("-")[0] or partition for partition in group.partitions})
    topics = [topic for topic in topics if not topic.startswith("__")] or topics
    is_one = count == 1 and group.first.transaction != group.first.pipeline
    which = cut(group.first.transaction, "span") if is_one else counted(count, "transaction")
    size = [", ".join(group.resource_managers), " · ", which]
    return el("small", *size, topics and f" · {', '.join(topics)}", title=", ".join(group.partitions) or None)


def _ranges(slots: list[str]) -> str:
    numbers = sorted(int(slot) for slot in slots)
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}–{numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))
