"""What rules and the list are made from: what was judged at one moment, and what surrounds it. All times epoch ms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from indoubt.collector.assess.transaction_groups import TransactionGroup
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.observe.source import ObserverStatus
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.standing_orders import NO_STANDING_ORDERS, StandingReport
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.driver_state import DriverState
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.partition_state import NOTHING_SEEN, PartitionFindings
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.application import Application
from indoubt.lifecycle.rows.alerts import AlertRow

T = TypeVar("T")


def no_losses(now_ms: int) -> Sequence[Loss]:
    """Return none."""
    return ()


def no_standing_orders() -> StandingReport:
    """Return none."""
    return NO_STANDING_ORDERS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUnderWay:
    """An order that is carried out now: for how many it is done, of how many, since when (epoch ms)."""

    keys: frozenset[str]
    who: str
    done: int
    transactions: int
    begun_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything known at ``now_ms``. ``alerts``: those that fire unsilenced; ``history_error``: empty while it is written.

    ``current`` has what single rules ask for (``read``). ``losses``: what others' transactions lost of late; of ours the
    verdict says so. ``startable``: prefixes of the pipelines that an order may start. ``runs``: orders that are carried out now.
    """

    now_ms: int
    limits: AlertSettings
    current: CurrentState
    judged: Sequence[Judged] = ()
    required: Sequence[TransactionGroup] = ()
    applications: Mapping[str, Application] = field(default_factory=dict)
    """Of what hangs, by its keys."""
    partitions: PartitionFindings = NOTHING_SEEN
    drivers: Sequence[DriverState] = ()
    jobs: Sequence[FlinkJobFacts] = ()
    alerts: Sequence[AlertRow] = ()
    observers: Sequence[ObserverStatus] = ()
    losses: Callable[[int], Sequence[Loss]] = no_losses
    standing: Callable[[], StandingReport] = no_standing_orders
    history_error: str = ""
    startable: Collection[str] = ()
    runs: Sequence[RunUnderWay] = ()
    known: dict[Callable[[Situation], Any], Any] = field(default_factory=dict)
    """What was read of it, by what read it."""

    def read(self, fact: Callable[[Situation], T]) -> T:
        """Return what a rule reads beside these fields; it is read once, however many rules ask."""
        if fact not in self.known:
            self.known[fact] = fact(self)
        found: T = self.known[fact]
        return found
