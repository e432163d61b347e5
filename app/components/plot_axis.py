"""The axis of time that all pictures of a page stand on: places in percent, round ticks, lines through each picture.

No two labels touch: there are at most five, and the style sheet shows every other one on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at, duration
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MOST_TICKS = 5
STEPS_MS = (
    *(factor * unit for unit in (1, 10, 100) for factor in (1, 2, 5)),
    *(seconds * SECOND_MS for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 5, 7, 14, 30, 90, 365)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """A time from left to right (epoch ms). ``zone``: of its labels; None: the browser writes them in its reader's."""

    from_ms: int
    until_ms: int
    zone: tzinfo | None = None

    def place(self, at_ms: float) -> float:
        """Return where a moment is, 0 (left) to 100; what is outside of it stands at its end."""
        return min(100.0, max(0.0, 100 * (at_ms - self.from_ms) / max(1, self.until_ms - self.from_ms)))

    def has(self, at_ms: int) -> bool:
        """Say whether a moment is on it."""
        return self.from_ms <= at_ms <= self.until_ms

    def ruler(self) -> Html:
        """Return the labels of its ticks."""
        step_ms, ticks = self._ticks(self._zone_offset_ms())
        return self._labels((at_ms, self._label(at_ms, step_ms)) for at_ms in ticks)

    def ruler_from_start(self) -> Html:
        """Return labels that say how long after its beginning each tick is; the first says when that was."""
        _, ticks = self._ticks(-self.from_ms)
        begin = (self.from_ms, at(self.from_ms))
        return self._labels([begin, *((at_ms, f"+{duration(at_ms - self.from_ms)}") for at_ms in ticks[1:])])

    def lines(self, width: float) -> Html:
        """Return the lines of its ticks for a drawing that is so wide, and 100 high."""
        _, ticks = self._ticks(self._zone_offset_ms())
        return el("path", d="".join(f"M{self.place(at_ms) * width / 100:.2f} 0v100" for at_ms in ticks), class_="grid")

    def _ticks(self, offset_ms: int) -> tuple[int, list[int]]:
        length_ms = self.until_ms - self.from_ms
        step_ms = next((step for step in STEPS_MS if length_ms <= step * MOST_TICKS), STEPS_MS[-1])
        first_ms = -(-(self.from_ms + offset_ms) // step_ms) * step_ms - offset_ms
        return step_ms, list(range(first_ms, self.until_ms + 1, step_ms))

    def _zone_offset_ms(self) -> int:
        """Return how far its zone is ahead of UTC: a tick is a round time there."""
        offset = datetime.fromtimestamp(self.from_ms / 1000, self.zone or UTC).utcoffset()
        return 0 if offset is None else round(offset.total_seconds() * 1000)

    def _label(self, at_ms: int, step_ms: int) -> Html | str:
        if self.zone is None:
            return at(at_ms)
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone)
        if step_ms >= DAY_MS or (step_ms >= HOUR_MS and moment.hour == moment.minute == 0):
            return f"{moment:%d %b}"
        return f"{moment:%H:%M:%S}" if step_ms < MINUTE_MS else f"{moment:%H:%M}"

    def _labels(self, ticks: Iterable[tuple[int, Html | str]]) -> Html:
        labels = [
            el("span", text, class_=_side(self.place(at_ms)), style=f"left:{self.place(at_ms):.2f}%")
            for at_ms, text in ticks
        ]
        return el("div", *labels, class_="time-axis", aria_hidden="true")


def _side(place: float) -> str | None:
    """Return on which side of its tick a label stands that would leave the picture."""
    return "begins" if place < 5 else "ends" if place > 95 else None
