"""A verdict about a loss after memory has let the transaction go, and the alert that it is for an hour."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from collector.assess import rules
from collector.assess.findings import Severity
from collector.assess.recent_losses import RecentLosses
from collector.config.alerts import AlertSettings
from collector.history.store import Store
from collector.records.observations import (
    Observation,
    Observed,
    Position,
)
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from collector.views import aborts_and_losses
from collector.views.current_state import CurrentState
from tests.unit.collector.assessments import snapshot_at
from tests.unit.collector.flink_recordings import transaction_records
from tests.unit.collector.verdicts.loss_observations import (
    GONE,
    LIKELY,
    LOST,
    NOT_LOST,
    RESTORED,
    transaction,
)


def test_what_memory_has_let_go_is_answered_from_history(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    try:
        current = CurrentState(store, settled_kept=10, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.ABSENT)
        records: list[Observation] = [*transaction_records("orders-eu"), *GONE, *RESTORED]
        for number in range(100):
            later = transaction(number, 1_000_000 + number, 1_000_100 + number, subtask=7, committed=True)
            records += [
                replace(one, start_ms=(one.start_ms or 0) + 10**9, update_ms=one.update_ms + 10**9) for one in later
            ]
        positions = [Position(source="test", partition=0, offset=number) for number in range(len(records))]
        current.observe([Observed(position=at, observation=one) for at, one in zip(positions, records, strict=True)])
        store.flushed()
        assert "orders-eu-0-17" not in {
            loss.view.transaction for loss in aborts_and_losses.losses_in_memory(current, committed=True)[0]
        }
        ((lost,), _) = aborts_and_losses.losses_in_history(current, store, "orders-eu-0-17")
        assert (lost.verdict, lost.certainty, lost.view.pipeline) == (LOST, LIKELY, "orders-eu")
        ((committed,), _) = aborts_and_losses.losses_in_history(current, store, "orders-eu-1-4")
        assert committed.verdict is NOT_LOST
        assert aborts_and_losses.losses_in_history(current, store, "never-was-0-1") == ([], 0)
    finally:
        store.close()


def test_what_flink_lost_is_an_alert_for_an_hour(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=1_000, checkpoints_kept=100, limits=Limits())
        current.see_decision_log(DecisionLogStatus.ABSENT)
        records: list[Observation] = [*transaction_records("orders-eu"), *GONE, *RESTORED]
        positions = [Position(source="test", partition=0, offset=number) for number in range(len(records))]
        current.observe([Observed(position=at, observation=one) for at, one in zip(positions, records, strict=True)])
        lost = {one.view.key: one for one in aborts_and_losses.losses_in_memory(current)[0] if one.verdict is LOST}
        assert {one.view.transaction for one in lost.values()} >= {"orders-eu-0-17", "orders-eu-1-17"}
        clock_s = 0.0
        recent = RecentLosses(
            lambda since_ms: aborts_and_losses.losses_in_memory(current, since_ms=since_ms)[0],
            lambda since_ms: aborts_and_losses.duplicates(current, since_ms),
            lambda: clock_s,
        )
        last_ms = max(one.view.ended_ms or 0 for one in lost.values())
        found = recent.at(last_ms)
        seen = snapshot_at(current, [], AlertSettings(), last_ms, losses=found)
        alerts = {one.subject: one for one in rules.findings(seen, AlertSettings()) if one.rule == "A7"}
        assert alerts.keys() == lost.keys()
        alert = next(one for one in alerts.values() if "orders-eu-0-17" in one.subject)
        assert (alert.severity, alert.subject_labels["pipeline"]) == (Severity.CRITICAL, "orders-eu")
        assert "lost the records of transaction orders-eu-0-17 (likely)" in alert.summary
        assert recent.at(last_ms + 2 * 3_600_000) == found, "not looked at again yet"
        clock_s = 10.0
        assert recent.at(last_ms + 2 * 3_600_000) == ()
