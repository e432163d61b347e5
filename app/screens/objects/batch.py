"""The page of one batch, or of one checkpoint of Flink: each attempt at it with its transactions, and its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.batch_line import batch_line
from indoubt.app.components.incident_note import batch_note
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.sink_commits import announced
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, at, duration, since
from indoubt.app.components.verdict_signs import CHECKPOINT_SIGNS, word_badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.batches import attempt_card
from indoubt.app.screens.objects.object_sections import (
    SIBLING_HEAD,
    alert_list,
    cards_of,
    link_to,
    not_there,
    open_table,
    order_list,
    orders_about,
    page_address,
    share,
    transaction_cells,
    under_way,
)
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.orders import PIPELINE_KEY
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.batches import BatchRow
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.transactions import TransactionRow


def show() -> None:
    """Write the page."""
    pipeline, number = st.query_params.get("pipeline", ""), st.query_params.get("number", "")
    with st.container(key="batch"):
        show_region("batch", {"pipeline": pipeline, "number": number})
    if number.isdigit():
        live.auto_refresh(_share, every_s=live.CHARTS_EVERY_S)


def _share() -> None:
    pipeline, number, client = st.query_params.get("pipeline", ""), int(st.query_params["number"]), live.collector()
    path, attempts = page_paths.batch(pipeline, number), _attempts(client, pipeline, number)
    address = page_address(path)
    if not attempts:
        link_to(address)
        return
    note = batch_note(
        attempts,
        link=address,
        at_ms=client.status().now_ms,
        alerts=_alerts(client, path, attempts),
        orders=orders_about(client, _keys(attempts)),
    )
    share(address, note, f"incident-{pipeline}-batch-{number}.md")


def _attempts(client: CollectorClient, pipeline: str, number: int) -> list[BatchRow]:
    """Return the attempts at it, the newest first."""
    return sorted(client.batches(pipeline=pipeline, batch=number), key=lambda row: -row.attempt)


def _keys(attempts: Sequence[BatchRow]) -> list[str]:
    return [key for one in attempts for key in (one.key, *(each.key for each in one.transactions))]


def _alerts(client: CollectorClient, path: str, attempts: Sequence[BatchRow]) -> list[AlertRow]:
    """Return the alerts about it, or about one of its transactions."""
    paths = {path, *(page_paths.transaction(row.key) for attempt in attempts for row in attempt.transactions)}
    return [alert for alert in client.alerts() if alert.path in paths]


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the page for the batch ``number`` of ``pipeline``, the newest attempt first."""
    pipeline, number = query.get("pipeline", ""), query.get("number", "")
    if not number.isdigit():
        return {"none": not_there(f"a batch has a number, and {number!r} is none")}
    attempts = _attempts(client, pipeline, int(number))
    checkpoints = [row for row in client.checkpoints(pipeline=pipeline) if row.number == int(number)]
    content: RegionContent = {
        "path": el("nav", link(page_paths.pipeline(pipeline), pipeline), " › ",
                   el("b", f"batch {number}" if attempts else f"checkpoint {number}"),
                   class_="object-path", aria_label="Where this is")
    }  # fmt: skip
    content |= cards_of(client, lambda item: item.pipeline == pipeline and item.batch == int(number))
    orders = orders_about(client, _keys(attempts))
    if attempts:
        content["under-way"] = under_way(client, _keys(attempts))
        about_pipeline = orders_about(client, [f"{PIPELINE_KEY}{pipeline}"])
        content["life"] = batch_line(attempts, [*orders, *about_pipeline]) or el("section")
    for attempt in attempts:
        content[f"attempt-{attempt.attempt}"] = _attempt(attempt)
    written = [] if attempts else _of_checkpoint(client, pipeline, int(number))
    if written:
        content["written"] = el("section", el("h3", "Transactions that it holds"), open_table(written))
    if not attempts and not checkpoints and not written:
        content["none"] = not_there(
            f"neither the collector's memory nor the decisions in its history have batch {number} of {pipeline}",
            search=page_paths.search(pipeline=pipeline),
        )
    if checkpoints:
        content["checkpoint"] = _checkpoints(checkpoints)
    if attempts:
        content["orders"] = order_list(orders)
    path = page_paths.batch(pipeline, int(number))
    content["alerts"] = alert_list(_alerts(client, path, attempts))
    return content


def _of_checkpoint(client: CollectorClient, pipeline: str, number: int) -> Sequence[TransactionRow]:
    """Return the transactions that a checkpoint of another application holds, as far as they are in memory."""
    return [row for row in client.transactions(pipeline=pipeline, settled_too=True) if row.checkpoint == number]


def _attempt(batch: BatchRow) -> Html:
    rows = [transaction_cells(transaction) for transaction in batch.transactions]
    card = attempt_card(batch, el("b", f"run {batch.attempt}", class_="name"))
    return el("section", card, table(SIBLING_HEAD, rows))


def _checkpoints(rows: Sequence[CheckpointRow]) -> Html:
    has_sinks = any(row.sinks for row in rows)
    cells = [
        [
            word_badge(CHECKPOINT_SIGNS, row.state.value),
            row.kind,
            at(row.started_at_ms),
            at(row.ended_at_ms) if row.ended_at_ms is not None else el("span", "runs for ", since(row.started_at_ms)),
            duration(row.duration_ms),
            amount(row.transactions),
            *([announced(row.sinks)] if has_sinks else []),
            amount(row.rows),
            row.source,
            row.reason or "–",
        ]
        for row in rows
    ]
    sinks = ["Announced"] if has_sinks else []
    head = ["State", "Kind", "Started", "Ended", "Took", "Transactions", *sinks, "Rows", "Source", "Why it failed"]
    return el("section", el("h3", "Its checkpoint"), table(head, cells))
