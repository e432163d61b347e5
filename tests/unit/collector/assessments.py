"""Assessments for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.assess.assessment import Assessment, Surroundings, assess
from collector.assess.assessor import Assessor
from collector.assess.attention.situation import AttentionLimits
from collector.assess.snapshot import AlertSnapshot
from collector.assess.snapshot_builder import take_snapshot
from collector.config.alerts import AlertSettings
from collector.runtime.clock import now_ms
from collector.sources.source import ObserverStatus
from collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from collector.views.current_state import CurrentState

LIMITS = AttentionLimits(foreign_old_ms=30_000, waiting_ms=30_000, observer_down_ms=15_000)


def assessor_of(current: CurrentState, every_s: float = 1.0, **around: Any) -> Assessor:
    return Assessor(current, LIMITS, Surroundings(**around), every_s=every_s)


def assessed(
    current: CurrentState,
    at_ms: int | None = None,
    observers: Sequence[ObserverStatus] = (),
    partitions: PartitionFindings = NOTHING_SEEN,
) -> Assessment:
    around = Surroundings(observers=lambda: observers, partitions=lambda: partitions)
    return assess(current, LIMITS, around, now_ms() if at_ms is None else at_ms)


def snapshot_at(
    current: CurrentState,
    observers: Sequence[ObserverStatus],
    limits: AlertSettings,
    at_ms: int,
    partitions: PartitionFindings = NOTHING_SEEN,
    **more: Any,
) -> AlertSnapshot:
    """Return what alert rules read of an assessment at that time."""
    return take_snapshot(current, assessed(current, at_ms, observers, partitions), limits, **more)
