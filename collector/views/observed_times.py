"""When the collector ran and saw transactions and partitions: where it did not, a series has no value, and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.verdicts.watched_times import BRIDGED_MS, Span, covered, uncovered
from indoubt.collector.views.time_buckets import Buckets
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.rows.series import SeriesGap

COLLECTOR, TRANSACTIONS, PARTITIONS = "collector", "transactions", ObserverKind.PARTITIONS.value
_SOURCES = {
    COLLECTOR: (COLLECTOR,),
    TRANSACTIONS: (ObserverKind.TRANSACTION_LOG.value, ObserverKind.TRANSACTION_POLLING.value),
    PARTITIONS: (PARTITIONS,),
}


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
