"""Assessments, and what rules read, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from indoubt.collector.assess.assessment import Assessment, Surroundings, assess
from indoubt.collector.assess.assessor import Assessor
from indoubt.collector.assess.incident_steps import Ending, endings
from indoubt.collector.assess.rule import unavailable_sources
from indoubt.collector.assess.rules import (
    announced_commits,
    applications,
    batches,
    checkpoints,
    hanging,
    iceberg_connect,
    losses,
    readers,
    sources,
    standing_orders,
)
from indoubt.collector.assess.rules.sources import unread_checkpoints
from indoubt.collector.assess.situation import Situation
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.rows.pipelines import IdsRow

LIMITS = AlertSettings()
FACTS: dict[str, tuple[Callable[[Situation], Any], Any]] = {
    "announced_commits": (announced_commits.announced_commits, ()),
    "aborts": (applications.aborts, ()),
    "blocked": (readers.blocked_readers, ()),
    "endings": (endings, lambda key: Ending(state=None, who="")),
    "checkpoints": (checkpoints.checkpoint_histories, ()),
    "clocks": (sources.clocks, ()),
    "hanging": (hanging.hanging, ()),
    "iceberg_connect": (iceberg_connect.iceberg_connect, {}),
    "id_leaks": (applications.id_leaks, ()),
    "log_settings": (sources.log_settings, None),
    "losses": (losses.recent_losses, ()),
    "one_sided": (batches.one_sided, ()),
    "pipelines": (checkpoints.unfinished_pipelines, {}),
    "orders": (standing_orders.order_reports, ()),
    "unavailable_sources": (unavailable_sources, frozenset()),
    "unobserved_pipelines": (checkpoints.unobserved_pipelines, frozenset()),
    "unread_checkpoints": (unread_checkpoints, ()),
}
"""By name: what reads it of the present state, and nothing of it."""


def look(now_ms: int, limits: AlertSettings = LIMITS, **given: Any) -> Situation:
    """Return a situation without a present state: with these facts and fields, and nothing of all others."""
    nowhere: Any = None
    nothing = dict(FACTS.values())
    return changed(Situation(now_ms=now_ms, limits=limits, current=nowhere, known=nothing), **given)


def changed(situation: Situation, **given: Any) -> Situation:
    """Return the situation with other facts and fields."""
    facts = {FACTS[name][0]: value for name, value in given.items() if name in FACTS}
    fields = {name: value for name, value in given.items() if name not in FACTS}
    return replace(situation, known={**situation.known, **facts}, **fields)


def leaking(application: str, ids: int, why: str) -> IdsRow:
    """Return the report about an application whose ids leak."""
    counts = dict.fromkeys(("stale_ids", "checkpoint_ids", "fenced_last_hour"), 0)
    times: dict[str, Any] = {"newest_at_ms": 0, "oldest_at_ms": None, "ids_by_hour": ()}
    return IdsRow(
        prefix=application,
        ids=ids,
        growth_per_hour=0,
        leaks=True,
        shared=False,
        why=why,
        example="",
        **counts,
        **times,
    )


def assessor_of(current: CurrentState, every_s: float = 1.0, **around: Any) -> Assessor:
    return Assessor(current, LIMITS, Surroundings(**around), every_s=every_s)


def assessed(
    current: CurrentState,
    at_ms: int | None = None,
    observers: Sequence[ObserverStatus] = (),
    partitions: PartitionFindings = NOTHING_SEEN,
    limits: AlertSettings = LIMITS,
    **around: Any,
) -> Assessment:
    surroundings = Surroundings(observers=lambda: observers, partitions=lambda: partitions, **around)
    return assess(current, limits, surroundings, now_ms() if at_ms is None else at_ms)


def situation_at(
    current: CurrentState,
    observers: Sequence[ObserverStatus],
    limits: AlertSettings,
    at_ms: int,
    partitions: PartitionFindings = NOTHING_SEEN,
    **given: Any,
) -> Situation:
    """Return what alert rules read of an assessment at that time."""
    return changed(assessed(current, at_ms, observers, partitions, limits).situation, **given)
