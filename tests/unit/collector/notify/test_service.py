"""All of it together without a broker: from a decided transaction near its timeout to a webhook, over a restart."""

from __future__ import annotations

import json
from pathlib import Path

from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.config.receivers import ReceiverSettings
from indoubt.collector.config.variables import TunableSettings
from indoubt.collector.history.store import Store
from indoubt.collector.notify.service import AlertService, alert_settings
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.notify.http_receiver import receiving, wait_until
from tests.unit.collector.observations import broker_record
from tests.unit.collector.serve.api.served_api import observed, story

TUNABLE = TunableSettings(alert=AlertSettings(keep_firing_ms=100, group_wait_ms=40, group_interval_ms=40))


class Process:
    """A collector without observers and without API."""

    def __init__(self, directory: Path, url: str) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(DecisionLogStatus.READABLE)
        self.current.load()
        receivers = ReceiverSettings(webhook_url=url, webhook_secret="a-secret-of-sixteen")
        self.assessor = assessor_of(self.current, 0.02)
        self.service = AlertService(self.current, self.store, self.assessor, TUNABLE, receivers)
        self.assessor.start()
        self.service.dispatcher.start()
        self.service.evaluator.start()

    def stop(self) -> None:
        self.assessor.stop()
        self.service.evaluator.stop()
        self.service.dispatcher.stop()
        self.store.close()


def test_it_fires_notifies_once_over_a_restart_and_is_resolved(tmp_path: Path) -> None:
    with receiving() as receiver:
        process = Process(tmp_path, receiver.url)
        process.current.observe(story())
        wait_until("two groups are told", lambda: len(receiver.received) == 2)
        process.stop()

        process = Process(tmp_path, receiver.url)
        assert len(process.service.evaluator.alerts()) == 3, "at once"
        ended = broker_record(BrokerStatus.COMPLETE_COMMIT, 62_000)
        process.current.observe([observed(20, ended)])
        wait_until("one group is resolved", lambda: len(receiver.received) >= 3)
        process.stop()
    told = [json.loads(one.body) for one in receiver.received]
    assert sorted((one["status"], one["group"]) for one in told) == [
        ("firing", "application flink-orders"),
        ("firing", "application ip-count"),
        ("resolved", "application ip-count"),
    ]
    assert len({one["id"] for one in told}) == 3
    both = next(one for one in told if one["group"] == "application ip-count")
    assert sorted(alert["rule"] for alert in both["firing"]) == ["A1", "A2"]
    assert {alert["group"] for alert in both["firing"]} == {"application ip-count"}


def test_defaults_of_settings_are_those_of_rules_and_state_machine() -> None:
    assert alert_settings(TunableSettings()) == AlertSettings()


def test_an_observer_that_polls_is_not_down_between_two_polls() -> None:
    assert alert_settings(TunableSettings(transaction_polling_ms=60_000)).observer_down_ms == 120_000
