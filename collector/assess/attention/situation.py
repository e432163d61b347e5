"""What the list is made from: one frozen look at everything that the collector knows. All times epoch ms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from collector.assess.attention.action_required import RequiredGroup
from collector.records.flink_job_facts import FlinkJobFacts
from collector.verdicts.driver_state import DriverState
from collector.verdicts.judging import Judged
from collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from lifecycle.rows.alerts import AlertRow
from lifecycle.rows.status import ObserverRow

CRITICAL, WARNING = "critical", "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLimits:
    """How long something must last before it needs attention, as far as no rule says so."""

    foreign_old_ms: int
    waiting_ms: int
    """Readers behind a transaction that no card is about."""
    observer_down_ms: int
    """An observer that reports no error and sees nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything known at ``now_ms``. ``alerts``: those that fire unsilenced; ``history_error``: empty while it is written.

    ``startable``: prefixes of the pipelines that an order may start.
    """

    now_ms: int
    limits: AttentionLimits
    judged: Sequence[Judged] = ()
    required: Sequence[RequiredGroup] = ()
    partitions: PartitionFindings = NOTHING_SEEN
    drivers: Sequence[DriverState] = ()
    jobs: Sequence[FlinkJobFacts] = ()
    alerts: Sequence[AlertRow] = ()
    observers: Sequence[ObserverRow] = ()
    history_error: str = ""
    startable: Collection[str] = ()
