"""What the rules of verdicts judge: one transaction with its pipeline, and what is known of the decision log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import PipelineFacts
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.collector.verdicts.read_process_write import ReadProcessWriteCase
from indoubt.collector.verdicts.restarts import MeasuredRestarts, restart_under_way
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.rows.pipelines import RestartUnderWay
from indoubt.lifecycle.verdicts import Evidence

BROKER, CHECKPOINTS = "transaction coordinator", "checkpoints"
DECISIONS, EVENTS = ObserverKind.DECISION_LOG.value, ObserverKind.LIFECYCLE_EVENTS.value
CLOCK_SKEW_MS = 5_000
"""So far the clock of a driver may be ahead of this one."""


class DecisionLogStatus(Enum):
    """Whether the decision log can be trusted to say what was decided."""

    READABLE = "readable"
    ABSENT = "absent"
    """There is no such topic and never was: no pipeline of ours runs here."""
    UNREADABLE = "unreadable"
    """It cannot be read, or was not yet read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The times that verdicts use (settings of the same names)."""

    commit_overdue_ms: int = 2_000
    flink_commit_overdue_ms: int = 1_500
    driver_silent_ms: int = 30_000
    foreign_old_ms: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineHistory:
    """What is known of the transaction's pipeline. Times are epoch ms, durations ms."""

    facts: PipelineFacts
    heard_ms: int | None = None
    """When the last sign of its driver arrived at this collector, which may have begun since; None: nobody listens."""
    latest_run_offset: int | None = None
    latest_run_ms: int | None = None
    checkpoint_p99_ms: int = 0
    interval_ms: int = 10_000
    restart_delay_ms: int = 10_000
    restarts: MeasuredRestarts | None = None
    """How long its last restarts took; None: none was measured."""

    @property
    def recovery_ms(self) -> int:
        """Return what recovery needs: the longest measured restart; where none was, one interval, checkpoint and restart delay."""
        if self.restarts is not None:
            return self.restarts.longest_ms
        return self.interval_ms + self.checkpoint_p99_ms + self.restart_delay_ms

    @property
    def recovery_length(self) -> str:
        """Return how long that is, in words: what the settings say leaves out how long processes take to start."""
        return f"{'at least ' * (self.restarts is None)}{seconds(self.recovery_ms)}"

    @property
    def recovery_parts(self) -> str:
        """Return where that is from, in words."""
        if self.restarts is not None:
            count, median = self.restarts.count, seconds(self.restarts.median_ms)
            return "measured: its last restart" if count == 1 else f"the longest of its last {count}, median {median}"
        parts = (f"interval {seconds(self.interval_ms)}", f"checkpoint {seconds(self.checkpoint_p99_ms)}")
        return f"not measured: {parts[0]} + {parts[1]} + restart delay {seconds(self.restart_delay_ms)}"

    def usual_age_ms(self, timeout_ms: int) -> int:
        """Return how old its transactions usually get, at most half of their timeout: younger ones have nothing of note."""
        return min(self.interval_ms + self.checkpoint_p99_ms, timeout_ms // 2)

    def restart_under_way(self, now_ms: int) -> RestartUnderWay | None:
        """Return the restart that goes on, or None: then one may be ordered."""
        known = self.latest_run_offset is not None and self.latest_run_ms is not None
        run = (self.latest_run_offset or 0, self.latest_run_ms or 0) if known else None
        return restart_under_way(self.facts, run, self.restarts, now_ms)

    def silent_after_ms(self, limits: Limits) -> int:
        """Return how long the driver may say nothing: a long batch or interval is no silence."""
        return max(limits.driver_silent_ms, 3 * self.interval_ms, 3 * self.checkpoint_p99_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a rule may read."""

    transaction: TransactionView
    pipeline: PipelineHistory | None
    log_status: DecisionLogStatus
    log_error: str
    later_batch_decided: bool
    """A later batch of the same checkpoint id has a commit decision that counts: every batch before it was finished."""
    rulable: BatchAttempt | None
    """What an abort decision would be about, by the decision log; None: unknown."""
    limits: Limits
    now_ms: int
    flink: FlinkCase | None = None
    """What Flink's checkpoints say of it; None: it belongs to no job that is known."""
    read_process_write: ReadProcessWriteCase | None = None
    """Its owner reads, processes and writes; None: it does not, or is ours."""
    young: Evidence | None = None
    """Why the owner of another application's counts as alive: it is young; None: it is not."""

    @property
    def overdue_ms(self) -> int:
        """Return how long ago the decision about it was made; 0 without one."""
        ruled = self.transaction.listing or self.transaction.first_decision
        return self.now_ms - ruled[1].at_ms if ruled else 0

    @property
    def driver_silent_since_ms(self) -> int | None:
        """Return when the last sign of the driver of a transaction of ours came, where that is longer ago than it may be silent.

        Signs are events, its records in the log, and the transaction itself. They count when they arrive: the driver's clock is
        not compared with another one.
        """
        if self.pipeline is None or self.pipeline.heard_ms is None:
            return None
        last = max(self.pipeline.heard_ms, self.transaction.opened_ms or 0)
        return last if self.now_ms - last > self.pipeline.silent_after_ms(self.limits) else None

    @property
    def is_driver_gone(self) -> bool:
        """Say whether its driver is silent, or its Flink job counts as gone. Of others it cannot be told."""
        if self.flink is not None:
            return self.flink.is_gone
        return self.driver_silent_since_ms is not None


def is_young(view: TransactionView, foreign_old_ms: int, now_ms: int) -> bool:
    """Say whether a transaction at a coordinator began less than ``foreign_old_ms`` ago."""
    return view.broker is not None and now_ms - view.broker.identity.start_ms < foreign_old_ms


def young(state: State, view: TransactionView, *, foreign_old_ms: int, now_ms: int) -> Evidence | None:
    """Return why the owner of an open one counts as alive: it is young, and its application was seen to commit; else None."""
    if view.managed or view.broker is None or not view.is_running or not is_young(view, foreign_old_ms, now_ms):
        return None
    if not state.commits.of_application(view.transaction):
        return None
    fact = (
        f"{view.pipeline} has committed others, and this one is open for less than {duration(foreign_old_ms)}: leave it to "
        "its owner. Later it counts as foreign"
    )
    return Evidence(fact, BROKER, view.broker.identity.start_ms)
