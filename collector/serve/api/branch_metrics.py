"""Prepared branches as metrics, by database: how many, how old, and what the oldest keeps PostgreSQL from cleaning up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

from indoubt.collector.views.current_state import CurrentState


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDatabase:
    """What a database listed last: ``since_ms`` of its oldest branch (epoch ms), ``xmin_age`` in transactions; None: unknown."""

    instance: str
    prepared: int
    since_ms: int | None
    xmin_age: int | None


def see(current: CurrentState) -> tuple[SeenDatabase, ...]:
    """Return what each database listed last; one that never answered, or whose list another one reads, is left out."""
    with current.reading() as state:
        found = []
        for instance, snapshot in state.database_snapshots.items():
            if snapshot.at_ms is None:
                continue
            branches = [branch for key in snapshot.details if (branch := state.branches.get(key)) is not None]
            since = [branch.since_ms for branch in branches if branch.since_ms is not None]
            ages = [age for detail in snapshot.details.values() if (age := detail.transaction_age) is not None]
            found.append(
                SeenDatabase(
                    instance=instance,
                    prepared=len(snapshot.details),
                    since_ms=min(since, default=None),
                    xmin_age=max(ages, default=None),
                )
            )
        return tuple(found)


def families(seen: Sequence[SeenDatabase], now_ms: int) -> Iterator[Metric]:
    """Yield every metric about databases. Without a prepared branch nothing has an age."""
    prepared = GaugeMetricFamily("indoubt_prepared_branches", "Branches that are prepared now.", labels=("database",))
    oldest = GaugeMetricFamily(
        "indoubt_oldest_prepared_branch_seconds", "For how long the oldest of them is.", labels=("database",)
    )
    xmin = GaugeMetricFamily(
        "indoubt_prepared_branch_xmin_age",
        "Transactions that PostgreSQL began since the oldest of them: vacuum removes nothing that died meanwhile.",
        labels=("database",),
    )
    for one in seen:
        prepared.add_metric((one.instance,), one.prepared)
        if one.since_ms is not None:
            oldest.add_metric((one.instance,), max(0, now_ms - one.since_ms) / 1000)
        if one.xmin_age is not None:
            xmin.add_metric((one.instance,), one.xmin_age)
    yield from (prepared, oldest, xmin)
