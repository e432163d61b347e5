"""A collector that watches for losses: what it keeps, and the alerts that its losses raise."""

from __future__ import annotations

from indoubt.collector.assess import rules
from indoubt.collector.assess.findings import Finding
from indoubt.collector.assess.rules.losses import RecentLosses
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.history.store import Store
from indoubt.collector.notify.state_machine import AlertState, AlertStates, step
from indoubt.collector.records.formats.flink_records import FlinkCommittables
from indoubt.collector.records.observations import Observation, Observed, OperatorOrder, Position
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views import aborts_and_losses
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.assessments import situation_at
from tests.unit.collector.observations import T0


class Watched:
    """A collector's alerts, judged at moments of its own clock. Times are ms after T0."""

    def __init__(self, store: Store, settled_kept: int = 1_000) -> None:
        self.current = CurrentState(store, settled_kept=settled_kept, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(DecisionLogStatus.ABSENT)
        self.current.flink.see_polled("eu", 0, answered=True)
        self.seen, self.states, self.clock_s = 0, AlertStates(), 0.0
        self.recent = RecentLosses(
            lambda since_ms: aborts_and_losses.losses_in_memory(self.current, since_ms=since_ms)[0],
            lambda since_ms: aborts_and_losses.duplicates(self.current, since_ms),
            lambda: self.clock_s,
        )

    def see(self, *seen: Observation | FlinkCommittables) -> None:
        for each in seen:
            self.seen += 1
            if isinstance(each, OperatorOrder):
                self.current.executed(each)
            elif isinstance(each, FlinkCommittables):
                self.current.flink.see_committables([each])
            else:
                at = Position(source="test", partition=0, offset=self.seen)
                self.current.observe([Observed(position=at, observation=each)])

    def losses(self) -> list[Loss]:
        """Return what memory tells of now."""
        return aborts_and_losses.losses_in_memory(self.current)[0]

    def findings(self, at: int) -> list[Finding]:
        """Return each A7 and A12 of that time."""
        losses, limits = self.recent.at(T0 + at), AlertSettings()
        snapshot = situation_at(self.current, [], limits, T0 + at, losses=losses)
        return [each for each in rules.findings(snapshot) if each.rule in ("A7", "A12")]

    def alerts(self, at: int) -> dict[tuple[str, str], AlertState]:
        """Return the state of each A7 and A12 by rule and subject, once everything was judged again at that time."""
        self.clock_s += 60.0
        self.states = step(self.states, self.findings(at), [], T0 + at, AlertSettings()).states
        return {(each.finding.rule, each.finding.subject): each.state for each in self.states.alerts.values()}
