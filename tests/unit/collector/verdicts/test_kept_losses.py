"""A verdict about a loss after memory has let the transaction go, and the alert that it is for an hour."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from indoubt.collector.assess.findings import Severity
from indoubt.collector.history.store import Store
from indoubt.collector.views import aborts_and_losses
from tests.unit.collector.flink_recordings import transaction_records
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.loss_observations import GONE, LIKELY, LOST, NOT_LOST, RESTORED, transaction
from tests.unit.collector.verdicts.watched_losses import Watched


def test_what_memory_has_let_go_is_answered_from_history(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store, settled_kept=10)
        watched.see(*transaction_records("orders-eu"), *GONE, *RESTORED)
        for number in range(100):
            later = transaction(number, 1_000_000 + number, 1_000_100 + number, subtask=7, committed=True)
            watched.see(
                *(replace(one, start_ms=(one.start_ms or 0) + 10**9, update_ms=one.update_ms + 10**9) for one in later)
            )
        store.flushed()
        kept, _ = aborts_and_losses.losses_in_memory(watched.current, committed=True)
        assert "orders-eu-0-17" not in {loss.view.transaction for loss in kept}
        ((lost,), _) = aborts_and_losses.losses_in_history(watched.current, store, "orders-eu-0-17")
        assert (lost.verdict, lost.certainty, lost.view.pipeline) == (LOST, LIKELY, "orders-eu")
        ((committed,), _) = aborts_and_losses.losses_in_history(watched.current, store, "orders-eu-1-4")
        assert committed.verdict is NOT_LOST
        assert aborts_and_losses.losses_in_history(watched.current, store, "never-was-0-1") == ([], 0)


def test_what_flink_lost_is_an_alert_for_an_hour(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "history.duckdb")) as store:
        watched = Watched(store)
        watched.see(*transaction_records("orders-eu"), *GONE, *RESTORED)
        lost = {one.view.key: one for one in watched.losses() if one.verdict is LOST}
        assert {one.view.transaction for one in lost.values()} >= {"orders-eu-0-17", "orders-eu-1-17"}
        last = max(one.view.ended_ms or 0 for one in lost.values()) - T0
        alerts = {one.subject: one for one in watched.findings(last) if one.rule == "A7"}
        assert alerts.keys() == lost.keys()
        alert = next(one for one in alerts.values() if "orders-eu-0-17" in one.subject)
        assert (alert.severity, alert.subject_labels["pipeline"]) == (Severity.CRITICAL, "orders-eu")
        assert "lost the records of transaction orders-eu-0-17 (likely)" in alert.summary
        found, an_hour_later = watched.recent.at(T0 + last), T0 + last + 2 * 3_600_000
        assert watched.recent.at(an_hour_later) == found, "not looked at again yet"
        watched.clock_s = 10.0
        assert watched.recent.at(an_hour_later) == ()
