"""A stretch of time in buckets, as every series has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from indoubt.collector.history.rollups import WAITS_PER_TEN_SECONDS_MS
from indoubt.collector.verdicts.watched_times import Span, overlap_ms
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS


class Window(IntEnum):
    """How long a time is shown, in ms."""

    QUARTER_HOUR = 15 * MINUTE_MS
    HOUR = HOUR_MS
    SIX_HOURS = 6 * HOUR_MS
    DAY = DAY_MS


_BUCKETS = {Window.QUARTER_HOUR: MINUTE_MS, Window.HOUR: MINUTE_MS, Window.SIX_HOURS: 180_000, Window.DAY: 720_000}
SHORT_BUCKET_MS = 10_000
"""Of a quarter of an hour that has not passed long ago: later only minutes are kept apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """A time in buckets. Times are epoch ms; the last bucket may end after ``now_ms``."""

    from_ms: int
    until_ms: int
    bucket_ms: int
    now_ms: int

    @classmethod
    def of(cls, window: Window, until_ms: int | None, at_ms: int) -> Buckets:
        """Return the buckets of a window that ends then, or now."""
        end_ms = at_ms if until_ms is None else min(until_ms, at_ms)
        bucket_ms = _BUCKETS[window]
        if window is Window.QUARTER_HOUR and at_ms - end_ms + window <= WAITS_PER_TEN_SECONDS_MS:
            bucket_ms = SHORT_BUCKET_MS
        end_ms = -(-end_ms // bucket_ms) * bucket_ms
        return cls(from_ms=end_ms - window, until_ms=end_ms, bucket_ms=bucket_ms, now_ms=at_ms)

    @property
    def count(self) -> int:
        """Return how many there are."""
        return (self.until_ms - self.from_ms) // self.bucket_ms

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Return what the queries of series take."""
        return self.from_ms, self.bucket_ms, self.from_ms, self.until_ms

    @property
    def is_now(self) -> bool:
        """Say whether what is open now belongs to the last of them."""
        return self.until_ms >= self.now_ms

    def of_span(self, begin_ms: int, end_ms: int) -> range:
        """Return the buckets that a time reaches into."""
        first = max(0, (begin_ms - self.from_ms) // self.bucket_ms)
        return range(first, min(self.count, -(-(end_ms - self.from_ms) // self.bucket_ms)))

    def known(self, spans: Sequence[Span]) -> list[bool]:
        """Say of each bucket whether half of it, as far as it is over, lies in these spans."""
        begins = range(self.from_ms, self.until_ms, self.bucket_ms)
        ends = [min(begin + self.bucket_ms, self.now_ms) for begin in begins]
        return [2 * overlap_ms(spans, begin, end) >= end - begin for begin, end in zip(begins, ends, strict=True)]
