"""Batches: each batch with its transactions in every resource manager; a batch committed on one side only comes first."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.attention_card import left_of, remedy_buttons
from indoubt.app.components.links_and_buttons import card_with_buttons, link, order_button
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.paging import after_in_address, go_further, rows_a_page
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import ago, amount, at
from indoubt.app.components.verdict_signs import Tone, WordSigns, sign_of, when, word_badge, words_there
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.dialogs.target_dialogs import COMMIT
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import new_rows, over_time
from indoubt.app.screens.sections import in_address, search_field
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.batches import BatchRow, BatchSideRow
from indoubt.lifecycle.verdicts import Verdict

PIPELINE = "batch-pipeline"
STANDING_SHOWN = 50
ROWS_A_PAGE = 20
VERDICTS: WordSigns = {
    "one side only": ("◧", Tone.URGENT, "committed in one resource manager and not in another: their readers see different data"),
    "lost": ("✖", Tone.URGENT, "decided, but a part was rolled back: a restart writes its rows again"),
    "in doubt": ("◐", Tone.WARNING, "decided, but not all of it is committed yet: commit it"),
    "undecided": ("○", Tone.CALM, "not decided yet: its driver still writes, or is gone"),
    "aborted": ("⊘", Tone.CALM, "never decided, and every part was rolled back: the next run writes it again"),
    "lost, then written again": ("↻", Tone.CALM, "decided, then rolled back; a later attempt wrote its rows again"),
    "aborted, then written again": ("↻", Tone.CALM, "never decided and rolled back; a later attempt wrote its rows"),
    "complete": ("●", Tone.GOOD, "every part is committed"),
}  # fmt: skip
"""Sign, tone and meaning of a batch's verdict (docs/api.md), the most urgent first."""


def show() -> None:
    """Write the section: what is not over as a live region, and the ended batches of history."""
    with list_menu.line("batch-search"):
        search_field(PIPELINE, "prefix of a pipeline")
    with st.container(key="batches"):
        show_region("batches", in_address(PIPELINE))
    over_time.picture()
    live.auto_refresh(_ended, every_s=None)


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a card for each batch that is not over, one block each."""
    standing = client.batches(pipeline=query.get(PIPELINE, ""), over=False)
    content: RegionContent = {"head": el("h3", "Batches", el("small", _how_many(standing)))}
    if not standing:
        content["none"] = el("p", "✔ No batch is open or in doubt.", class_="quiet")
    shown = standing[:STANDING_SHOWN]
    lost = (next((one.key for one in batch.transactions if one.verdict is Verdict.LOST), "") for batch in shown)
    needs = needs_of_lost(client, [key for key in lost if key])
    for batch in shown:
        content[f"batch-{widget_token(batch.key)}"] = _card(batch, needs.get((batch.pipeline, batch.batch)))
    if less_urgent := max(0, len(standing) - STANDING_SHOWN) + standing.more:
        hidden = counted(less_urgent, "less urgent batch", "less urgent batches")
        text = f"{hidden} not shown: indoubt batches lists them."
        content["more"] = el("p", text, class_="more")
    return content


def _ended() -> None:
    pipeline, after = in_address(PIPELINE).get(PIPELINE, ""), after_in_address()
    ended = live.collector().batches(pipeline=pipeline, over=True, limit=rows_a_page(ROWS_A_PAGE), after=after)
    if ended or after:
        list_menu.show("batches", lambda: ended, page_size=ROWS_A_PAGE)
    live.write(el("h3", "Ended", el("small", f" {_how_far(ended)}")))
    if not after:
        new_rows.show("batches", ended, pipeline=pipeline, over=True)
    if not ended and not after:
        none = f"No ended batch is of {pipeline}." if pipeline else "The history has no ended batch."
        live.write(el("p", none, class_="empty"))
        return
    with st.container(key="batch-table"):
        live.write(_table(ended))
    go_further(ended.next, key="batch")


def _how_many(standing: Sequence[BatchRow]) -> str:
    parts = [
        f"{count:,} {word}" for word, count in words_there(VERDICTS, (batch.verdict for batch in standing)).items()
    ]
    return f" {', '.join(parts)}" if parts else ""


def _how_far(ended: Rows[BatchRow]) -> str:
    if not ended:
        return ""
    behind = f"{ended.more:,} older behind them" if ended.more else "no older one"
    return f"{counted(len(ended), 'batch', 'batches')}, {behind}"


def _card(batch: BatchRow, needs: Attention | None) -> Html:
    name = link(page_paths.pipeline(batch.pipeline), el("b", batch.pipeline, class_="name"))
    orders = remedy_buttons(needs) if needs is not None and batch.settle is None else []
    opening = link(page_paths.batch(batch.pipeline, batch.batch), "Open", class_="press", is_opening=True)
    return attempt_card(batch, name, f" batch {batch.batch}, run {batch.attempt}", buttons=[*orders, opening])


def attempt_card(batch: BatchRow, *name: object, buttons: Sequence[Html] = ()) -> Html:
    """Return how an attempt at a batch stands, under this name; the order to settle it comes before the ``buttons``."""
    _, tone, _ = sign_of(VERDICTS, batch.verdict)
    badge = [word_badge(VERDICTS, batch.verdict), *when(batch.written_again_at_ms)]
    decided = batch.decided_at_ms is not None and el(
        "span", f"{batch.decision} decided by {batch.decided_by} at ", at(batch.decided_at_ms),
        f", offset {batch.decision_offset}",
    )  # fmt: skip
    opened = batch.opened_at_ms is not None and el(
        "span", "opened ", at(batch.opened_at_ms), ", ", ago(batch.opened_at_ms)
    )
    held = counted(batch.rows, "row") if batch.rows is not None else "rows unknown"
    text = el(
        "div",
        el("div", *badge, " ", *name, class_="title"),
        el("div", batch.explanation),
        el("div", opened, decided, el("span", held), class_="facts-line"),
        el("ul", *[el("li", side_text(side)) for side in batch.sides]),
        class_="said facts",
    )
    settle = batch.settle is not None and order_button(
        f"Settle: {batch.settle}", Action.SETTLE, "batch", [batch.key], is_main=batch.settle == COMMIT
    )
    left = left_of(batch.opened_at_ms, batch.deadline_ms)
    return card_with_buttons(tone, text, left, buttons=[settle, *buttons])


def side_text(side: BatchSideRow) -> str:
    """Return ``kafka: 3 committed, 1 open of 4``."""
    counts = ((side.committed, "committed"), (side.aborted, "rolled back"), (side.open, "open"))
    return f"{side.resource_manager}: {', '.join(f'{count} {word}' for count, word in counts if count)} of {side.transactions}"


def _table(batches: Sequence[BatchRow]) -> Html:
    return table(
        ["Opened", "Verdict", "Pipeline", "Batch · run", "Transactions", "Rows", "Decided by"],
        [
            [
                Moment(batch.opened_at_ms),
                [word_badge(VERDICTS, batch.verdict), *when(batch.written_again_at_ms)],
                link(page_paths.pipeline(batch.pipeline), batch.pipeline),
                link(page_paths.batch(batch.pipeline, batch.batch), f"{batch.batch} · {batch.attempt}"),
                [el("div", side_text(side)) for side in batch.sides],
                amount(batch.rows),
                batch.decided_by or "–",
            ]
            for batch in batches
        ],
        zone=live.zone(),
        narrow=("Pipeline", "Batch · run", "Opened", "Verdict"),
    )


def needs_of_lost(client: CollectorClient, keys: Sequence[str]) -> dict[tuple[str, int | None], Attention]:
    """Return the parts of incidents about these lost transactions, by pipeline and batch; without ``keys`` nothing is asked."""
    return {(item.pipeline, item.batch): item for item in client.parts(keys)} if keys else {}
