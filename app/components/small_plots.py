"""Small plots over one time axis, as SVG: bars where something was counted, hatching where it was not observed, marks as lines.

A place is a number of buckets since the first one. Grey is health, amber what was or is near trouble, red what is trouble now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at
from indoubt.app.components.value_axis import flattens
from indoubt.lifecycle.rows.series import MarkKind, SeriesMark, TimeAxis

HEIGHT = 72
"""Pixels, as in style.css."""
LEAST = 2
"""The height of the smallest bar: what is little is seen too."""
SIGNS = {
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bars of one colour; where there are several, each stands on the ones before."""

    values: Values
    tone: str = ""


def bar_plot(
    axis: TimeAxis,
    name: str,
    says: object,
    bars: Sequence[Bars],
    *,
    text: Callable[[int], str],
    kind: str = "",
    full: int | None = None,
    spans: Sequence[tuple[int, int, str]] = (),
    marks: Sequence[SeriesMark] = (),
    below: Sequence[Html] = (),
) -> Html:
    """Return a plot with its name and what it amounts to.

    ``text``: says one value under the crosshair. ``full``: the value as high as the plot, the largest by default. ``spans``: from
    and until (epoch ms) of what is shaded, and its tone. ``below``: lines of text.
    """
    together = combined(lambda *values: sum(values), *(bar.values for bar in bars))
    known = [value for value in together if value]
    is_log = full is None and flattens(known)
    height_of = _heights(full or max(known, default=1), is_log=is_log)
    drawn, under = [], [0] * len(together)
    for bar in bars:
        tops = [_added(low, value) for low, value in zip(under, bar.values, strict=True)]
        drawn.append((_bars(under, tops, height_of), bar.tone))
        under = [low if top is None else top for low, top in zip(under, tops, strict=True)]
    unseen = hatched(together)
    svg = el(
        "svg",
        *[el("path", d=_shade(axis, from_ms, until_ms), class_=f"gap {tone}") for from_ms, until_ms, tone in spans],
        *[el("path", d=path, class_=f"bars {tone}".rstrip()) for path, tone in drawn if path],
        _lines(axis, marks),
        viewBox=f"0 0 {buckets(axis)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name} over time" + (", not observed all of the time" if unseen else ""),
    )
    values = "|".join("no data" if value is None else text(value) for value in together)
    area = el(
        "div",
        *unseen,
        svg,
        class_="area",
        data_values=values,
        data_axis_from=axis.from_ms,
        data_axis_until=axis.until_ms,
    )
    scale = is_log and el("small", " log scale")
    caption = el("figcaption", name, " ", el("b", says), scale, el("span", class_="at-cross", aria_hidden="true"))
    return el("figure", caption, area, *below, class_=f"plot {kind}".rstrip())


def axis_line(axis: TimeAxis, columns: int) -> Html:
    """Return the times of the axis, once under each column of plots."""
    return el("div", *[axis_times(axis)] * columns, class_="series axes", aria_hidden="true")


def axis_times(axis: TimeAxis) -> Html:
    """Return the times at which the axis begins and ends, and between them its middle."""
    times = [at(moment_ms) for moment_ms in (axis.from_ms, (axis.from_ms + axis.until_ms) // 2, axis.until_ms)]
    return el("div", *times, class_="axis", aria_hidden="true")


def hatched(values: Values) -> list[Html]:
    """Return what covers the buckets that were not observed."""
    count, begin, spans = max(1, len(values)), None, []
    for number, value in enumerate((*values, 0)):
        if value is None and begin is None:
            begin = number
        elif value is not None and begin is not None:
            style = f"left:{100 * begin / count:.2f}%;width:{100 * (number - begin) / count:.2f}%"
            spans.append(el("i", class_="unseen", style=style))
            begin = None
    return spans


def marks_of(pipeline: str, marks: Sequence[SeriesMark]) -> list[SeriesMark]:
    """Return the newest marks of an application, oldest first."""
    return [mark for mark in marks if mark.pipeline == pipeline][-MOST_MARKS:]


def buckets(axis: TimeAxis) -> int:
    """Return how many buckets there are."""
    return max(1, (axis.until_ms - axis.from_ms) // axis.bucket_ms)


def place(axis: TimeAxis, at_ms: int) -> float:
    """Return where a moment is, in buckets."""
    return min(max(0.0, (at_ms - axis.from_ms) / axis.bucket_ms), float(buckets(axis)))


def total(values: Values) -> int:
    """Return the sum of what is known."""
    return sum(value or 0 for value in values)


def combined(function: Callable[..., int], *of: Values) -> list[int | None]:
    """Return what a function makes of the values in each place, 0 for one that is not known; None where none is."""
    return [
        None if all(value is None for value in together) else function(*(value or 0 for value in together))
        for together in zip(*of, strict=True)
    ]


def most(values: Values) -> int:
    """Return the largest of what is known, 0 without any."""
    return max((value or 0 for value in values), default=0)


def newest(values: Values) -> int | None:
    """Return the last value that is known."""
    return next((value for value in reversed(values) if value is not None), None)


def _added(low: int, value: int | None) -> int | None:
    return low + value if value else None


def _heights(largest: int, *, is_log: bool) -> Callable[[int], float]:
    """Return what gives a value its share of the height."""
    if is_log:
        return lambda value: log(1 + value) / log(1 + largest)
    return lambda value: min(1.0, value / largest)


def _bars(under: Sequence[int], tops: Values, height_of: Callable[[int], float]) -> str:
    drawn = []
    for number, (low, top) in enumerate(zip(under, tops, strict=True)):
        if top is not None:
            begin = round(HEIGHT * height_of(low)) if low else 0
            drawn.append(f"M{number}.5 {HEIGHT - begin}v-{max(LEAST, round(HEIGHT * height_of(top)) - begin)}")
    return "".join(drawn)


def _shade(axis: TimeAxis, from_ms: int, until_ms: int) -> str:
    begin = f"{place(axis, from_ms):.2f}"
    return f"M{begin} 0H{place(axis, until_ms):.2f}v{HEIGHT}H{begin}z"


def _lines(axis: TimeAxis, marks: Sequence[SeriesMark]) -> Html:
    shown = [mark for mark in marks if axis.from_ms <= mark.at_ms <= axis.until_ms]
    # Those of one moment are one line.
    places = dict.fromkeys(f"{place(axis, mark.at_ms):.1f}" for mark in shown)
    drawn = "".join(f"M{at} 0v{HEIGHT}" for at in places)
    return el("path", d=drawn, class_="mark-lines") if drawn else Html("")
