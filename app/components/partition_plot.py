"""A partition over time: its end against its last stable offset, and below it the transactions that held it back as bars."""

from __future__ import annotations

from math import ceil

from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import cut
from indoubt.app.components.small_plots import axis_times, buckets, hatched, place
from indoubt.app.components.time_text import amount, duration, since
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.groups import HolderSpan, PartitionSeries

HEIGHT = 160
"""Pixels, as in style.css."""
MOST_LANES = 6
LONG_MS = 10_000
"""Each transaction in progress hides its records: for a shorter time that is health."""
LONG_SHARE = 0.01
"""A bar of this share of the time has a lane of its own; the others are too short to be told apart."""
_TONES = {"open": "calm", "aborted": "warning"}


def partition_plot(series: PartitionSeries) -> Html:
    """Return the plot, the times of its axis, and the bars of the transactions."""
    known = [end for end in series.high_watermark if end is not None]
    if not known:
        text = "Its end has not been noted in this time: no group reads it, and it hid nothing."
        return el("div", el("p", text, class_="empty"), _lanes(series))
    hidden = [value or 0 for value in series.hidden]
    stable = [None if end is None else end - held for end, held in zip(series.high_watermark, hidden, strict=True)]
    low, high = min(value for value in stable if value is not None), max(known)
    says = [
        "no data" if end is None else f"end {amount(end)}, {amount(held)} hidden" if held else f"end {amount(end)}"
        for end, held in zip(series.high_watermark, hidden, strict=True)
    ]

    def y(value: int) -> str:
        return f"{2 + (HEIGHT - 4) * (1 - (value - low) / max(1, high - low)):.1f}"

    def line(values: list[int | None] | tuple[int | None, ...]) -> str:
        drawn, before = [], None
        for number, value in enumerate(values):
            if value is not None:
                drawn.append(f"{'L' if before is not None else 'M'}{number} {y(value)}H{number + 1}")
            before = value
        return "".join(drawn)

    held, long = ["", ""], _long_held(series)
    for number, (end, below) in enumerate(zip(series.high_watermark, stable, strict=True)):
        if end is not None and below is not None and end > below:
            held[number in long] += f"M{number} {y(end)}H{number + 1}V{y(below)}H{number}z"
    svg = el(
        "svg",
        *[el("path", d=path, class_=kind) for path, kind in zip(held, ("held", "held long"), strict=True) if path],
        el("path", d=line(stable), class_="line-of stable"),
        el("path", d=line(series.high_watermark), class_="line-of end"),
        viewBox=f"0 0 {buckets(series)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"end and last stable offset over time; {amount(max(hidden))} offsets hidden at most",
    )
    area = el("div", *hatched(series.high_watermark), svg, class_="area", data_values="|".join(says),
              data_axis_from=series.from_ms, data_axis_until=series.until_ms)  # fmt: skip
    caption = el(
        "figcaption",
        el("i", class_="swatch end"), "end ", el("i", class_="swatch stable"), "last stable offset ",
        el("i", class_="swatch held"), "hidden, at most ", el("b", amount(max(hidden))),
        [" ", el("i", class_="swatch held long"), f"for {duration(LONG_MS)} or longer"] if long else "",
        el("span", class_="at-cross", aria_hidden="true"),
    )  # fmt: skip
    figure = el("figure", caption, area, axis_times(series), class_="plot offsets")
    return el("div", figure, _lanes(series))


def _long_held(series: PartitionSeries) -> frozenset[int]:
    """Return the buckets in which a transaction was open for so long that it is no health."""
    found: set[int] = set()
    for span in series.holders:
        if _length_ms(span, series) >= LONG_MS:
            until = place(series, span.ended_ms or series.now_ms)
            found.update(range(int(place(series, span.from_ms)), ceil(until)))
    return frozenset(found)


def _lanes(series: PartitionSeries) -> Html:
    if not series.holders:
        return Html("")
    least_ms = LONG_SHARE * (series.until_ms - series.from_ms)
    by_length = sorted(series.holders, key=lambda span: _length_ms(span, series), reverse=True)
    long = [span for span in by_length if span.ended_ms is None or _length_ms(span, series) >= least_ms][:MOST_LANES]
    short = [span for span in series.holders if span not in long]
    lanes = [el("div", _named(span), el("div", _bar(span, series), class_="lane"))
             for span in sorted(long, key=lambda span: span.from_ms)]  # fmt: skip
    if short:
        longest_ms = max(_length_ms(span, series) for span in short)
        number = counted(len(short), "other transaction" if long else "transaction")
        says = f"{number}, each open for {duration(longest_ms)} at most"
        lanes.append(el("div", el("span", says), el("div", *[_bar(span, series) for span in short], class_="lane")))
    return el("div", *lanes, class_="holders", aria_label="transactions that were open on it")


def _named(span: HolderSpan) -> Html:
    name = link(page_paths.transaction(span.key), cut(span.transaction, "span"))
    if span.ended_ms is None:
        return el("span", name, f" of {span.pipeline}: open for ", since(span.from_ms))
    return el("span", name, f" of {span.pipeline}: {span.outcome} after {duration(span.ended_ms - span.from_ms)}")


def _bar(span: HolderSpan, series: PartitionSeries) -> Html:
    begin, end = place(series, span.from_ms), place(series, span.ended_ms or series.now_ms)
    left, width = 100 * begin / buckets(series), 100 * (end - begin) / buckets(series)
    return el("i", class_=_TONES.get(span.outcome, "past"), style=f"left:{left:.2f}%;width:{width:.2f}%")


def _length_ms(span: HolderSpan, series: PartitionSeries) -> int:
    return (span.ended_ms or series.now_ms) - span.from_ms
