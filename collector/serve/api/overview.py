"""The overview: what needs attention, then counts; everything from one assessment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.assess.attention.pipelines import alive
from indoubt.collector.assess.rules.observers import existing, up
from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.timed_cache import TtlCache
from indoubt.lifecycle.durations import MINUTE_MS
from indoubt.lifecycle.rows.cut_lists import cut_lists
from indoubt.lifecycle.rows.incidents import Incident, IncidentState
from indoubt.lifecycle.rows.order_request import MAX_KEYS
from indoubt.lifecycle.rows.overview import Overview, OverviewCounts

RECOUNT_MS = 2_000
MOST_NAMED = 100
MOST_LISTED = {"keys": MAX_KEYS, "partitions": MOST_NAMED, "waits": MOST_NAMED}
"""So much of each list of a part is answered: as many keys as an order takes, and more names than anyone reads."""


def overview(counted: TtlCache[Counts], assessed: Assessment, limit: int | None = None) -> Overview:
    """Return the answer of GET /overview, of each list at most ``limit``. Raises StoreFailed."""
    situation, at_ms = assessed.situation, now_ms()
    counts = counted.at(at_ms)
    running = assessed.running
    lost_now = sum(1 for at in running.lost_ms if at >= at_ms - MINUTE_MS)
    waiting = [blocked for blocked in situation.partitions.blocked if blocked.waiting]
    return Overview(
        now_ms=at_ms,
        counts=OverviewCounts(
            open=running.open,
            prepared=running.prepared,
            committed_per_minute=counts.committed,
            aborted_per_minute=max(0, counts.aborted - lost_now),
            waiting_groups=len({reader.group for blocked in waiting for reader in blocked.waiting}),
            hanging=len(situation.partitions.hanging),
        ),
        oldest_open_at_ms=running.oldest_open_at_ms,
        incidents=tuple(map(_cut, assessed.incidents[:limit])),
        incidents_total=sum(1 for one in assessed.incidents if not one.is_over),
        to_act=sum(1 for one in assessed.incidents if one.state is IncidentState.ACT),
        alerting=sum(1 for one in assessed.incidents if one.alerts),
        all_well_since_ms=assessed.all_well_since_ms,
        awaited=assessed.awaited[:limit],
        pipelines_alive=alive(situation),
        observers_up=len(up(situation)),
        observers=len(existing(situation)),
        in_progress=assessed.in_progress[:limit],
        in_progress_total=len(assessed.in_progress),
    )


def incidents_about(assessed: Assessment, keys: Collection[str]) -> list[Incident]:
    """Return the incidents that last, in the order of the overview; with ``keys`` those about any of them.

    An incident is about its application, its transactions, its alerts and what its orders are for. What was asked for stands
    first in its lists.
    """
    wanted = frozenset(keys)
    lasting = (one for one in assessed.incidents if not one.is_over)
    return [_cut(one, wanted) for one in lasting if not wanted or not wanted.isdisjoint(_names(one))]


def _names(one: Incident) -> Iterator[str]:
    yield one.application
    yield from one.alerts
    yield from (step.target for step in one.steps)
    for part in one.parts:
        yield part.target
        yield from part.keys


def _cut(one: Incident, first: Collection[str] = ()) -> Incident:
    parts = tuple(cut_lists(part, MOST_LISTED, first) for part in one.parts)
    return cut_lists(replace(one, parts=parts), {"alerts": MOST_NAMED}, first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What reads thousands of rows."""

    committed: int
    aborted: int
    """In the last minute; lost ones too."""


def cached_counts(store: Store) -> TtlCache[Counts]:
    """Return the counts as of at most 2 s ago, however many pages ask; it raises StoreFailed."""

    def counted(at_ms: int) -> Counts:
        ((committed, aborted),) = store.rows(sql.ENDS_SINCE, at_ms - MINUTE_MS)
        return Counts(committed=committed, aborted=aborted)

    return TtlCache(counted, RECOUNT_MS)
