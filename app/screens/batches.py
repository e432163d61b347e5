"""Batches: the transactions of one batch in every resource manager together; one that is committed on one side only stands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import batch_dialog, live
from app.batch_rows import Batch, Side
from app.collector_rows import Rows
from app.markup import Html, el, widget_token
from app.order_text import table
from app.time_text import amount, counted, exact_time, since
from app.verdict_signs import Tone, badge

BUTTONS_PX = 130
MOST_ROWS = 200
STANDING_SHOWN = 50
ENDED_SHOWN = 50
_VERDICTS = {
    "one side only": ("◧", Tone.URGENT, "committed in one resource manager and not in another: their readers see different data"),
    "lost": ("✖", Tone.URGENT, "decided, and some of it was rolled back: only a replay brings its rows back"),
    "in doubt": ("◐", Tone.WARNING, "decided, and some of it is not committed yet"),
    "undecided": ("○", Tone.CALM, "no decision about it counts, and some of it is open"),
    "aborted": ("⊘", Tone.CALM, "never decided, all of it rolled back: its batch will be replayed"),
    "replayed": ("↻", Tone.GOOD, "what was rolled back was written again by a later attempt"),
    "complete": ("●", Tone.GOOD, "all of it is committed"),
}  # fmt: skip
"""Sign, tone and meaning of how a batch stands (docs/api.md), the most urgent first."""


def show() -> None:
    """Write the page."""
    live.looked_again(_batches, every_s=live.LIVE_EVERY_S)


def _batches() -> None:
    pipeline = st.text_input(
        "Pipeline",
        placeholder="pipeline: its prefix",
        key="batch-pipeline",
        label_visibility="collapsed",
        bind="query-params",
        width=260,
    )
    batches = live.collector().batches(pipeline=(pipeline or "").strip(), limit=MOST_ROWS)
    zone = live.zone()
    standing, ended = [one for one in batches if not one.is_over], [one for one in batches if one.is_over]
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
        live.write(_table(ended[:ENDED_SHOWN], zone) if ended else el("p", "No batch has ended since the collector watches.",
                                                                     class_="empty"))  # fmt: skip


def _how_many(standing: Sequence[Batch]) -> str:
    count = Counter(one.verdict for one in standing)
    parts = [f"{count[word]} {word}" for word in dict.fromkeys([*_VERDICTS, *count]) if count[word]]
    return f" {', '.join(parts)}" if parts else ""


def _newest(ended: Sequence[Batch], batches: Rows[Batch]) -> str:
    hidden = max(0, len(ended) - ENDED_SHOWN) + batches.more
    return f" {counted(hidden, 'older one')} not shown" if hidden else ""


def _batch(batch: Batch, zone: tzinfo) -> None:
    with st.container(
        key=f"batch-{widget_token(batch.key)}", border=True, horizontal=True, vertical_alignment="center"
    ):
        with st.container():
            live.write(_card(batch, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
            batch_dialog.button(batch)


def _card(batch: Batch, zone: tzinfo) -> Html:
    sign, tone, meaning = _sign(batch.verdict)
    title = el("div", badge(sign, batch.verdict, tone, meaning), el("b", batch.pipeline, class_="name"),
               f" batch {batch.batch}, run {batch.attempt}", class_="title")  # fmt: skip
    held = f"{amount(batch.rows)} rows" if batch.rows is not None else "rows not known"
    decided = batch.decided_ms is not None and el(
        "span", f"decided by {batch.decided_by} ", since(batch.decided_ms, zone), " ago"
    )
    line = el("div", el("span", "opened ", since(batch.opened_ms, zone), " ago"), decided, el("span", held),
              class_="facts-line")  # fmt: skip
    said = el("div", title, el("div", batch.explanation), line, el("ul", *[el("li", _side(one)) for one in batch.sides]),
              class_="said facts")  # fmt: skip
    return el("div", said, class_=f"card {tone.value}")


def _sign(verdict: str) -> tuple[str, Tone, str]:
    return _VERDICTS.get(verdict, ("?", Tone.NOTICE, "what this means is not known here"))


def _side(side: Side) -> str:
    """Return ``kafka: 3 committed, 1 open of 4``."""
    counts = ((side.committed, "committed"), (side.aborted, "rolled back"), (side.open, "open"))
    return f"{side.resource_manager}: {', '.join(f'{count} {word}' for count, word in counts if count)} of {side.transactions}"


def _table(batches: Sequence[Batch], zone: tzinfo) -> Html:
    return table(
        ["Opened", "Stands", "Pipeline", "Batch · run", "Where", "Rows", "Decided by"],
        [
            [
                exact_time(one.opened_ms, zone),
                _verdict_badge(one.verdict),
                one.pipeline,
                f"{one.batch} · {one.attempt}",
                [el("div", _side(side)) for side in one.sides],
                amount(one.rows),
                one.decided_by or "nobody",
            ]
            for one in batches
        ],
    )


def _verdict_badge(verdict: str) -> Html:
    sign, tone, meaning = _sign(verdict)
    return badge(sign, verdict, tone, meaning)
