"""Small plots of an application over time, as SVG: bars where something was counted, hatching where nothing was observed, marks.

What is drawn stays where it is while time goes on: places count from a fixed time and heights from a unit that seldom
changes. One number of the whole (``moved``) moves it to the left, and style.css turns both into pixels. So a new bucket changes a
few characters, and only these are sent to those who look (app/regions/region_content.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import amount, duration, exact_time
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import CheckpointRow
from indoubt.lifecycle.rows.series import ApplicationSeries, CheckpointGapsRow, MarkKind, Series, SeriesMark

HEIGHT = 40
COLUMNS = 120
"""So many points has the line of checkpoints at most, however many there were."""
COLUMNS_A_PIECE = 10
PIECES = COLUMNS // COLUMNS_A_PIECE + 1
BARS_A_PIECE = 2
ROUND = 10_000
"""Buckets, after which places count from a later time: numbers stay short, and a browser draws them exactly."""
UNITS = 128
"""More than the units of the highest bar or point."""
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


def moved(series: Series) -> str:
    """Return the style of what holds the plots: how far all is moved to the left."""
    return f"--moved:-{_first(series)}"


def application_plots(series: Series, row: ApplicationSeries) -> Html:
    """Return the plots of one application: commits, aborts, hidden records, waiting readers, and its marks."""
    undone = [_sum(aborts, lost) for aborts, lost in zip(row.aborts, row.lost, strict=True)]
    lost = sum(value or 0 for value in row.lost)
    marks = [mark for mark in series.marks if mark.pipeline in ("", row.pipeline)][-MOST_MARKS:]
    first = series.from_ms // series.bucket_ms

    def plot(name: str, values: Values, says: str, tone: str) -> Html:
        return _plot(first, name, values, says, tone)

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


def _plot(first: int, name: str, values: Values, says: str, tone: str) -> Html:
    most = _most(values)
    unit = _unit(most)
    unseen = "".join(f"M{first % ROUND + end} 0h-{number}v{HEIGHT}h{number}z" for end, number in _unseen(values))
    bars = [_path("".join(piece)) for piece in _pieces(first, values, unit)] if most else []
    svg = el(
        "svg",
        unseen and el("path", d=unseen, class_="unseen"),
        el("g", *bars, class_=f"bars {tone}", style=f"--scale:{HEIGHT * unit / max(1, most):.3g}"),
        viewBox=f"0 0 {max(1, len(values))} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name} over time" + (", not observed all of the time" if unseen else ""),
    )
    return el("figure", el("figcaption", name, " ", el("b", says)), svg, class_="plot")


def _pieces(first: int, values: Values, unit: int) -> Iterator[list[str]]:
    """Yield the bars in pieces, as if on a ring: a new one takes the place of the oldest, and all others keep theirs."""
    ring = [""] * len(values)
    for number, value in enumerate(values):
        if value:
            # What is little is seen too.
            height = max(2 if unit > 1 else 1, round(value / unit))
            ring[(first + number) % len(values)] = f"M{first % ROUND + number} 0v{height}"
    for start in range(0, len(ring), BARS_A_PIECE):
        yield ring[start : start + BARS_A_PIECE]


def _unseen(values: Values) -> Iterator[tuple[int, int]]:
    """Yield the times that were not observed: the bucket in which it ends, and how many there are.

    One that goes on before the first bucket is as long as all of them: so it stays the same while time goes on.
    """
    start = 0
    for is_unseen, buckets in groupby(values, lambda value: value is None):
        number = len(list(buckets))
        if is_unseen:
            yield start + number, number if start else len(values)
        start += number


def _path(drawn: str) -> Html:
    # The short form: there are many, and changed neighbours are sent as one.
    return Html(f'<path d="{drawn}"/>' if drawn else "<path/>")


def _strip(marks: Sequence[SeriesMark], series: Series) -> list[Html]:
    if not marks:
        return []
    signs = []
    for mark in marks:
        says = f"{exact_time(mark.at_ms)}: {mark.text}"
        signs.append(_mark(_SIGNS.get(mark.kind, "•"), mark.kind.value, _place(mark.at_ms, series), says))
    newest = marks[-1]
    says = f"last: {_SIGNS.get(newest.kind, '•')} {newest.text}"
    figure = el("figure", el("figcaption", "marks ", el("b", len(marks))), _marks(signs, series), class_="plot")
    return [figure, el("small", says, class_="last-mark")]


def checkpoint_plot(rows: Sequence[CheckpointRow], gaps: CheckpointGapsRow, series: Series) -> Html:
    """Return how long checkpoints took as a line that breaks where none came; the gaps are shaded and named."""
    ended = sorted(
        (row.ended_at_ms, row.duration_ms)
        for row in rows
        if row.state is CheckpointState.COMPLETED and row.duration_ms is not None and row.ended_at_ms is not None
    )
    done = [took for at_ms, took in ended if at_ms >= series.from_ms]
    seen = [gap for gap in gaps.gaps if gap.until_ms > series.from_ms and gap.from_ms < series.until_ms]
    most = max(done, default=1)
    unit = _unit(most)
    column = _count(series) / COLUMNS
    shades = "".join(
        f"M{_place(gap.from_ms, series):.2f} 0H{_place(gap.until_ms, series):.2f}v{HEIGHT}H{_place(gap.from_ms, series):.2f}z"
        for gap in seen
    )
    failed = [
        _mark("✖", "lost", _place(one.at_ms, series), f"checkpoint {one.number} failed: {one.reason}")
        for one in gaps.failures
        if one.at_ms >= series.from_ms
    ]
    hung = [
        _mark("‖", "alert", _place(one.started_at_ms, series), f"checkpoint {one.number}: {one.name}")
        for one in gaps.hung
        if one.until_ms >= series.from_ms
    ]
    points = [
        (int(_place(at_ms, series) // column), sum(gap.until_ms <= at_ms for gap in seen), round(took / unit))
        for at_ms, took in ended
    ]
    svg = el(
        "svg",
        shades and el("path", d=shades, class_="gap"),
        el(
            "g",
            *[_path(line) for line in _line(points, _first(series) * COLUMNS // _count(series))],
            class_="line-of",
            style=f"--scale:{(HEIGHT - 2) * unit / max(1, most):.3g};--column:{column:g}",
        ),
        viewBox=f"0 0 {_count(series)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"checkpoints over time: {counted(len(seen), 'gap')}, {len(failed)} failed, {len(hung)} hung",
    )
    says = f"{len(done)}, longest {duration(most)}" if done else "none completed"
    names = [el("small", gap.name, f" ({gap.why})" if gap.why else "", class_="gap-name") for gap in seen[-2:]]
    marks = _marks([*failed, *hung], series) if failed or hung else None
    return el("figure", el("figcaption", "checkpoints ", el("b", says)), svg, marks, *names, class_="plot")


def _line(points: Sequence[tuple[int, int, int]], first: int) -> list[str]:
    """Return the line of (column, gaps before it, height) in pieces on a ring, of which a new point changes the last one only.

    Of all points in a column the highest is drawn. No line crosses a gap. ``first``: the first column that is seen.
    """
    highest: dict[tuple[int, int], int] = {}
    for column, behind, height in points:
        highest[column, behind] = max(height, highest.get((column, behind), 0))
    line = [(column, behind, height) for (column, behind), height in sorted(highest.items())]
    ring = [""] * PIECES
    for place, (column, behind, height) in enumerate(line):
        piece = column // COLUMNS_A_PIECE
        if piece < first // COLUMNS_A_PIECE:
            continue
        drawn = f"M{column} {height}"
        if place and line[place - 1][1] == behind:
            column_before, _, height_before = line[place - 1]
            step = f"l{column - column_before} {height - height_before}".replace(" -", "-")
            piece_before = column_before // COLUMNS_A_PIECE
            if piece_before == piece:
                drawn = step
            elif piece_before >= first // COLUMNS_A_PIECE:
                # A piece ends where the next one begins.
                ring[piece_before % PIECES] += step
        elif place + 1 == len(line) or line[place + 1][1] != behind:
            # A single point is a line too.
            drawn += "h1"
        ring[piece % PIECES] += drawn
    return ring


def _marks(signs: Sequence[Html], series: Series) -> Html:
    return el("div", *signs, class_="marks", style=f"--buckets:{_count(series)}", aria_hidden="true")


def _mark(sign: str, kind: str, place: float, says: str) -> Html:
    return el("i", sign, class_=f"mark-{kind}", style=f"--place:{place:.1f}", title=says)


def _first(series: Series) -> int:
    """Return the place of the first bucket that is seen."""
    return series.from_ms // series.bucket_ms % ROUND


def _count(series: Series) -> int:
    return max(1, (series.until_ms - series.from_ms) // series.bucket_ms)


def _place(at_ms: int, series: Series) -> float:
    """Return where a moment is, in buckets."""
    return _first(series) + (at_ms - series.from_ms) / series.bucket_ms


def _unit(most: int) -> int:
    """Return in what heights are counted: a power of two, which seldom changes when the highest one does."""
    unit = 1
    while most // unit >= UNITS:
        unit *= 2
    return unit


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _total(values: Values) -> int:
    return sum(value or 0 for value in values)


def _most(values: Values) -> int:
    return max((value or 0 for value in values), default=0)
