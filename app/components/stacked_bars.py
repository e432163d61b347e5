"""Numbers over time: a bar for each stretch of time, with a part for each kind. Hatching repeats what a colour says (style.css).

It is markup, not a chart of Streamlit's: a browser takes a second to load and draw one, and History is looked at in a hurry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from indoubt.app.components import shown_cluster
from indoubt.app.components.links_and_buttons import ChooseTime, click_text
from indoubt.app.components.markup import Html, el
from indoubt.app.components.plot_axis import PlotAxis
from indoubt.app.components.time_text import exact_time
from indoubt.lifecycle.durations import HOUR_MS, MINUTE_MS, duration

MIN_SPAN_MS = 30 * MINUTE_MS
"""The shortest time that is shown: a single minute would fill the page."""
MOST_BARS = 120
_LENGTHS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 30)) + tuple(
    hours * HOUR_MS for hours in (1, 3, 6, 12, 24, 7 * 24)
)
Address = Callable[[int, int], str]
"""Returns the address that shows a stretch of time alone (epoch ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Counts or lengths of each kind by the place of their bar; a bar is ``length_ms`` long, and place 0 begins at ``from_ms``."""

    from_ms: int
    length_ms: int
    bars: int
    counts: Mapping[tuple[int, str], int]

    @classmethod
    def of(cls, moments: Iterable[tuple[int, str]]) -> Bars:
        """Return the bars of single moments (epoch ms) and their kinds: from the first to the last, 30 min at least."""
        known = list(moments)
        last_ms = max(at_ms for at_ms, _ in known)
        span_ms = max(MIN_SPAN_MS, last_ms - min(at_ms for at_ms, _ in known))
        # One bar more than whole lengths: the first and the last need not be whole.
        length_ms = next((one for one in _LENGTHS_MS if span_ms <= one * (MOST_BARS - 1)), span_ms)
        last = last_ms // length_ms
        first = min(min(at_ms for at_ms, _ in known) // length_ms, last + 1 - MIN_SPAN_MS // length_ms)
        counts = Counter((at_ms // length_ms - first, kind) for at_ms, kind in known)
        return cls(from_ms=first * length_ms, length_ms=length_ms, bars=last + 1 - first, counts=counts)


def stacked_bars(
    shown: Bars,
    kinds: Mapping[str, str],
    *,
    text: Callable[[int], str],
    alt: str,
    zone: tzinfo,
    path: Address | None = None,
    unseen: Sequence[Html] = (),
) -> Html:
    """Return the picture, nothing without numbers.

    ``kinds``: each with its word, in the order in which their parts stand on each other; style.css has a colour for each.
    ``text``: says a number. ``path``: where a bar leads; None: nowhere. ``unseen``: covers the time that was not observed.
    """
    of_kind = {kind: sum(number for (_, one), number in shown.counts.items() if one == kind) for kind in kinds}
    totals: Counter[int] = Counter()
    for (place, _), number in shown.counts.items():
        totals[place] += number
    if not totals:
        return el("span")
    most = max(totals.values())
    bars = [_bar(shown, place, kinds, most, text, zone, path) for place in sorted(totals)]
    legend = [
        el("span", el("i", class_=f"swatch {_css(kind)}", aria_hidden="true"), f"{kinds[kind]} {number:,}")
        for kind, number in of_kind.items()
        if number and len(kinds) > 1
    ]
    says = el("span", f"each bar is {duration(shown.length_ms)}; the highest has {text(most)}")
    axis = PlotAxis(from_ms=shown.from_ms, until_ms=shown.from_ms + shown.bars * shown.length_ms, zone=zone)
    return el(
        "figure",
        el("figcaption", *legend, says),
        el("div", *unseen, *bars, class_="bars-area", style=f"--bars:{shown.bars}"),
        axis.ruler(),
        class_="stacked-bars",
        aria_label=alt,
    )


def _bar(
    shown: Bars,
    place: int,
    kinds: Mapping[str, str],
    most: int,
    text: Callable[[int], str],
    zone: tzinfo,
    path: Address | None,
) -> Html:
    from_ms = shown.from_ms + place * shown.length_ms
    parts = {kind: number for kind in kinds if (number := shown.counts.get((place, kind), 0))}
    of_each = ", ".join(f"{number} {kinds[kind]}" for kind, number in parts.items())
    says = f"{exact_time(from_ms, zone)}: {of_each if len(kinds) > 1 else text(sum(parts.values()))}"
    drawn = [el("i", class_=_css(kind), style=f"flex:{number}") for kind, number in parts.items()]
    style = f"grid-column:{place + 1};height:{100 * sum(parts.values()) / most:.1f}%"
    if path is None:
        return el("div", *drawn, class_="stacked-bar", style=style, title=says)
    until_ms = from_ms + shown.length_ms - 1
    return el(
        "a",
        *drawn,
        href=shown_cluster.within(path(from_ms, until_ms)),
        target="_self",
        data_click=click_text(ChooseTime(first_ms=from_ms, last_ms=until_ms)),
        class_="stacked-bar",
        style=style,
        title=says,
        aria_label=says,
        # There may be a hundred: the table below is what a keyboard reaches.
        tabindex="-1",
    )


def _css(kind: str) -> str:
    return f"kind-{kind.replace('_', '-')}"
