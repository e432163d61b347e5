"""Batches: each batch with its transactions in every resource manager; a batch committed on one side only comes first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live
from app.client.collector_rows import Rows
from app.components.markup import Html, el, widget_token
from app.components.presses import link
from app.components.time_text import amount, counted, exact_time, since
from app.components.verdict_signs import Tone, WordSigns, sign_of, word_badge, words_there
from app.dialogs import batch_dialog
from app.dialogs.order_text import table
from app.screens.sections import search_field
from lifecycle import page_paths
from lifecycle.rows.batches import BatchRow, BatchSideRow

BUTTONS_PX = 130
MAX_ROWS = 200
STANDING_SHOWN = 50
ENDED_SHOWN = 50
VERDICTS: WordSigns = {
    "one side only": ("◧", Tone.URGENT, "committed in one resource manager and not in another: their readers see different data"),
    "lost": ("✖", Tone.URGENT, "commit was decided, but a part was rolled back: only a replay restores its rows"),
    "in doubt": ("◐", Tone.WARNING, "commit was decided, and a part is not committed yet"),
    "undecided": ("○", Tone.CALM, "no decision about it counts, and a part is open"),
    "aborted": ("⊘", Tone.CALM, "never decided, and every part was rolled back: the next run replays it"),
    "replayed": ("↻", Tone.GOOD, "a later attempt wrote again what was rolled back"),
    "complete": ("●", Tone.GOOD, "every part is committed"),
}  # fmt: skip
"""Sign, tone and meaning of a batch's verdict (docs/api.md), the most urgent first."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_batches, every_s=live.LIVE_EVERY_S)


def _batches() -> None:
    pipeline = search_field("batch-pipeline", "/ search: prefix of a pipeline")
    batches = live.collector().batches(pipeline=pipeline, limit=MAX_ROWS)
    zone = live.zone()
    standing, ended = [batch for batch in batches if not batch.is_over], [batch for batch in batches if batch.is_over]
    live.write(el("h3", "Batches", el("small", _how_many(standing))))
    if not standing:
        live.write(el("p", "✔ No batch is open, in doubt or on one side only.", class_="quiet"))
    for batch in standing[:STANDING_SHOWN]:
        _batch(batch, zone)
    if len(standing) > STANDING_SHOWN:
        hidden = counted(len(standing) - STANDING_SHOWN, "less urgent batch", "less urgent batches")
        live.write(el("p", f"{hidden} not shown: python -m collector batches lists them.", class_="more"))
    live.write(el("h3", "Ended", el("small", _newest(ended, batches))))
    with st.container(key="batch-table"):
        live.write(_table(ended[:ENDED_SHOWN], zone) if ended else el("p", "The history has no ended batch.",
                                                                     class_="empty"))  # fmt: skip


def _how_many(standing: Sequence[BatchRow]) -> str:
    parts = [
        f"{count:,} {word}" for word, count in words_there(VERDICTS, (batch.verdict for batch in standing)).items()
    ]
    return f" {', '.join(parts)}" if parts else ""


def _newest(ended: Sequence[BatchRow], batches: Rows[BatchRow]) -> str:
    hidden = max(0, len(ended) - ENDED_SHOWN) + batches.more
    return f" {counted(hidden, 'older batch', 'older batches')} not shown" if hidden else ""


def _batch(batch: BatchRow, zone: tzinfo) -> None:
    with st.container(
        key=f"batch-{widget_token(batch.key)}", border=True, horizontal=True, vertical_alignment="center"
    ):
        with st.container():
            live.write(_card(batch, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
            batch_dialog.button(batch)


def _card(batch: BatchRow, zone: tzinfo) -> Html:
    _, tone, _ = sign_of(VERDICTS, batch.verdict)
    title = el("div", word_badge(VERDICTS, batch.verdict), el("b", batch.pipeline, class_="name"),
               " ", link(page_paths.batch(batch.pipeline, batch.batch), f"batch {batch.batch}, run {batch.attempt}"),
               class_="title")  # fmt: skip
    held = f"{amount(batch.rows)} rows" if batch.rows is not None else "unknown number of rows"
    decided = batch.decided_at_ms is not None and el(
        "span", f"decided by {batch.decided_by} ", since(batch.decided_at_ms, zone), " ago"
    )
    line = el("div", el("span", "opened ", since(batch.opened_at_ms, zone), " ago"), decided, el("span", held),
              class_="facts-line")  # fmt: skip
    text = el("div", title, el("div", batch.explanation), line, el("ul", *[el("li", side_text(side)) for side in batch.sides]),
              class_="said facts")  # fmt: skip
    return el("div", text, class_=f"card {tone.value}")


def side_text(side: BatchSideRow) -> str:
    """Return ``kafka: 3 committed, 1 open of 4``."""
    counts = ((side.committed, "committed"), (side.aborted, "rolled back"), (side.open, "open"))
    return f"{side.resource_manager}: {', '.join(f'{count} {word}' for count, word in counts if count)} of {side.transactions}"


def _table(batches: Sequence[BatchRow], zone: tzinfo) -> Html:
    return table(
        ["Opened", "Verdict", "Pipeline", "Batch · run", "Transactions", "Rows", "Decided by"],
        [
            [
                exact_time(batch.opened_at_ms, zone),
                word_badge(VERDICTS, batch.verdict),
                link(page_paths.pipeline(batch.pipeline), batch.pipeline),
                link(page_paths.batch(batch.pipeline, batch.batch), f"{batch.batch} · {batch.attempt}"),
                [el("div", side_text(side)) for side in batch.sides],
                amount(batch.rows),
                batch.decided_by or "–",
            ]
            for batch in batches
        ],
    )
