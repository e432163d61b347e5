"""Small plots of an application over time, as SVG: bars where something was counted, hatching where nothing was observed, marks."""

from __future__ import annotations

from collections.abc import Sequence

from app.components.markup import Html, el
from app.components.time_text import amount, duration, exact_time
from lifecycle.checkpoints import CheckpointState
from lifecycle.rows.pipelines import CheckpointRow
from lifecycle.rows.series import ApplicationSeries, CheckpointGapsRow, MarkKind, Series, SeriesMark

WIDTH, HEIGHT = 240, 40
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
    step, most = WIDTH / max(1, len(values)), max(1, _most(values))
    bars = "".join(
        f"M{(place + 0.5) * step:.1f} {HEIGHT}V{HEIGHT - max(1.0, HEIGHT * value / most):.1f}"
        for place, value in enumerate(values)
        if value
    )
    unseen = "".join(
        f"M{place * step:.1f} 0h{step:.1f}v{HEIGHT}h-{step:.1f}z" for place, value in enumerate(values) if value is None
    )
    svg = el(
        "svg",
        unseen and el("path", d=unseen, class_="unseen"),
        bars and el("path", d=bars, class_=f"bars {tone}", stroke_width=f"{max(1.0, step * 0.8):.1f}"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {says}" + (", not observed all of the time" if unseen else ""),
    )
    return el("figure", el("figcaption", name, " ", el("b", says)), svg, class_="plot")


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
    line, before_ms = "", None
    for at_ms, took in done:
        broken = before_ms is None or any(gap.from_ms >= before_ms and gap.until_ms <= at_ms for gap in seen)
        line += (
            f"{'M' if broken else 'L'}{_x(at_ms, from_ms, until_ms)} {HEIGHT - (HEIGHT - 2) * took / max(1, most):.1f}"
        )
        # A single point is a line too.
        line += "h0.1" if broken else ""
        before_ms = at_ms
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
        _mark("⏸", "alert", _share(one.started_at_ms, from_ms, until_ms), f"checkpoint {one.number}: {one.name}")
        for one in gaps.hung
        if one.until_ms >= from_ms
    ]
    svg = el(
        "svg",
        shades and el("path", d=shades, class_="gap"),
        line and el("path", d=line, class_="line-of"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"checkpoints: {len(done)} completed, {len(seen)} times without one, {len(failed)} failed, {len(hung)} hung",
    )
    says = f"{len(done)}, longest {duration(most)}" if done else "none completed"
    names = [el("small", gap.name, f" ({gap.why})" if gap.why else "", class_="gap-name") for gap in seen[-2:]]
    marks = el("div", *failed, *hung, class_="marks", aria_hidden="true") if failed or hung else None
    return el("figure", el("figcaption", "checkpoints ", el("b", says)), svg, marks, *names, class_="plot")


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
