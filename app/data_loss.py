"""Data loss: whether what undone transactions held is missing, why that is said, and where it was written.

Flink prints one line for a transaction that was committed before a crash and for one that the broker had timed out. The id of
that line, typed here, tells which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live
from app.collector_rows import Rows
from app.loss_rows import Loss, OffsetRange
from app.markup import Html, el
from app.order_text import table
from app.paging import page_of
from app.time_text import amount, counted, exact_time
from app.verdict_signs import Tone, badge, certainty_badge

MOST_ROWS = 200
ROWS_A_PAGE = 50
_VERDICTS = {
    "lost": ("✖", Tone.URGENT, "its owner counts it as written, and it was undone"),
    "cannot be told": ("?", Tone.NOTICE, "nobody told what its owner made of it"),
    "harmless": ("⊘", Tone.CALM, "undone, and its owner knows: it never counted, or is written again"),
    "not lost": ("✔", Tone.GOOD, "committed: its records are there"),
}
"""Sign, tone and meaning of what became of the rows (docs/api.md), the worst first."""


def show() -> None:
    """Write the page."""
    live.looked_again(_losses, every_s=live.CHARTS_EVERY_S)


def _losses() -> None:
    asked = st.text_input(
        "Was this one lost?",
        placeholder="a transactional id, as a log line names it",
        key="loss-transaction",
        label_visibility="collapsed",
        bind="query-params",
        width=520,
    )
    wanted = (asked or "").strip()
    losses = live.collector().losses(transaction=wanted, limit=MOST_ROWS)
    live.write(el("h3", f"What became of {wanted}" if wanted else "Was data lost?", el("small", _how_many(losses))))
    if not losses:
        live.write(_nothing(wanted))
        return
    verdicts = st.pills(
        "Verdict",
        [word for word in _words(losses) if any(one.verdict == word for one in losses)],
        selection_mode="multi",
        format_func=lambda word: f"{_sign(word)[0]} {word}",
        key="loss-verdict",
        label_visibility="collapsed",
        bind="query-params",
    )
    found = [one for one in losses if not verdicts or one.verdict in verdicts]
    shown = page_of(found, most=ROWS_A_PAGE, key="loss-page")
    with st.container(key="loss-table"):
        live.write(_table(shown, live.zone()))


def _words(losses: Sequence[Loss]) -> list[str]:
    """Return the verdicts that are there, the worst first, those that this page does not know last."""
    return list(dict.fromkeys([*_VERDICTS, *(one.verdict for one in losses)]))


def _sign(verdict: str) -> tuple[str, Tone, str]:
    return _VERDICTS.get(verdict, ("?", Tone.NOTICE, "what this means is not known here"))


def _verdict_badge(verdict: str) -> Html:
    sign, tone, meaning = _sign(verdict)
    return badge(sign, verdict, tone, meaning)


def _how_many(losses: Rows[Loss]) -> str:
    count = Counter(one.verdict for one in losses)
    parts = [f"{count[word]:,} {word}" for word in _words(losses) if count[word]]
    more = f"{counted(losses.more, 'earlier one')} not shown" if losses.more else ""
    return f" {', '.join(filter(None, [*parts, more]))}" if parts else ""


def _nothing(wanted: str) -> Html:
    if not wanted:
        return el("p", "✔ No transaction was undone since the collector watches.", class_="quiet")
    return el(
        "p", "No transaction of the id ", el("code", wanted), " has ended since the collector watches. One that is still open "
        "stands under Pending commits.", class_="empty",
    )  # fmt: skip


def _table(losses: Sequence[Loss], zone: tzinfo) -> Html:
    return table(
        ["Ended", "Lost?", "Transaction", "Pipeline", "Checkpoint", "Why", "How sure", "Rows", "Where"],
        [
            [
                exact_time(one.at_ms, zone),
                _verdict_badge(one.verdict),
                el("code", one.transaction),
                one.pipeline,
                "–" if one.checkpoint is None else str(one.checkpoint),
                one.why,
                certainty_badge(one.certainty),
                amount(one.rows),
                _where(one),
            ]
            for one in losses
        ],
    )  # fmt: skip


def _where(loss: Loss) -> list[Html]:
    """Return a line for each partition, with its offsets where they were looked for."""
    ranges = {one.partition: one for one in loss.offsets}
    names = list(dict.fromkeys([*loss.partitions, *ranges]))
    return [el("div", el("code", name), _range(ranges.get(name))) for name in names]


def _range(offsets: OffsetRange | None) -> Html | None:
    if offsets is None:
        return None
    first, last = amount(offsets.first), amount(None if offsets.next is None else offsets.next - 1)
    return el("small", f" offsets {first} to {last}, {offsets.certainty}", title=offsets.how)
