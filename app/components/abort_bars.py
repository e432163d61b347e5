"""Aborts over time: a bar for each stretch of time, with a part for each cause. Hatching repeats what a colour says (style.css).

It is markup, not a chart of Streamlit's: a browser takes a second to load and draw one, and History is looked at in a hurry.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo

from indoubt.app.components.links_and_buttons import TIME
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import exact_time
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS, duration
from indoubt.lifecycle.rows.ends import AbortRow
from indoubt.lifecycle.verdicts import AbortCause

MIN_SPAN_MS = 30 * MINUTE_MS
"""The shortest time that is shown: a single minute would fill the page."""
MOST_BARS = 120
TICKS = 4
_LENGTHS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 30)) + tuple(
    hours * HOUR_MS for hours in (1, 3, 6, 12, 24, 7 * 24)
)


def abort_bars(aborts: Iterable[AbortRow], zone: tzinfo, path: Callable[[int, int], str]) -> Html:
    """Return the bars, nothing without aborts; ``path``: the address that shows a stretch of time alone (epoch ms)."""
    times = [(abort.at_ms, abort.cause) for abort in aborts if abort.at_ms is not None]
    if not times:
        return el("span")
    last_ms = max(at_ms for at_ms, _ in times)
    span_ms = max(MIN_SPAN_MS, last_ms - min(at_ms for at_ms, _ in times))
    # One bar more than whole lengths: the first and the last need not be whole.
    length_ms = next((one for one in _LENGTHS_MS if span_ms <= one * (MOST_BARS - 1)), span_ms)
    counts = Counter((at_ms // length_ms, cause) for at_ms, cause in times)
    last = last_ms // length_ms
    first = min(min(place for place, _ in counts), last + 1 - MIN_SPAN_MS // length_ms)
    totals = Counter[int]()
    for (place, _), number in counts.items():
        totals[place] += number
    most = max(totals.values())
    bars = [
        _bar(place, first, length_ms, {cause: counts[place, cause] for cause in AbortCause}, most, zone, path)
        for place in sorted(totals)
    ]
    return el(
        "figure",
        _legend(counts, length_ms, most),
        el("div", *bars, class_="bars-area", style=f"--bars:{last + 1 - first}"),
        _ticks(first * length_ms, (last + 1) * length_ms, zone),
        class_="abort-bars",
        aria_label="Aborted and lost transactions over time by cause",
    )


def _bar(
    place: int,
    first: int,
    length_ms: int,
    counts: dict[AbortCause, int],
    most: int,
    zone: tzinfo,
    path: Callable[[int, int], str],
) -> Html:
    from_ms, total = place * length_ms, sum(counts.values())
    named = ", ".join(f"{number} {cause.value}" for cause, number in counts.items() if number)
    says = f"{exact_time(from_ms, zone)}: {named}"
    parts = [
        el("i", class_=f"cause-{cause.value}", style=f"flex:{number}") for cause, number in counts.items() if number
    ]
    return el(
        "a",
        *parts,
        href=path(from_ms, from_ms + length_ms - 1),
        target="_self",
        data_click=json.dumps({TIME: [from_ms, from_ms + length_ms - 1]}),
        class_="abort-bar",
        style=f"grid-column:{place - first + 1};height:{100 * total / most:.1f}%",
        title=says,
        aria_label=says,
        # There may be a hundred: the table below is what a keyboard reaches.
        tabindex="-1",
    )


def _legend(counts: Counter[tuple[int, AbortCause]], length_ms: int, most: int) -> Html:
    of_cause = Counter[AbortCause]()
    for (_, cause), number in counts.items():
        of_cause[cause] += number
    parts = [
        el(
            "span",
            el("i", class_=f"swatch cause-{cause.value}", aria_hidden="true"),
            f"{cause.value} {of_cause[cause]:,}",
        )
        for cause in AbortCause
        if of_cause[cause]
    ]
    return el(
        "figcaption",
        *parts,
        el("span", f"each bar is {duration(length_ms)}; the highest has {counted(most, 'transaction')}"),
    )


def _ticks(from_ms: int, until_ms: int, zone: tzinfo) -> Html:
    form = "%H:%M" if until_ms - from_ms <= DAY_MS else "%d %b %H:%M"
    moments = [from_ms + (until_ms - from_ms) * place // TICKS for place in range(TICKS + 1)]
    texts = [f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone):{form}}" for at_ms in moments]
    return el("div", *[el("span", text) for text in texts], class_="ruler-ends", aria_hidden="true")
