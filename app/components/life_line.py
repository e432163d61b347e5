"""The time line of a transaction: its steps on a ruler from its opening to the timeout, its driver's and its readers' bars."""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut
from indoubt.app.components.plot_axis import PlotAxis
from indoubt.app.components.time_text import ago, at, duration, since
from indoubt.lifecycle.rows.attention import WaitingGroup
from indoubt.lifecycle.rows.transactions import TransactionDetailRow
from indoubt.lifecycle.states import TransactionState

LATE_ABORT_MS = 15_000
"""The broker looks for timeouts every 10 s: an end so long behind the timeout is still its doing."""


def life_line(detail: TransactionDetailRow, waits: Sequence[WaitingGroup]) -> Html:
    """Return the time line; ``waits``: the groups that wait behind it."""
    start_ms = detail.opened_at_ms or (detail.timeline[0].at_ms if detail.timeline else None)
    if start_ms is None:
        return el("p", "Its opening time is unknown.", class_="empty")
    last_ms = max([start_ms, *(step.at_ms for step in detail.timeline)])
    edge_ms = _edge(detail, start_ms, last_ms)
    end_ms = max(last_ms, edge_ms or 0, start_ms + 1)
    axis = PlotAxis(from_ms=start_ms, until_ms=end_ms)
    ticks = [
        el("i", class_="mark", style=f"left:{axis.place(step.at_ms):.2f}%", title=_in_words(step.what))
        for step in detail.timeline
    ]
    now = not detail.state.is_final and el(
        "i", class_="now", data_now_from=start_ms, data_now_until=end_ms, title="now"
    )
    edge = edge_ms is not None and el("i", class_="edge", title="the timeout")
    ends = el("div", el("span", at(start_ms)), _end(detail, edge_ms, last_ms), class_="ruler-ends")
    ruler = el("div", *ticks, now, edge, class_="ruler", aria_hidden="true")
    bars = [_driver(detail, axis), *(_reader(group, axis) for group in waits)]
    return el("div", ruler, ends, _steps(detail, start_ms), el("div", *bars, class_="lanes"), class_="life")


def _edge(detail: TransactionDetailRow, start_ms: int, last_ms: int) -> int | None:
    """Return when the broker aborts it, or was about to when it ended; None where that is no matter any more."""
    if detail.deadline_ms is not None:
        return detail.deadline_ms
    if detail.timeout_ms is None or detail.state is TransactionState.COMMITTED:
        return None
    timeout_at_ms = start_ms + detail.timeout_ms
    return timeout_at_ms if timeout_at_ms <= last_ms + LATE_ABORT_MS else None


def _end(detail: TransactionDetailRow, edge_ms: int | None, last_ms: int) -> Html:
    if edge_ms is None:
        return el("span", at(last_ms))
    word = "its timeout: " if detail.state.is_final else "the broker aborts it: "
    return el("span", word, at(edge_ms), class_="edge-text")


def _steps(detail: TransactionDetailRow, start_ms: int) -> Html:
    lines, before_ms = [], start_ms
    for step in detail.timeline:
        gap = step.at_ms - before_ms
        lines.append(
            el("li", gap > 0 and el("small", f"+{duration(gap)}"), el("b", _in_words(step.what)),
               el("small", at(step.at_ms), f" · {step.source}"))
        )  # fmt: skip
        before_ms = max(before_ms, step.at_ms)
    return el("ol", *lines, class_="steps")


def _in_words(what: str) -> str:
    """Return a lifecycle event by its word alone: the page says that it is about a transaction."""
    return what.removeprefix("transaction.")


def _driver(detail: TransactionDetailRow, axis: PlotAxis) -> Html | None:
    if not detail.managed or detail.last_seen_ms is None:
        return None
    seen = axis.place(detail.last_seen_ms)
    says = el("small", "last sign of life ", at(detail.last_seen_ms))
    if not detail.state.is_final:
        says = el("small", "last sign of life ", ago(detail.last_seen_ms))
    return _lane("driver", 0.0, seen, "good", says)


def _reader(group: WaitingGroup, axis: PlotAxis) -> Html:
    since_ms = group.since_ms or axis.from_ms
    begins = axis.place(since_ms)
    # It hides what is later than now: the browser knows when that is.
    rest = el("i", class_="rest", data_now_from=axis.from_ms, data_now_until=axis.until_ms)
    return _lane(group.group, begins, 100.0 - begins, "wait", el("small", "waits for ", since(since_ms)), rest)


def _lane(name: str, left: float, width: float, tone: str, says: Html, rest: Html | None = None) -> Html:
    bar = el("i", class_=tone, style=f"left:{left:.2f}%;width:{max(0.5, width):.2f}%")
    return el("div", cut(name, "span"), says, el("div", bar, rest, class_="lane", aria_hidden="true"))
