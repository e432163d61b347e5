"""A stretch of time in buckets, as every series has it, and when the collector saw transactions and partitions in it.

Where it did not, a series has no value, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil

from indoubt.collector.history import sql
from indoubt.collector.history.rollups import TEN_SECONDS_KEPT_MS
from indoubt.collector.history.store import Store
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.watched_times import BRIDGED_MS, Span, covered, overlap_ms, uncovered
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, duration
from indoubt.lifecycle.rows.series import SeriesGap

_LENGTHS_MS = (
    *(seconds * SECOND_MS for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 3, 6, 12)),
)
COLLECTOR, TRANSACTIONS, PARTITIONS = "collector", "transactions", ObserverKind.PARTITIONS.value
_SOURCES = {
    COLLECTOR: (COLLECTOR,),
    TRANSACTIONS: (ObserverKind.TRANSACTION_LOG.value, ObserverKind.TRANSACTION_POLLING.value),
    PARTITIONS: (PARTITIONS,),
}


class Window(IntEnum):
    """How long a time is shown, in ms."""

    QUARTER_HOUR = 15 * MINUTE_MS
    HOUR = HOUR_MS
    SIX_HOURS = 6 * HOUR_MS
    DAY = DAY_MS


_BUCKETS = {Window.QUARTER_HOUR: MINUTE_MS, Window.HOUR: MINUTE_MS, Window.SIX_HOURS: 180_000, Window.DAY: 720_000}
SHORT_BUCKET_MS = 10_000
"""Of a quarter of an hour that has not passed long ago: later only minutes are kept apart."""


def bucket_length_ms(length_ms: int, most: int, least_ms: int = SECOND_MS) -> int:
    """Return the length of a bucket by which so long a time, wherever it begins, has no more than ``most`` of them (ms)."""
    exact_ms = max(1, length_ms) / (most - 1)
    found = next((one for one in _LENGTHS_MS if one >= max(exact_ms, least_ms)), 0)
    return found or ceil(exact_ms / DAY_MS) * DAY_MS


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
        if window is Window.QUARTER_HOUR and at_ms - end_ms + window <= TEN_SECONDS_KEPT_MS:
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


def values(found: Mapping[int, int], known: Sequence[bool]) -> tuple[int | None, ...]:
    """Return the value of each bucket: none is a zero only where it was looked for."""
    return tuple(found.get(bucket, 0 if is_known else None) for bucket, is_known in enumerate(known))


def watches(store: Store, buckets: Buckets) -> dict[str, list[Span]]:
    """Return when the collector ran, and when it saw transactions and partitions. Raises StoreFailed."""
    until_ms = min(buckets.until_ms, buckets.now_ms)
    rows = store.rows(sql.SOURCE_WATCHES, buckets.from_ms - BRIDGED_MS, until_ms)
    return {
        name: covered([(begin, end) for source, begin, end in rows if source in sources], until_ms)
        for name, sources in _SOURCES.items()
    }


def gaps(store: Store, seen: Mapping[str, Sequence[Span]], buckets: Buckets) -> tuple[SeriesGap, ...]:
    """Return the times of the buckets in which a source was not observed, oldest first. Raises StoreFailed."""
    from_ms, until_ms = buckets.from_ms, min(buckets.until_ms, buckets.now_ms)
    ((first_ms,),) = store.rows(sql.FIRST_WATCH)
    away = uncovered(seen[COLLECTOR], from_ms, until_ms)
    found = [_gap(COLLECTOR, span, first_ms) for span in away]
    for source in (TRANSACTIONS, PARTITIONS):
        holes = uncovered(covered([*seen[source], *away], until_ms), from_ms, until_ms)
        found += [_gap(source, span, first_ms) for span in holes]
    return tuple(sorted(found, key=lambda gap: (gap.from_ms, gap.source)))


def _gap(source: str, span: Span, first_ms: int | None) -> SeriesGap:
    length = duration(span[1] - span[0])
    if source != COLLECTOR:
        text = f"no data of {source} for {length}"
    elif first_ms is None or span[1] <= first_ms:
        text = f"no data for {length}: the collector had not run yet"
    else:
        text = f"no data for {length}: the collector did not run"
    return SeriesGap(source=source, from_ms=span[0], until_ms=span[1], text=text)
