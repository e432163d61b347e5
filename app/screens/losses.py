"""Losses: whether the rows of aborted transactions are missing, why, and where they were written.

Flink prints the same log line for a transaction committed before a crash and for a transaction that the broker timed out.
The operator types the id from that line here, and the page shows which case it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_rows import Rows
from indoubt.app.components import downloads
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut, partition_link
from indoubt.app.components.paging import after_in_address, first_page, go_further, page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, written
from indoubt.app.components.verdict_signs import Tone, WordSigns, certainty_badge, sign_of, word_badge, words_there
from indoubt.app.screens import new_rows
from indoubt.app.screens.aborts import none_was_aborted
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.ends import LossRow, OffsetRange
from indoubt.lifecycle.rows.events import EARLIER_COUNTED
from indoubt.lifecycle.visible_text import actual

MAX_ROWS = 200
ROWS_A_PAGE = 50
_SORTING: Sorting[LossRow] = Sorting(
    name="loss-sort",
    default="Ended",
    keys={
        "Transaction": lambda row: row.transaction,
        "Pipeline": lambda row: row.pipeline,
        "Checkpoint": lambda row: row.checkpoint,
        "Rows": lambda row: row.rows,
    },
    texts=frozenset({"Transaction", "Pipeline"}),
)
_VERDICTS: WordSigns = {
    "lost": ("✖", Tone.URGENT, "its owner counts it as written, but it was aborted"),
    "duplicated": ("⊕", Tone.URGENT, "committed, and its owner was set back to before it: it is written a second time"),
    "unknown": ("?", Tone.NOTICE, "no source shows whether its owner counts it as written"),
    "harmless": ("⊘", Tone.CALM, "aborted, and its owner knows: it never counted, or is written again"),
    "not lost": ("✔", Tone.GOOD, "committed: its records were made visible"),
}
"""Sign, tone and meaning of a verdict about the rows (docs/api.md), the worst first."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_losses, every_s=None)


def _losses() -> None:
    asked = st.text_input(
        "Transactional id",
        placeholder="a transactional id from a log line",
        key="loss-transaction",
        label_visibility="collapsed",
        bind="query-params",
        on_change=first_page,
        width=520,
    )
    wanted = (asked or "").strip()
    after = after_in_address()
    losses = _newest(actual(wanted), after)
    live.write(
        el(
            "h3",
            f"Outcome of {wanted}" if wanted else "Was data lost?",
            el("small", _how_many(losses, of_id=bool(wanted))),
        )
    )
    if not after:
        new_rows.show("losses", [loss.at_ms for loss in losses], f"{','.join(_chosen())}|{actual(wanted)}")
    if not losses and not _chosen() and not after:
        live.write(_nothing(wanted, losses.next))
        go_further(losses.next, key="loss")
        return
    # Not only those that are among the newest: what is looked for may be far behind them.
    words = words_there(_VERDICTS, (loss.verdict for loss in losses))
    st.pills(
        "Verdict",
        list(dict.fromkeys([*(word for word in _VERDICTS if wanted or word != "not lost"), *words, *_chosen()])),
        selection_mode="multi",
        format_func=lambda word: f"{sign_of(_VERDICTS, word)[0]} {word}",
        key="loss-verdict",
        label_visibility="collapsed",
        bind="query-params",
        on_change=first_page,
    )
    ordered = _SORTING.ordered(losses)
    downloads.offer("losses", lambda: ordered)
    shown = page_of(ordered, page_size=ROWS_A_PAGE, key="loss-page")
    with st.container(key="loss-table"):
        live.write(_table(shown, live.zone()))
    go_further(losses.next, key="loss")


def _newest(transaction: str, after: str) -> Rows[LossRow]:
    """Return the newest; with the chosen verdicts where some are chosen, however many others there are before them."""
    return live.collector().losses(transaction=transaction, verdicts=_chosen(), limit=MAX_ROWS, after=after)


def _chosen() -> list[str]:
    """Return the chosen verdicts, before the widget is there as the address has them."""
    return list(st.session_state.get("loss-verdict") or st.query_params.get_all("loss-verdict"))


def _how_many(losses: Rows[LossRow], *, of_id: bool) -> str:
    parts = [f"{count:,} {word}" for word, count in words_there(_VERDICTS, (loss.verdict for loss in losses)).items()]
    at_least = "at least " * (not of_id or losses.more == EARLIER_COUNTED)
    more = f"{at_least}{counted(losses.more, 'earlier one')} behind them" if losses.more else ""
    return f" {', '.join(filter(None, [*parts, more]))}" if parts else ""


def _nothing(wanted: str, following: str | None) -> Html:
    if not wanted:
        return el("p", none_was_aborted("", following), class_="empty")
    return el(
        "p", "The history has no ended transaction with the id ", el("code", wanted), ". Page Transactions shows the open ones.",
        class_="empty",
    )  # fmt: skip


def _table(losses: Sequence[LossRow], zone: tzinfo) -> Html:
    return table(
        ["Ended", "Lost?", "Transaction", "Pipeline", "Checkpoint", "Why", "Certainty", "Rows", "Partitions"],
        [
            [
                written(loss.at_ms, zone),
                word_badge(_VERDICTS, loss.verdict),
                link(page_paths.transaction(loss.key), cut(loss.transaction, "span")),
                link(page_paths.pipeline(loss.pipeline), cut(loss.pipeline, "span")),
                "–"
                if loss.checkpoint is None
                else link(page_paths.batch(loss.pipeline, loss.checkpoint), str(loss.checkpoint)),
                loss.why,
                certainty_badge(loss.certainty),
                amount(loss.rows),
                _where(loss),
            ]
            for loss in losses
        ],
        class_="rows losses",
        sorting=_SORTING,
    )  # fmt: skip


def _where(loss: LossRow) -> list[Html]:
    """Return a line for each partition, with its offsets if the collector looked for them."""
    ranges = {offsets.partition: offsets for offsets in loss.offsets}
    names = list(dict.fromkeys([*loss.partitions, *ranges]))
    return [el("div", partition_link(name), _range(ranges.get(name))) for name in names]


def _range(offsets: OffsetRange | None) -> Html | None:
    if offsets is None:
        return None
    first, last = amount(offsets.first), amount(None if offsets.next is None else offsets.next - 1)
    which = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return el("small", f" {which}, {offsets.certainty}", title=offsets.how)
