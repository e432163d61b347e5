"""Consumer groups and partitions over time: what groups had not read, where a partition ended, and who held it back."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from indoubt.collector.facts import transaction_join
from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.time_buckets import PARTITIONS, Buckets, Window, gaps, values, watches
from indoubt.lifecycle.rows.groups import GroupSeries, HolderSpan, PartitionSeries, SeriesOfGroups

GROUPS_RECOUNT_MS, RECOUNT_MS = 10_000, 2_000
"""A sample comes each ten seconds."""
KEPT = 32
MOST_HOLDERS = 20


def cached_groups(store: Store) -> TtlCache[SeriesOfGroups, Window]:
    """Return what groups had not read in the last time, as of at most 10 s ago. It raises StoreFailed."""
    return TtlCache(partial(_groups_at, store), GROUPS_RECOUNT_MS, most=len(Window))


def of_groups(series: SeriesOfGroups, names: Collection[str]) -> SeriesOfGroups:
    """Return of a series what is about these groups."""
    return replace(series, groups=tuple(one for one in series.groups if one.group in names))


def cached_partitions(current: CurrentState, store: Store) -> TtlCache[PartitionSeries, str, int, Window]:
    """Return the series of a partition by topic, number and window, as of at most 2 s ago. It raises StoreFailed."""
    return TtlCache(partial(_partition_at, current, store), RECOUNT_MS, most=KEPT)


def _groups_at(store: Store, at_ms: int, window: Window) -> SeriesOfGroups:
    buckets = Buckets.of(window, None, at_ms)
    seen = watches(store, buckets)
    known = buckets.known(seen[PARTITIONS])
    rows = store.rows(sql.SERIES_OF_GROUPS, *buckets.bounds)
    return SeriesOfGroups(
        now_ms=at_ms,
        from_ms=buckets.from_ms,
        until_ms=buckets.until_ms,
        bucket_ms=buckets.bucket_ms,
        observed=tuple(known),
        groups=tuple(
            GroupSeries(
                group=group,
                lag=values(dict(zip(places, lag, strict=True)), known),
                hidden=values(dict(zip(places, hidden, strict=True)), known),
            )
            for group, places, lag, hidden in rows
        ),
        gaps=gaps(store, seen, buckets),
    )


def _partition_at(
    current: CurrentState, store: Store, at_ms: int, topic: str, number: int, window: Window
) -> PartitionSeries:
    buckets = Buckets.of(window, None, at_ms)
    seen = watches(store, buckets)
    known = buckets.known(seen[PARTITIONS])
    rows = store.rows(sql.SERIES_OF_ENDS, buckets.from_ms, buckets.bucket_ms, topic, number, buckets.until_ms)
    found = {bucket: (end, hidden) for bucket, end, hidden in rows}
    ends: list[int | None] = []
    # Only where it moves it is noted.
    last = found[-1][0] if -1 in found else None
    for bucket, is_known in enumerate(known):
        last = found[bucket][0] if bucket in found else last
        ends.append(last if is_known or bucket in found else None)
    return PartitionSeries(
        now_ms=at_ms,
        from_ms=buckets.from_ms,
        until_ms=buckets.until_ms,
        bucket_ms=buckets.bucket_ms,
        topic=topic,
        partition=number,
        high_watermark=tuple(ends),
        hidden=values({bucket: hidden for bucket, (_, hidden) in found.items()}, known),
        holders=_holders(current, f"{topic}-{number}", buckets),
        gaps=gaps(store, seen, buckets),
    )


def _holders(current: CurrentState, partition: str, buckets: Buckets) -> tuple[HolderSpan, ...]:
    def length_ms(broker: BrokerTransaction) -> int:
        return (broker.ended_ms or buckets.now_ms) - broker.identity.start_ms

    with current.reading() as state:
        wrote = (
            broker
            for broker in state.broker.values()
            if partition in broker.partitions and (broker.ended_ms or buckets.now_ms) >= buckets.from_ms
        )
        longest = heapq.nlargest(MOST_HOLDERS, wrote, key=lambda broker: (length_ms(broker), broker.identity))
        found = [(broker, transaction_join.at_coordinator(state, broker.identity)) for broker in longest]
    spans = [
        HolderSpan(
            key=broker.key,
            transaction=broker.identity.transaction,
            pipeline=view.pipeline,
            from_ms=broker.identity.start_ms,
            ended_ms=broker.ended_ms,
            outcome="aborted" if broker.is_aborting else "committed" if broker.ended_ms is not None else "open",
        )
        for broker, view in found
    ]
    return tuple(sorted(spans, key=lambda span: (span.from_ms, span.key)))
