"""Small plots of an application over time, as SVG: bars where something was counted, hatching where nothing was observed, marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from app.components.markup import Html, el
from app.components.time_text import amount, duration, exact_time
from lifecycle.checkpoints import CheckpointState
from lifecycle.counted_nouns import counted
from lifecycle.rows.pipelines import CheckpointRow
from lifecycle.rows.series import ApplicationSeries, CheckpointGapsRow, MarkKind, Series, SeriesMark

WIDTH, HEIGHT = 240, 40
COLUMNS = 120
"""So many points has the line of checkpoints at most, however many there were."""
POINTS_A_PIECE = 20
_SIGNS = {
    MarkKind.ORDER: "◆",
    MarkKind.START: "▸",
    MarkKind.RESTART: "↻",
    MarkKind.STOP: "■",
    MarkKind.LOST: "✖",
    MarkKind.DUPLICATED: "⧉",
    MarkKind.ALERT: "▲",
}
MOST_MARKS = 40
Values = Sequence[int | None]


def application_plots(series: Series, row: ApplicationSeries) -> Html:
    """Return the plots of one application: commits, aborts, hidden records, waiting readers, and its marks."""
    undone = [_sum(aborts, lost) for aborts, lost in zip(row.aborts, row.lost, strict=True)]
    lost = sum(value or 0 for value in row.lost)
    marks = [mark for mark in series.marks if mark.pipeline in ("", row.pipeline)][-MOST_MARKS:]
    return el(
        "div",
        _plot("commits", row.commits, f"{amount(_total(row.commits))}", "good"),
        _plot(
            "aborts",
            undone,
            f"{amount(_total(undone))}" + (f", {lost} lost" if lost else ""),
            "urgent" if lost else "warning",
        ),
        _plot("hidden records", row.hidden, f"most {amount(_most(row.hidden))}", "notice"),
        _plot("readers wait", row.longest_wait_ms, f"longest {duration(_most(row.longest_wait_ms))}", "urgent"),
        _strip(marks, series.from_ms, series.until_ms),
        class_="plots",
    )


def _plot(name: str, values: Values, says: str, tone: str) -> Html:
    # The bucket that is not over yet is a path of its own: while it grows, the others need not be sent again.
    most, last = max(1, _most(values)), len(values) - 1
    heights = [0 if not value else max(1, round(HEIGHT * value / most)) for value in values]
    unseen = "".join(f"M{start} 0h{number}v{HEIGHT}h-{number}z" for start, number in _unseen(values))
    svg = el(
        "svg",
        unseen and el("path", d=unseen, class_="unseen"),
        el("path", d=_bars(heights[:last], 0), class_=f"bars {tone}"),
        el("path", d=_bars(heights[last:], last), class_=f"bars {tone}"),
        viewBox=f"0 0 {max(1, len(values))} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {says}" + (", not observed all of the time" if unseen else ""),
    )
    return el("figure", el("figcaption", name, " ", el("b", says)), svg, class_="plot")


def _bars(heights: Sequence[int], start: int) -> str:
    """Return the outline of bars that are one wide, from ``start`` on; equal ones that follow each other are one step."""
    if not any(heights):
        return ""
    steps = "".join(f"V{HEIGHT - height}h{len(list(equal))}" for height, equal in groupby(heights))
    return f"M{start} {HEIGHT}{steps}V{HEIGHT}z"


def _unseen(values: Values) -> Iterator[tuple[int, int]]:
    """Yield the times that were not observed: the first bucket, and how many there are."""
    start = 0
    for is_unseen, buckets in groupby(values, lambda value: value is None):
        number = len(list(buckets))
        if is_unseen:
            yield start, number
        start += number


def _strip(marks: Sequence[SeriesMark], from_ms: int, until_ms: int) -> Html | None:
    if not marks:
        return None
    signs = []
    for mark in marks:
        says = f"{exact_time(mark.at_ms)}: {mark.text}"
        signs.append(_mark(_SIGNS.get(mark.kind, "•"), mark.kind.value, _share(mark.at_ms, from_ms, until_ms), says))
    newest = marks[-1]
    return el("div", el("div", *signs, class_="marks", aria_hidden="true"),
              el("small", f"last: {_SIGNS.get(newest.kind, '•')} {newest.text}"), class_="strip")  # fmt: skip


def checkpoint_plot(rows: Sequence[CheckpointRow], gaps: CheckpointGapsRow, from_ms: int, until_ms: int) -> Html:
    """Return how long checkpoints took as a line that breaks where none came; the gaps are shaded and named."""
    done = sorted(
        (row.ended_at_ms, row.duration_ms)
        for row in rows
        if row.state is CheckpointState.COMPLETED and row.duration_ms is not None and row.ended_at_ms is not None
        and row.ended_at_ms >= from_ms
    )  # fmt: skip
    seen = [gap for gap in gaps.gaps if gap.until_ms > from_ms and gap.from_ms < until_ms]
    most = max((took for _, took in done), default=1)
    breaks = [gap.until_ms for gap in seen]
    shades = "".join(
        f"M{_x(max(gap.from_ms, from_ms), from_ms, until_ms)} 0H{_x(min(gap.until_ms, until_ms), from_ms, until_ms)}v{HEIGHT}"
        f"H{_x(max(gap.from_ms, from_ms), from_ms, until_ms)}z"
        for gap in seen
    )
    failed = [
        _mark("✖", "lost", _share(one.at_ms, from_ms, until_ms), f"checkpoint {one.number} failed: {one.reason}")
        for one in gaps.failures
        if one.at_ms >= from_ms
    ]
    hung = [
        _mark("‖", "alert", _share(one.started_at_ms, from_ms, until_ms), f"checkpoint {one.number}: {one.name}")
        for one in gaps.hung
        if one.until_ms >= from_ms
    ]
    svg = el(
        "svg",
        shades and el("path", d=shades, class_="gap"),
        *[el("path", d=line, class_="line-of") for line in _lines(done, most, breaks, from_ms, until_ms)],
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"checkpoints: {len(done)} completed, {counted(len(seen), 'gap')}, {len(failed)} failed, {len(hung)} hung",
    )
    says = f"{len(done)}, longest {duration(most)}" if done else "none completed"
    names = [el("small", gap.name, f" ({gap.why})" if gap.why else "", class_="gap-name") for gap in seen[-2:]]
    marks = el("div", *failed, *hung, class_="marks", aria_hidden="true") if failed or hung else None
    return el("figure", el("figcaption", "checkpoints ", el("b", says)), svg, marks, *names, class_="plot")


def _lines(
    done: Sequence[tuple[int, int]], most: int, breaks: Sequence[int], from_ms: int, until_ms: int
) -> Iterator[str]:
    """Yield the line of (time, length) in pieces, of which only the last one changes when a point comes.

    Of all points in a column the highest is drawn. ``breaks``: when a gap ended: no line crosses it.
    """
    points: dict[tuple[int, int], int] = {}
    for at_ms, took in done:
        behind = sum(1 for end_ms in breaks if end_ms <= at_ms)
        column = round(COLUMNS * _share(at_ms, from_ms, until_ms) / 100)
        height = round((HEIGHT - 2) * took / max(1, most))
        points[behind, column] = max(height, points.get((behind, column), 0))
    for _, together in groupby(sorted(points.items()), lambda point: point[0][0]):
        line = [(column * WIDTH // COLUMNS, HEIGHT - height) for (_, column), height in together]
        # Each piece begins where the one before it ends. A single point is a line too.
        for start in range(0, max(1, len(line) - 1), POINTS_A_PIECE):
            piece = line[start : start + POINTS_A_PIECE + 1]
            steps = "".join(f"l{x - x_before} {y - y_before}" for (x_before, y_before), (x, y) in pairwise(piece))
            yield f"M{piece[0][0]} {piece[0][1]}{steps or 'h1'}".replace(" -", "-")


def _mark(sign: str, kind: str, share: float, says: str) -> Html:
    return el("i", sign, class_=f"mark-{kind}", style=f"left:{share:.1f}%", title=says)


def _x(at_ms: int, from_ms: int, until_ms: int) -> str:
    return f"{WIDTH * _share(at_ms, from_ms, until_ms) / 100:.1f}"


def _share(at_ms: int, from_ms: int, until_ms: int) -> float:
    return 100 * min(1.0, max(0.0, (at_ms - from_ms) / max(1, until_ms - from_ms)))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _total(values: Values) -> int:
    return sum(value or 0 for value in values)


def _most(values: Values) -> int:
    return max((value or 0 for value in values), default=0)
