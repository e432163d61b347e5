"""The time line of a batch: each attempt's transactions from opening to end on one axis, with the orders through all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut, read_key
from indoubt.app.components.plot_axis import PlotAxis
from indoubt.app.components.time_text import at, duration, exact_time
from indoubt.app.components.verdict_signs import STATE_SIGNS, outcome_sign
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import MINUTE_MS
from indoubt.lifecycle.rows.batches import BatchRow, BatchTransactionRow
from indoubt.lifecycle.rows.records import AuditRow
from indoubt.lifecycle.states import TransactionState

MOST_LANES = 12
"""Of one attempt so many transactions are drawn, those that end last; the table below has them all."""
_UNDONE = frozenset({TransactionState.ABORTED, TransactionState.LOST})


def batch_line(attempts: Sequence[BatchRow], orders: Sequence[AuditRow]) -> Html | None:
    """Return the time line, None where no opening is known; ``attempts`` and ``orders`` come in any order.

    ``orders``: about it or its pipeline; of those after the end of all of it none is drawn.
    """
    known = sorted(attempts, key=lambda one: one.attempt)
    openings_ms = [each.opened_at_ms for one in known for each in one.transactions if each.opened_at_ms is not None]
    if not openings_ms:
        return None
    from_ms = min(openings_ms)
    ends_ms = [from_ms + 1, *(at_ms for one in known for at_ms in _times(one))]
    is_over = all(one.is_over for one in known)
    about = [
        order for order in orders if from_ms <= _given_ms(order) and not (is_over and _given_ms(order) > max(ends_ms))
    ]
    about.sort(key=lambda order: _given_ms(order))
    until_ms = max(*ends_ms, *(_given_ms(order) for order in about))
    # The sign of an end stands behind it.
    axis = PlotAxis(from_ms=from_ms, until_ms=until_ms + (until_ms - from_ms) // 30 + 1)
    lines = [
        el("i", "◆", class_="order-line", style=f"left:{axis.place(_given_ms(order)):.2f}%", title=_said(order))
        for order in about
    ]
    is_open = any(_is_open(one) for one in known)
    now = is_open and el("i", class_="now", data_now_from=axis.from_ms, data_now_until=axis.until_ms, title="now")
    drawing = el(
        "div",
        *[part for one in known for part in _attempt(one, axis)],
        el("div", *lines, now, class_="lines", aria_hidden="true"),
        el("div", axis.ruler_from_start(), class_="of-lanes"),
        class_="lanes-drawing",
    )
    who = [el("li", "◆ ", at(_given_ms(order)), el("b", f" {order.who}"), f": {_done(order)}") for order in about]
    return el(
        "section",
        el("h3", "Time line"),
        _legend(is_open),
        drawing,
        who and el("ul", *who, class_="who-acted"),
        class_="batch-line",
    )  # fmt: skip


def _is_open(batch: BatchRow) -> bool:
    return any(not one.state.is_final for one in batch.transactions)


def _times(batch: BatchRow) -> list[int]:
    times = [batch.decided_at_ms, batch.deadline_ms]
    for one in batch.transactions:
        times += [one.opened_at_ms, one.prepared_at_ms, one.ended_at_ms]
    if _is_open(batch) and batch.deadline_ms is None:
        # No timeout ends it: now has its place within the next minute.
        times.append((batch.updated_at_ms or 0) + MINUTE_MS)
    return [at_ms for at_ms in times if at_ms is not None]


def _legend(is_open: bool) -> Html:
    spans = [
        el("span", el("i", class_=f"swatch {word}", aria_hidden="true"), word)
        for word in ("open", "prepared", "decided")
    ]
    edges = [el("span", el("i", class_="swatch edge", aria_hidden="true"), "its timeout"),
             el("span", el("i", class_="swatch now", aria_hidden="true"), "now")]  # fmt: skip
    signs = [
        el("span", f"{STATE_SIGNS[TransactionState.COMMITTED]} committed"),
        el("span", "✖ aborted"),
        el("span", "◆ ordered"),
    ]
    return el("div", *spans, *(edges if is_open else []), *signs, class_="legend")


def _attempt(batch: BatchRow, axis: PlotAxis) -> list[Html]:
    shown = sorted(batch.transactions, key=lambda one: (one.state.is_final, -(one.ended_at_ms or 0)))[:MOST_LANES]
    shown.sort(key=lambda one: (one.resource_manager, one.slot or 0))
    left_out = len(batch.transactions) - len(shown)
    named = left_out > 0 and el("small", f" the last {len(shown)} of {counted(len(batch.transactions), 'transaction')}")
    head = el("div", el("b", f"run {batch.attempt}"), named, el("small", _steps(batch)), class_="attempt")
    return [head, *[part for one in shown for part in _lane(batch, one, axis)]]


def _lane(batch: BatchRow, one: BatchTransactionRow, axis: PlotAxis) -> list[Html]:
    name = link(page_paths.transaction(one.key), cut(read_key(one.key).name, "span"))
    return [el("div", name, class_="lane-name"), el("div", *_segments(batch, one, axis), class_="lane")]


def _segments(batch: BatchRow, one: BatchTransactionRow, axis: PlotAxis) -> list[Html]:
    """Return the parts of one transaction: open, prepared, decided, each until the next; then how it ended, or what is to come."""
    if one.opened_at_ms is None:
        return []
    is_final = one.state.is_final
    end_ms = one.ended_at_ms if is_final else axis.until_ms
    if end_ms is None:
        # That it ended is known, and not when.
        end_ms = max(at_ms for at_ms in (one.opened_at_ms, one.prepared_at_ms) if at_ms is not None)
    told = [("open", one.opened_at_ms), ("prepared", one.prepared_at_ms), ("decided", batch.decided_at_ms)]
    steps = sorted(((at_ms, kind) for kind, at_ms in told if at_ms is not None and at_ms <= end_ms))
    ends_ms = [at_ms for at_ms, _ in steps[1:]] + [end_ms]
    parts = [_segment(kind, at_ms, until_ms, axis) for (at_ms, kind), until_ms in zip(steps, ends_ms, strict=True)]
    if is_final:
        undone = one.state in _UNDONE
        sign = "✖" if undone else STATE_SIGNS[one.state]
        says = f"{one.state.value} {exact_time(one.ended_at_ms)}"
        return [
            *parts,
            el(
                "i", sign, class_="end undone" if undone else "end", style=f"left:{axis.place(end_ms):.2f}%", title=says
            ),
        ]
    # It hides what is later than now: the browser knows when that is.
    parts.append(el("i", class_="rest", data_now_from=axis.from_ms, data_now_until=axis.until_ms))
    if batch.deadline_ms is not None:
        parts.append(el("i", class_="edge", style=f"left:{axis.place(batch.deadline_ms):.2f}%", title="its timeout"))
    return parts


def _segment(kind: str, from_ms: int, until_ms: int, axis: PlotAxis) -> Html:
    left = axis.place(from_ms)
    says = f"{kind} from {exact_time(from_ms)}"
    return el("i", class_=kind, style=f"left:{left:.2f}%;width:{axis.place(until_ms) - left:.2f}%", title=says)


def _steps(batch: BatchRow) -> str:
    """Return the steps of an attempt and how long each took, that of the last of its transactions."""
    told = [
        ("opened", batch.opened_at_ms),
        ("prepared", _latest(one.prepared_at_ms for one in batch.transactions)),
        (f"{batch.decision} decided by {batch.decided_by}", batch.decided_at_ms),
        (_end(batch), _latest(one.ended_at_ms for one in batch.transactions)),
    ]
    known = sorted(((at_ms, what) for what, at_ms in told if at_ms is not None))
    gaps_ms = [None, *(at_ms - before_ms for (before_ms, _), (at_ms, _) in pairwise(known))]
    return " · ".join(
        what if gap_ms is None else f"{what} +{duration(gap_ms)}"
        for (_, what), gap_ms in zip(known, gaps_ms, strict=True)
    )


def _end(batch: BatchRow) -> str:
    ended = [one.state for one in batch.transactions if one.state.is_final]
    undone = sum(state in _UNDONE for state in ended)
    words = [f"{number} {word}" for number, word in ((len(ended) - undone, "committed"), (undone, "aborted")) if number]
    return " and ".join(words)


def _latest(times: Iterable[int | None]) -> int | None:
    return max((at_ms for at_ms in times if at_ms is not None), default=None)


def _said(order: AuditRow) -> str:
    return f"{exact_time(_given_ms(order))}: {order.who}: {_done(order)}"


def _done(order: AuditRow) -> str:
    return f"{order.action}, {outcome_sign(order.outcome)[1]} ({order.reason})"


def _given_ms(order: AuditRow) -> int:
    return order.at_ms if order.given_at_ms is None else order.given_at_ms
