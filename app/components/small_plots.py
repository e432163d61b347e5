"""Small plots of an application over time, as SVG: bars where something was counted, hatching where nothing was observed, marks.

All have the same time axis: a place is a number of buckets since the first one, and a mark is a line through each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import amount, at, duration, exact_time
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.series import (
    ApplicationSeries,
    CheckpointGap,
    CheckpointGapsRow,
    MarkKind,
    Series,
    SeriesMark,
)

HEIGHT = 72
"""Pixels, as in style.css."""
LEAST = 2
"""The height of the smallest bar: what is little is seen too."""
COLUMNS = 240
"""So many points has the line of checkpoints at most, however many there were."""
_SIGNS = {
    MarkKind.ORDER: "◆",
    MarkKind.START: "▸",
    MarkKind.RESTART: "↻",
    MarkKind.STOP: "■",
    MarkKind.LOST: "✖",
    MarkKind.DUPLICATED: "⊕",
    MarkKind.ALERT: "▲",
}
MOST_MARKS = 40
Values = Sequence[int | None]


def application_plots(series: Series, row: ApplicationSeries) -> Html:
    """Return the plots of one application: commits, aborts, hidden records, waiting readers, and its marks."""
    undone = [_sum(aborts, lost) for aborts, lost in zip(row.aborts, row.lost, strict=True)]
    lost = sum(value or 0 for value in row.lost)
    marks = _marks_of(row.pipeline, series)
    lines = _lines(marks, series)

    def plot(name: str, values: Values, says: str, tone: str) -> Html:
        return _plot(name, values, says, tone, lines)

    return el(
        "div",
        plot("commits", row.commits, f"{amount(_total(row.commits))}", "good"),
        plot(
            "aborts",
            undone,
            f"{amount(_total(undone))}" + (f", {lost} lost" if lost else ""),
            "urgent" if lost else "warning",
        ),
        plot("hidden records", row.hidden, f"most {amount(_most(row.hidden))}", "notice"),
        plot("readers wait", row.longest_wait_ms, f"longest {duration(_most(row.longest_wait_ms))}", "urgent"),
        _strip(marks, series),
        class_="plots",
    )


def _plot(name: str, values: Values, says: str, tone: str, lines: Html) -> Html:
    most = _most(values)
    unseen = "".join(f"M{place} {HEIGHT}l1-{HEIGHT}" for place, value in enumerate(values) if value is None)
    bars = "".join(
        f"M{place}.5 {HEIGHT}v-{max(LEAST, round(HEIGHT * value / most))}"
        for place, value in enumerate(values)
        if value
    )
    svg = el(
        "svg",
        unseen and el("path", d=unseen, class_="unseen"),
        bars and el("path", d=bars, class_=f"bars {tone}"),
        lines,
        viewBox=f"0 0 {max(1, len(values))} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name} over time" + (", not observed all of the time" if unseen else ""),
    )
    return el("figure", el("figcaption", name, " ", el("b", says)), svg, class_="plot")


def _marks_of(pipeline: str, series: Series) -> list[SeriesMark]:
    return [mark for mark in series.marks if mark.pipeline in ("", pipeline)][-MOST_MARKS:]


def _lines(marks: Sequence[SeriesMark], series: Series) -> Html:
    drawn = "".join(f"M{_place(mark.at_ms, series):.2f} 0v{HEIGHT}" for mark in marks)
    return el("path", d=drawn, class_="mark-lines") if drawn else Html("")


def _strip(marks: Sequence[SeriesMark], series: Series) -> list[Html]:
    if not marks:
        return []
    signs = []
    for mark in marks:
        says = f"{exact_time(mark.at_ms)}: {mark.text}"
        signs.append(_mark(_SIGNS.get(mark.kind, "•"), mark.kind.value, mark.at_ms, series, says))
    newest = marks[-1]
    figure = el("figure", el("figcaption", "marks ", el("b", len(marks))), _marks(signs), class_="plot")
    last = el(
        "small", "last, ", at(newest.at_ms), f": {_SIGNS.get(newest.kind, '•')} {newest.text}", class_="last-mark"
    )
    return [figure, last]


def checkpoint_plot(rows: Sequence[CheckpointRow], gaps: CheckpointGapsRow, series: Series) -> Html:
    """Return how long checkpoints took as a line that breaks where none came; the gaps are shaded and named."""
    ended = sorted(
        (row.ended_at_ms, row.duration_ms)
        for row in rows
        if row.state is CheckpointState.COMPLETED
        and row.duration_ms is not None
        and row.ended_at_ms is not None
        and row.ended_at_ms >= series.from_ms
    )
    seen = [gap for gap in gaps.gaps if gap.until_ms > series.from_ms and gap.from_ms < series.until_ms]
    most = max((took for _, took in ended), default=0)
    shades = "".join(
        f"M{_place(gap.from_ms, series):.2f} 0H{_place(gap.until_ms, series):.2f}v{HEIGHT}H{_place(gap.from_ms, series):.2f}z"
        for gap in seen
    )
    failed = [
        _mark("✖", "lost", one.at_ms, series, f"checkpoint {one.number} failed: {one.reason}")
        for one in gaps.failures
        if one.at_ms >= series.from_ms
    ]
    hung = [
        _mark("‖", "alert", one.started_at_ms, series, f"checkpoint {one.number}: {one.name}")
        for one in gaps.hung
        if one.until_ms >= series.from_ms
    ]
    points = [
        (_place(at_ms, series), sum(gap.until_ms <= at_ms for gap in seen), took / max(1, most))
        for at_ms, took in ended
    ]
    svg = el(
        "svg",
        shades and el("path", d=shades, class_="gap"),
        el("path", d=_line(points, _count(series) / COLUMNS), class_="line-of"),
        _lines(_marks_of(gaps.pipeline, series), series),
        viewBox=f"0 0 {_count(series)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"checkpoints over time: {counted(len(seen), 'gap')}, {len(failed)} failed, {len(hung)} hung",
    )
    says = f"{len(ended)}, longest {duration(most)}" if ended else "none completed"
    names = [_gap_name(gap) for gap in seen[-2:]]
    marks = _marks([*failed, *hung]) if failed or hung else None
    return el("figure", el("figcaption", "checkpoints ", el("b", says)), svg, marks, *names, class_="plot")


def _gap_name(gap: CheckpointGap) -> Html:
    """Return what a gap is called; one that is over says when it was, and is no warning any more."""
    why = f" ({gap.why})" if gap.why else ""
    if gap.ongoing:
        return el("small", gap.name, why, class_="gap-name ongoing")
    return el("small", at(gap.from_ms), ": ", gap.name, why, class_="gap-name")


def _line(points: Sequence[tuple[float, int, float]], column: float) -> str:
    """Return the line through (place, gaps before it, share of the height); of all points in a column the highest is drawn.

    No line crosses a gap. ``column``: its width in buckets.
    """
    highest: dict[tuple[int, int], float] = {}
    for place, behind, share in points:
        key = (behind, int(place // column))
        highest[key] = max(share, highest.get(key, 0.0))
    drawn, before = [], None
    for (behind, number), share in sorted(highest.items()):
        # A single point is a line too.
        drawn.append(
            f"{'L' if behind == before else 'M'}{number * column:.2f} {1 + (HEIGHT - 2) * (1 - share):.0f}h.01"
        )
        before = behind
    return "".join(drawn)


def _marks(signs: Sequence[Html]) -> Html:
    return el("div", *signs, class_="marks", aria_hidden="true")


def _mark(sign: str, kind: str, at_ms: int, series: Series, says: str) -> Html:
    share = min(1.0, max(0.0, _place(at_ms, series) / _count(series)))
    return el("i", sign, class_=f"mark-{kind}", style=f"left:{100 * share:.1f}%", title=says)


def _count(series: Series) -> int:
    return max(1, (series.until_ms - series.from_ms) // series.bucket_ms)


def _place(at_ms: int, series: Series) -> float:
    """Return where a moment is, in buckets."""
    return (at_ms - series.from_ms) / series.bucket_ms


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _total(values: Values) -> int:
    return sum(value or 0 for value in values)


def _most(values: Values) -> int:
    return max((value or 0 for value in values), default=0)
