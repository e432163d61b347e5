"""How long a pipeline's checkpoints took over time: the medians as a line, bars up to the longest, failures, gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from indoubt.app.components import shown_cluster
from indoubt.app.components.links_and_buttons import ChooseTime, click_text, link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.plot_axis import PlotAxis
from indoubt.app.components.time_text import amount, at, duration, exact_time
from indoubt.app.components.value_axis import ValueAxis
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import CheckpointDurationsRow
from indoubt.lifecycle.rows.series import CheckpointGap, CheckpointGapsRow

COLUMNS = 40
"""So many parts of the time can be pressed."""
NAMED_FROM = 12.0
"""Percent of the width: a narrower gap has no room for its name, which stands below then."""
MOST_NAMES = 3
Address = Callable[[int, int], str]
"""Returns the address that shows a stretch of time alone (epoch ms)."""


def duration_plot(row: CheckpointDurationsRow, found: CheckpointGapsRow | None, address: Address) -> Html:
    """Return the picture of one pipeline; ``found``: what is wrong with its checkpoints."""
    axis = axis_of(row)
    gaps = [one for one in (found.gaps if found else ()) if one.until_ms > row.from_ms and one.from_ms < row.until_ms]
    values = ValueAxis.of([length_ms for length_ms in row.bucket_longest_ms if length_ms is not None])
    count = len(row.bucket_p50_ms)
    failed = [(one.at_ms, f"checkpoint {one.number} failed: {one.reason}") for one in (found.failures if found else ())]
    hung = [(one.started_at_ms, one.name) for one in (found.hung if found else ())]
    marks = [*_marks("✖", "failed", failed, axis), *_marks("‖", "hung", hung, axis)]
    drawing = el(
        "svg",
        axis.lines(count),
        values.lines(count),
        el("path", d=_bars(row, values), class_="spread"),
        el("path", d=_line(row, gaps, values), class_="line-of"),
        viewBox=f"0 0 {count} 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"durations of {row.pipeline}'s checkpoints over time: {_said(row)}, {counted(len(gaps), 'gap')}, "
        f"{counted(len(failed), 'failure')}",
    )
    unknown = row.known_from_ms > row.from_ms and _span(
        axis, row.from_ms, row.known_from_ms, "not-kept", "no earlier one in memory"
    )
    area = el(
        "div",
        unknown,
        *[_gap(one, axis) for one in gaps],
        drawing,
        *marks,
        el("div", *_columns(row, address), class_="columns"),
        class_="area tall",
        data_values="|".join(_bucket_said(row)),
        data_axis_from=row.from_ms,
        data_axis_until=row.until_ms,
    )
    scale = values.is_log and el("small", "log scale")
    caption = el(
        "figcaption", link(page_paths.pipeline(row.pipeline), row.pipeline), el("b", _said(row)), scale,
        el("span", class_="at-cross", aria_hidden="true"),
    )  # fmt: skip
    return el(
        "figure",
        caption,
        el("div", values.labels(), area, class_="with-values"),
        *_names(gaps),
        class_="plot durations",
    )


def axis_of(row: CheckpointDurationsRow) -> PlotAxis:
    """Return the axis of time of a row; all rows of one answer have the same."""
    return PlotAxis(from_ms=row.from_ms, until_ms=row.until_ms)


def _said(row: CheckpointDurationsRow) -> str:
    if not row.completed:
        return "none completed"
    lengths = (("p50", row.p50_ms), ("p99", row.p99_ms), ("longest", row.longest_ms))
    return ", ".join(
        [f"{row.completed:,} completed", *(f"{name} {duration(length_ms)}" for name, length_ms in lengths)]
    )


def _bucket_said(row: CheckpointDurationsRow) -> Iterable[str]:
    for number, p50_ms, longest_ms in zip(row.bucket_completed, row.bucket_p50_ms, row.bucket_longest_ms, strict=True):
        several = f"{amount(number)} completed, p50 {duration(p50_ms)}, longest {duration(longest_ms)}"
        yield several if number > 1 else duration(longest_ms) if number else "none completed"


def _bars(row: CheckpointDurationsRow, values: ValueAxis) -> str:
    drawn = []
    for place, (p50_ms, longest_ms) in enumerate(zip(row.bucket_p50_ms, row.bucket_longest_ms, strict=True)):
        if p50_ms is not None and longest_ms is not None:
            low, high = values.height(p50_ms), values.height(longest_ms)
            drawn.append(f"M{place}.5 {100 - low:.0f}V{100 - high:.0f}")
    return "".join(drawn)


def _line(row: CheckpointDurationsRow, gaps: Iterable[CheckpointGap], values: ValueAxis) -> str:
    """Return the line of the medians; none crosses a gap."""
    ends_ms = sorted(gap.until_ms for gap in gaps)
    drawn, before = [], None
    for place, p50_ms in enumerate(row.bucket_p50_ms):
        if p50_ms is None:
            continue
        until_ms = row.from_ms + (place + 1) * row.bucket_ms
        behind = sum(end_ms < until_ms for end_ms in ends_ms)
        # A single point is a line too.
        drawn.append(f"{'L' if behind == before else 'M'}{place}.5 {100 - values.height(p50_ms):.1f}h.01")
        before = behind
    return "".join(drawn)


def _gap(gap: CheckpointGap, axis: PlotAxis) -> Html:
    kind = "unobserved" if not gap.observed else "ongoing" if gap.ongoing else "over"
    return _span(axis, gap.from_ms, gap.until_ms, kind, gap.name, gap.why)


def _span(axis: PlotAxis, from_ms: int, until_ms: int, kind: str, name: str, why: str = "") -> Html:
    left = axis.place(from_ms)
    width = axis.place(until_ms) - left
    says = f"{exact_time(from_ms)}: {name}" + (f" ({why})" if why else "")
    text = width >= NAMED_FROM and el("span", name)
    return el("div", text, class_=f"gap-span {kind}", style=f"left:{left:.2f}%;width:{width:.2f}%", title=says)


def _names(gaps: Iterable[CheckpointGap]) -> list[Html]:
    """Return the newest gaps in words, each in a line of its own; one that is over is no warning."""
    newest = sorted(gaps, key=lambda gap: -gap.from_ms)
    names = [gap_name(gap) for gap in newest[:MOST_NAMES]]
    more = len(newest) - len(names)
    return [*names, *([el("small", f"and {counted(more, 'earlier gap')}", class_="gap-name")] if more else [])]


def gap_name(gap: CheckpointGap) -> Html:
    """Return what a gap is called, and when it began; one that is over, or was not observed, is no warning."""
    why = f" ({gap.why})" if gap.why else ""
    kind = "gap-name ongoing" if gap.ongoing and gap.observed else "gap-name"
    return el("small", at(gap.from_ms), f": {gap.name}{why}", class_=kind)


def _marks(sign: str, kind: str, moments: Iterable[tuple[int, str]], axis: PlotAxis) -> list[Html]:
    """Return a line with its sign for each moment; of those in one place the newest says how many there are."""
    at_place: dict[int, list[tuple[int, str]]] = {}
    for moment in sorted(moments):
        if axis.has(moment[0]):
            at_place.setdefault(round(axis.place(moment[0])), []).append(moment)
    drawn = []
    for together in at_place.values():
        at_ms, says = together[-1]
        more = f", and {len(together) - 1} before it" if len(together) > 1 else ""
        place = f"left:{axis.place(at_ms):.2f}%"
        drawn.append(el("i", sign, class_=f"moment {kind}", style=place, title=f"{exact_time(at_ms)}: {says}{more}"))
    return drawn


def _columns(row: CheckpointDurationsRow, address: Address) -> Iterable[Html]:
    """Return links that show a part of the time alone."""
    length_ms = row.until_ms - row.from_ms
    for number in range(COLUMNS):
        first_ms, until_ms = (row.from_ms + length_ms * place // COLUMNS for place in (number, number + 1))
        yield el(
            "a",
            href=shown_cluster.within(address(first_ms, until_ms - 1)),
            data_click=click_text(ChooseTime(first_ms=first_ms, last_ms=until_ms - 1)),
            aria_label=f"only from {exact_time(first_ms)}",
            # The form beside it is what a keyboard reaches.
            tabindex="-1",
        )
