"""Timeout risk: is each timeout long enough for how long transactions are open and for a restart on top of that?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

import streamlit as st

from app import live, pending_commits
from app.collector_rows import Rows
from app.markup import Html, el, join, widget_token
from app.paging import page_of
from app.time_text import counted, duration, since, time_left
from app.timeout_rows import TimeoutRow
from app.verdict_signs import Tone, badge

CARDS_A_PAGE = 20
BUTTONS_PX = 150
_RISKS = {
    "timed out": ("✖", Tone.URGENT, "transactions were aborted at it"),
    "too short": ("△", Tone.WARNING, "a restart takes longer than is left to a transaction that is as old as they usually get"),
    "tight": ("≈", Tone.NOTICE, "there is time for one restart, and none for a second"),
    "enough": ("✔", Tone.GOOD, "two restarts fit into it"),
}  # fmt: skip
"""Sign, tone and meaning of how a timeout stands (docs/api.md), the worst first."""


def show() -> None:
    """Write the page."""
    live.looked_again(_timeouts, every_s=live.CHARTS_EVERY_S)


def _timeouts() -> None:
    rows, zone = live.collector().timeouts(), live.zone()
    live.write(el("h3", "Is each timeout long enough?", el("small", _how_many(rows))))
    if not rows:
        live.write(el("p", "No transaction ended in the last 24 hours, and none is open.", class_="empty"))
        return
    shown = page_of(rows, most=CARDS_A_PAGE, key="timeout-page")
    for one in shown:
        _application(one, zone)
    if rows.more:
        live.write(el("p", f"{counted(rows.more, 'application')} more not shown.", class_="more"))


def _how_many(rows: Rows[TimeoutRow]) -> str:
    count = Counter(one.risk for one in rows)
    parts = [f"{count[word]:,} {word}" for word in dict.fromkeys([*_RISKS, *count]) if count[word]]
    return f" {', '.join(parts)}, by the last 24 hours" if parts else ""


def _application(one: TimeoutRow, zone: tzinfo) -> None:
    token = widget_token(one.pipeline)
    with st.container(key=f"timeout-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(one, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right"):
            if one.oldest_key and st.button("Oldest open", key=f"timeout-oldest-{token}"):
                st.switch_page(pending_commits.page(), query_params={"open": one.oldest_key})


def _card(one: TimeoutRow, zone: tzinfo) -> Html:
    sign, tone, meaning = _RISKS.get(one.risk, ("?", Tone.NOTICE, "what this means is not known here"))
    counts = f" · timeout {duration(one.timeout_ms)} · {counted(one.transactions, 'transaction')}"
    title = el(
        "div", badge(sign, one.risk, tone, meaning), el("b", one.pipeline, class_="name"), counts, class_="title"
    )
    said = el("div", title, el("div", one.advice, class_="why"), _strip(one), _facts(one, zone), class_="said")
    return el("div", said, class_=f"card {tone.value}")


def _strip(one: TimeoutRow) -> Html:
    """Return the timeout drawn from opening to abort: how long transactions were open, and what a restart takes at its end."""
    lengths = (
        ("half", one.p50_ms),
        ("95 of 100", one.p95_ms),
        ("99 of 100", one.p99_ms),
        ("the longest", one.longest_ms),
    )
    usual = el("i", class_="usual", style=f"width:{_share(one.p99_ms, one.timeout_ms):.2f}%",
               title=f"99 of 100 were open for no longer than {duration(one.p99_ms)}")  # fmt: skip
    marks = [
        el(
            "i",
            class_="mark",
            style=f"left:{_share(length_ms, one.timeout_ms):.2f}%",
            title=f"{which}: {duration(length_ms)}",
        )
        for which, length_ms in lengths
        if length_ms is not None
    ]
    restart = el("i", class_="restart", style=f"width:{_share(one.recovery_ms, one.timeout_ms):.2f}%",
                 title=f"a restart takes {one.recovery}")  # fmt: skip
    ends = el("div", el("span", "opened"), el("span", f"a restart takes {duration(one.recovery_ms)}"),
              el("span", f"aborted after {duration(one.timeout_ms)}", class_="edge-text"), class_="ruler-ends")  # fmt: skip
    ruler = el("div", usual, restart, *marks, el("i", class_="edge"), class_="ruler", aria_hidden="true")
    return el("div", ruler, ends, class_="life")


def _facts(one: TimeoutRow, zone: tzinfo) -> Html:
    return el(
        "div", *_lengths(one), el("span", f"a restart: {one.recovery}"), *_open_now(one, zone), class_="facts-line"
    )


def _lengths(one: TimeoutRow) -> Sequence[Html]:
    if one.longest_ms is None:
        return [el("span", "none ended in time" if one.timed_out else "none ended in the last 24 hours")]
    middle = el("span", f"half ended within {duration(one.p50_ms)}, 99 of 100 within {duration(one.p99_ms)}")
    return [middle, el("span", f"longest {duration(one.longest_ms)}: ", el("code", one.longest_transaction))]


def _open_now(one: TimeoutRow, zone: tzinfo) -> Sequence[Html]:
    if not one.open:
        return []
    left = (
        join([", times out in ", time_left(one.oldest_deadline_ms, zone)]) if one.oldest_deadline_ms is not None else ""
    )
    return [el("span", f"{one.open:,} open, the oldest ", since(one.oldest_opened_at_ms, zone), left)]


def _share(length_ms: int | None, timeout_ms: int) -> float:
    return 100 * min(1.0, max(0.0, (length_ms or 0) / max(1, timeout_ms)))
