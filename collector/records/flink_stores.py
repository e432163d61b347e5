"""What Flink's high-availability stores point to: of each job the completed checkpoint that a recovery goes on from.

It is no history: it holds only as long as the store answers, and is read again after a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

ADDED_WITHIN_MS = 30_000
"""A checkpoint is added to the store this soon after its ``_metadata`` was written, by the clocks of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """The newest checkpoint of one job in a store. Times: epoch ms.

    ``added_ms``: by the store's clock, None where it keeps none; ``since_ms``: since when it is seen like this, by our clock.
    ``is_held``: a JobManager has the job now, and may go on from something else. ``where``: as a person knows the place.
    """

    number: int
    added_ms: int | None
    is_held: bool
    where: str
    since_ms: int

    def is_of(self, number: int, written_ms: int) -> bool:
        """Say whether it is the checkpoint of that number whose ``_metadata`` was written then."""
        is_at_once = self.added_ms is None or abs(self.added_ms - written_ms) <= ADDED_WITHIN_MS
        return number == self.number and is_at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkStore:
    """One look at the store of a Flink cluster: every job in it, and the newest checkpoint of those that have one."""

    jobs: frozenset[str]
    newest: Mapping[str, StoredCheckpoint]


@dataclass(slots=True)
class FlinkStores:
    """The store of each cluster that has one and answers, as it was read last."""

    read: dict[str, FlinkStore] = field(default_factory=dict)

    def see(self, cluster: str, store: FlinkStore | None) -> bool:
        """Note what a store says; None: it does not answer. Return whether that is new."""
        before = self.read.pop(cluster, None)
        if store is None:
            return before is not None
        known = before.newest if before is not None else {}
        newest = {job: _since(known.get(job), seen) for job, seen in store.newest.items()}
        now = self.read[cluster] = replace(store, newest=MappingProxyType(newest))
        return before is None or (before.jobs, dict(before.newest)) != (now.jobs, newest)

    def newest(self, cluster: str, job: str) -> StoredCheckpoint | None:
        """Return what a recovery of a job would go on from; None: the store does not say."""
        store = self.read.get(cluster)
        return store.newest.get(job) if store is not None else None

    def is_alone(self, cluster: str, job: str) -> bool:
        """Say whether a store has this job and no other."""
        store = self.read.get(cluster)
        return store is not None and store.jobs == {job}

    def copy(self) -> FlinkStores:
        """Return another one that does not change with this one."""
        return FlinkStores(read=dict(self.read))


def _since(before: StoredCheckpoint | None, now: StoredCheckpoint) -> StoredCheckpoint:
    if before is not None and replace(before, since_ms=now.since_ms) == now:
        return before
    return now
