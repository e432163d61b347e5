"""The page of one topic-partition: who reads it, what holds it back, and the transactions that wrote to it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.client.hanging_transactions import as_transaction
from indoubt.app.components.incident_note import partition_note
from indoubt.app.components.links_and_buttons import chip, link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import application_name, cut
from indoubt.app.components.partition_plot import partition_plot
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, at, duration, since
from indoubt.app.components.verdict_signs import word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import over_time
from indoubt.app.screens.groups import KINDS
from indoubt.app.screens.objects.object_sections import (
    alert_list,
    cards_of,
    ended_table,
    link_to,
    not_there,
    open_table,
    order_list,
    orders_about,
    page_address,
    share,
)
from indoubt.app.screens.readers import hanging_card
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.partitions import BlockedRow, GroupRow
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.verdicts import Verdict

MOST_GROUPS, MOST_ENDED = 20, 20


def show() -> None:
    """Write the page."""
    topic, number = st.query_params.get("topic", ""), st.query_params.get("partition", "")
    with st.container(key="partition"):
        window = st.query_params.get("window", over_time.WINDOW)
        show_region("partition", {"topic": topic, "partition": number, "window": window})
    if topic and number.isdigit():
        live.auto_refresh(_share, every_s=live.CHARTS_EVERY_S)


def _share() -> None:
    topic, number, client = st.query_params.get("topic", ""), int(st.query_params["partition"]), live.collector()
    address = page_address(page_paths.partition(topic, number))
    try:
        row = client.partition(topic, number)
    except CollectorError as error:
        if error.failure is not Failure.UNKNOWN_KEY:
            raise
        link_to(address)
        return
    note = partition_note(row, link=address, at_ms=client.status().now_ms)
    share(address, note, f"incident-{topic}-{number}.md")


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the page for a partition of a topic."""
    topic, number = query.get("topic", ""), query.get("partition", "")
    if not topic or not number.isdigit():
        return {"none": not_there(f"a partition has a topic and a number, and {topic}-{number} is none")}
    row = client.partition(topic, int(number))
    name, path = f"{topic}-{number}", page_paths.partition(topic, int(number))
    content: RegionContent = {"path": el("h2", name, class_="object-name")}
    # What hangs has a card of its own below, with its evidence.
    content |= cards_of(
        client,
        lambda item: item.verdict is not Verdict.HANGING and (name in item.partitions or item.target == name),
    )
    window = query.get("window", "") if query.get("window") in over_time.WINDOWS else over_time.WINDOW
    series = client.series_of_partition(topic, int(number), window_ms=over_time.WINDOWS[window])
    content["windows"] = _windows(path, window)
    content["plot"] = partition_plot(series)
    content["readers"] = _readers(row.readers, row.read_by)
    for hanging in row.hanging:
        content[f"hanging-{hanging.key}"] = hanging_card(as_transaction(hanging), opens=False)
    nothing = el("p", "No transaction is open on it.", class_="empty")
    content["open"] = el(
        "section", el("h3", "Open on it"), open_table(row.open, _of_batches(client, row.open)) if row.open else nothing
    )
    none_ended = el("p", "None in the collector's memory.", class_="empty")
    ended = ended_table(row.ended[:MOST_ENDED], with_partitions=False) if row.ended else none_ended
    content["ended"] = el(
        "section", el("h3", "Ended", el("small", f" the newest {min(MOST_ENDED, len(row.ended))}")), ended
    )
    content["orders"] = order_list(
        orders_about(client, [*(each.key for each in row.hanging), *(each.key for each in row.open)])
    )
    content["alerts"] = alert_list([alert for alert in client.alerts() if alert.path == path])
    return content


def _windows(path: str, window: str) -> Html:
    chips = [chip(f"{path}&{urlencode({'window': name})}", name, is_on=name == window) for name in over_time.WINDOWS]
    return el("nav", *chips, class_="chips", aria_label="Time shown")


def _of_batches(client: CollectorClient, shown: Sequence[TransactionRow]) -> Sequence[TransactionRow]:
    """Return the transactions of the batches of these: an order is about a whole batch, also where it wrote elsewhere."""
    pipelines = {row.pipeline for row in shown if row.managed and row.batch is not None}
    return [row for name in sorted(pipelines) for row in client.transactions(pipeline=name) if row.batch is not None]


def _readers(row: BlockedRow | None, read_by: Sequence[str]) -> Html:
    if row is None and read_by:
        names = [piece for group in read_by[:MOST_GROUPS] for piece in (cut(group, "code"), ", ")][:-1]
        more = len(read_by) - MOST_GROUPS
        verb = "has" if len(read_by) == 1 else "have"
        return el(
            "p",
            "✔ Nothing is hidden, and ",
            *names,
            f" and {more} more" if more > 0 else "",
            f" {verb} read all of it.",
        )
    if row is None:
        return el("p", "No watched consumer group reads it.", class_="empty")
    head = f"Last stable offset {amount(row.last_stable_offset)}, end {amount(row.high_watermark)}"
    hides = (
        f": {counted(row.hidden, 'offset')} hidden from read_committed readers" if row.hidden else ": nothing is hidden"
    )
    holder: list[object] = []
    if row.holder:
        name = link(page_paths.transaction(row.holder_key), row.holder) if row.holder_key else el("code", row.holder)
        holder = [
            el(
                "p",
                "Held back by ",
                name,
                " ",
                application_name(row.application),
                " for ",
                since(row.held_since_ms),
            )
        ]
    return el("section", el("p", el("b", head), hides), *holder, _groups(row.groups))


def _groups(groups: Sequence[GroupRow]) -> Html:
    cells = []
    for group in groups:
        cells.append([el("code", group.group), word_badge(KINDS, group.kind), group.state or "–", amount(group.offset),
                      amount(group.lag), duration(group.waited_ms), at(group.since_ms)])  # fmt: skip
    head = ["Group", "State of its reading", "Group's state", "Committed offset", "Lag", "Waits for", "Since"]
    return table(head, cells) if cells else el("p", "No consumer group reads it.", class_="empty")
