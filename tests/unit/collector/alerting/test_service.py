"""All of it together without a broker: from a decided transaction near its timeout to a webhook, over a restart."""

from __future__ import annotations

import json
from pathlib import Path

from collector.alert_inputs import AlertLimits
from collector.alert_service import AlertService, limits_of, timing_of
from collector.alerts import Timing
from collector.current_state import CurrentState
from collector.notifiers.receivers import ReceiverSettings
from collector.settings import TunableSettings
from collector.store import Store
from collector.transaction_state_records import BrokerStatus
from collector.verdicts import Limits, LogSight
from tests.unit.collector_observations import broker_record
from tests.unit.http_receiver import receiving, wait_until
from tests.unit.served_api import observed, story

TUNABLE = TunableSettings(
    alert_interval_ms=20, alert_keep_firing_ms=100, alert_group_wait_ms=40, alert_group_interval_ms=40
)


class Process:
    """A collector without observers and without API."""

    def __init__(self, directory: Path, url: str) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(LogSight.READABLE)
        self.current.load()
        receivers = ReceiverSettings(webhook_url=url, webhook_secret="a-secret-of-sixteen")
        self.service = AlertService(self.current, self.store, lambda: [], TUNABLE, receivers)
        self.service.start()

    def stop(self) -> None:
        self.service.stop()
        self.store.close()


def test_it_fires_is_told_once_over_a_restart_and_is_resolved(tmp_path: Path) -> None:
    with receiving() as receiver:
        process = Process(tmp_path, receiver.url)
        process.current.observe(story())
        wait_until("three groups are told", lambda: len(receiver.received) == 3)
        process.stop()

        process = Process(tmp_path, receiver.url)
        assert len(process.service.alerting.alerts()) == 3, "at once"
        ended = broker_record(BrokerStatus.COMPLETE_COMMIT, 62_000)
        process.current.observe([observed(20, ended)])
        wait_until("two groups are resolved", lambda: len(receiver.received) >= 5)
        process.stop()
    told = [json.loads(one.body) for one in receiver.received]
    assert sorted((one["status"], one["group"]) for one in told) == [
        ("firing", "A1|flink-orders-3"),
        ("firing", "A1|ip-count"),
        ("firing", "A2|ip-count"),
        ("resolved", "A1|ip-count"),
        ("resolved", "A2|ip-count"),
    ]
    assert len({one["id"] for one in told}) == 5


def test_defaults_of_settings_are_those_of_rules_and_state_machine() -> None:
    assert limits_of(TunableSettings()) == AlertLimits()
    assert timing_of(TunableSettings()) == Timing()


def test_an_observer_that_polls_is_not_down_between_two_looks() -> None:
    assert limits_of(TunableSettings(transaction_polling_ms=60_000)).observer_down_ms == 120_000
