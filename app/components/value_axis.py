"""The upright axis of a picture of lengths of time: from zero, or by powers of ten where one value would flatten the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from indoubt.app.components.markup import Html, el
from indoubt.app.components.plot_axis import STEPS_MS
from indoubt.app.components.time_text import duration

FLATTENS = 8
"""A largest value that is so many times the middle one flattens the others: then heights are logarithms."""
MOST_TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAxis:
    """From ``least_ms`` at the bottom to ``most_ms`` at the top; ``is_log``: equal heights are equal ratios."""

    least_ms: float
    most_ms: float
    is_log: bool

    @classmethod
    def from_zero(cls, most_ms: int) -> ValueAxis:
        """Return the axis from zero to a little more than this."""
        return cls(least_ms=0, most_ms=1.08 * max(1, most_ms), is_log=False)

    @classmethod
    def of(cls, lengths_ms: Sequence[int]) -> ValueAxis:
        """Return the axis that has room for all of these."""
        known = sorted(max(1, length_ms) for length_ms in lengths_ms) or [1]
        if not flattens(known):
            return cls.from_zero(known[-1])
        return cls(least_ms=10 ** floor(log10(known[0])), most_ms=1.3 * known[-1], is_log=True)

    def height(self, length_ms: float) -> float:
        """Return where a length stands, 0 (bottom) to 100."""
        if self.is_log:
            share = log10(max(self.least_ms, length_ms) / self.least_ms) / log10(self.most_ms / self.least_ms)
        else:
            share = length_ms / self.most_ms
        return 100 * min(1.0, max(0.0, share))

    def labels(self) -> Html:
        """Return the labels of its ticks."""
        ticks = [
            el("span", duration(tick_ms), style=f"bottom:{self.height(tick_ms):.1f}%") for tick_ms in self._ticks()
        ]
        return el("div", *ticks, class_="value-axis", aria_hidden="true")

    def lines(self, width: float) -> Html:
        """Return the lines of its ticks for a drawing that is so wide, and 100 high."""
        drawn = "".join(f"M0 {100 - self.height(tick_ms):.1f}h{width:g}" for tick_ms in self._ticks())
        return el("path", d=drawn, class_="grid")

    def _ticks(self) -> list[float]:
        if self.is_log:
            powers = range(ceil(log10(self.least_ms)), floor(log10(self.most_ms)) + 1)
            return [10.0**power for power in powers[:: ceil(len(powers) / MOST_TICKS)]]
        step_ms = next((step for step in STEPS_MS if self.most_ms < step * MOST_TICKS), STEPS_MS[-1])
        return [step_ms * number for number in range(int(self.most_ms / step_ms) + 1)]


def flattens(values: Sequence[int]) -> bool:
    """Say whether the largest of these would flatten the others."""
    return bool(values) and max(values) > FLATTENS * max(1, sorted(values)[len(values) // 2])
