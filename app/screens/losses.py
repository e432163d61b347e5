"""Losses: whether the rows of aborted transactions are missing, why, and where they were written.

Flink prints the same log line for a transaction committed before a crash and for a transaction that the broker timed out.
The operator types the id from that line here, and the page shows which case it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from indoubt.app import live
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut, partition_link, topics_of
from indoubt.app.components.paging import after_in_address, choose_page, first_page, go_further, page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import amount
from indoubt.app.components.verdict_signs import (
    CERTAINTY_SIGNS,
    Tone,
    WordSigns,
    sign_of,
    when,
    word_badge,
    words_there,
)
from indoubt.app.screens import new_rows
from indoubt.app.screens.aborts import none_was_aborted
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.ends import LossRow, OffsetRange
from indoubt.lifecycle.rows.events import EARLIER_COUNTED
from indoubt.lifecycle.visible_text import actual

MAX_ROWS = 200
ROWS_A_PAGE = 20
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
    "lost": ("✖", Tone.URGENT, "its owner counts it as written, but it was aborted: its rows are missing"),
    "duplicated": ("⊕", Tone.URGENT, "committed, and its owner went back to before it: its rows are there twice"),
    "unknown": ("?", Tone.NOTICE, "only its owner knows whether these rows are missing"),
    "lost, then written again": ("↻", Tone.CALM, "it was decided and aborted; a later run wrote its rows again"),
    "harmless": ("⊘", Tone.CALM, "aborted, and its owner knows: it writes these rows again, or they never counted"),
    "not lost": ("✔", Tone.GOOD, "committed: readers see its records"),
}
"""Sign, tone and meaning of a verdict about the rows (docs/api.md), the worst first."""
_WRONG = {"lost": "lost", "duplicated": "written twice"}
"""What is missing or there twice, in words."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_losses, every_s=None)


def _losses() -> None:
    after = after_in_address()
    with list_menu.line("losses"):
        asked = st.text_input(
            "Transactional id",
            placeholder="a transactional id from a log line",
            key="loss-transaction",
            label_visibility="collapsed",
            bind="query-params",
            on_change=first_page,
            width=360,
        )
        wanted = (asked or "").strip()
        losses = _newest(actual(wanted), after)
        ordered = _SORTING.ordered(losses)
        list_menu.show("losses", lambda: ordered, page_size=ROWS_A_PAGE)
    counts = el("small", _how_many(losses, of_id=bool(wanted)), class_=None if wanted else "wide")
    live.write(el("h3", f"Outcome of {wanted}" if wanted else "Was data lost?", counts))
    if losses and not wanted:
        live.write(el("p", _answer(losses), class_="warn" if _missing(losses) else "answer"))
    if not after:
        new_rows.show("losses", losses, verdicts=_chosen(), transaction=actual(wanted))
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
    with st.container(key="loss-table"):
        live.write(_table(page_of(ordered, page_size=ROWS_A_PAGE), live.zone()))
    choose_page(ordered, page_size=ROWS_A_PAGE, key="loss-page")
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


def _missing(losses: Sequence[LossRow]) -> list[LossRow]:
    return [loss for loss in losses if loss.verdict in _WRONG]


def _answer(losses: Rows[LossRow]) -> str:
    """Return in words whether anything of these is lost, ours first, and whom to ask about the rest."""
    among = f"Among the newest {len(losses):,}: " if losses.more or losses.next is not None else ""
    parts = [
        f"{counted(len(found), 'transaction')} of {whose} {'is' if len(found) == 1 else 'are'} {word}."
        for verdict, word in _WRONG.items()
        for managed, whose in ((True, "yours"), (False, "other programs"))
        if (found := [loss for loss in losses if loss.verdict == verdict and loss.managed is managed])
    ]
    if not any(loss.managed for loss in _missing(losses)) and not any(_is_open(loss, managed=True) for loss in losses):
        parts.insert(0, "Nothing of yours is lost.")
    if any(loss.managed and loss.verdict == "lost" for loss in losses):
        parts.append("A restart of the pipeline writes its rows again.")
    parts += _ask(losses)
    return among + " ".join(parts)


def _is_open(loss: LossRow, *, managed: bool) -> bool:
    return loss.verdict == "unknown" and loss.managed is managed


def _ask(losses: Sequence[LossRow]) -> list[str]:
    """Return whom to ask about what is not known."""
    ours = sum(_is_open(loss, managed=True) for loss in losses)
    others = sum(_is_open(loss, managed=False) for loss in losses)
    owner = "its owner" if others == 1 else "the owner of each"
    said = [f"{counted(ours, 'abort')} of yours cannot be judged: see why below."] if ours else []
    return [*said, f"{counted(others, 'abort')} of other programs: ask {owner}."] if others else said


def _nothing(wanted: str, following: str | None) -> Html:
    if not wanted:
        return el("p", none_was_aborted("", following), class_="empty")
    return el(
        "p", "The history has no ended transaction with the id ", el("code", wanted), ". Page Transactions shows the open ones.",
        class_="empty",
    )  # fmt: skip


def _table(losses: Sequence[LossRow], zone: tzinfo) -> Html:
    return table(
        ["Ended", "Lost?", "Transaction", "Pipeline", "Checkpoint", "Why", "Certainty", "Rows", "Where"],
        [
            [
                Moment(loss.at_ms),
                [word_badge(_VERDICTS, loss.verdict), *when(loss.written_again_at_ms)],
                link(page_paths.transaction(loss.key), cut(loss.transaction, "span")),
                link(page_paths.pipeline(loss.pipeline), cut(loss.pipeline, "span")),
                "–"
                if loss.checkpoint is None
                else link(page_paths.batch(loss.pipeline, loss.checkpoint), str(loss.checkpoint)),
                loss.why,
                word_badge(CERTAINTY_SIGNS, loss.certainty),
                amount(loss.rows),
                _where(loss),
            ]
            for loss in losses
        ],
        class_="rows losses",
        sorting=_SORTING,
        zone=zone,
        narrow=("Transaction", "Ended", "Lost?"),
    )  # fmt: skip


def _where(loss: LossRow) -> Html | list[Html]:
    """Return a line for each partition with its offsets, or the topics where the collector looked for no offsets."""
    ranges = {offsets.partition: offsets for offsets in loss.offsets}
    if not ranges:
        return topics_of(loss.partitions)
    names = list(dict.fromkeys([*loss.partitions, *ranges]))
    return [el("div", partition_link(name), _range(ranges.get(name))) for name in names]


def _range(offsets: OffsetRange | None) -> Html | None:
    if offsets is None:
        return None
    first, last = amount(offsets.first), amount(None if offsets.next is None else offsets.next - 1)
    which = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return el("small", f" {which}, {offsets.certainty}", title=offsets.how)
