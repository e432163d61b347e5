"""The leader of two killed, frozen or cut off while it notifies: nothing is lost, and what comes twice has one idempotency key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S
from tests.integration.kafka_fixtures import wait_until
from tests.integration.reported_pipeline import ReportedPipeline
from tests.integration.two_collectors import (
    Gate,
    TwoCollectors,
    bring_back,
    broker_behind_gates,
    strike,
    two_collectors,
)
from tests.unit.collector.notify.http_receiver import Receiver, receiving

pytestmark = pytest.mark.integration
LIFECYCLE = "lifecycle-of-two"


@pytest.fixture(scope="module")
def at_gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, tuple[Gate, Gate]]]:
    with broker_behind_gates(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def both(
    at_gates: tuple[Broker, tuple[Gate, Gate]], receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoCollectors]:
    connection = KafkaConnection(at_gates[0].bootstrap_servers)
    connection.ensure_topic(LIFECYCLE)
    DecisionLog(connection).ensure_topic()
    environment = {
        "INDOUBT_LIFECYCLE_TOPIC": LIFECYCLE,
        "INDOUBT_WEBHOOK_URL": receiver.url,
        "INDOUBT_WEBHOOK_SECRET": "a-secret-of-sixteen-and-more",
        "INDOUBT_ALERT_COMMIT_OVERDUE_MS": "500",
        "INDOUBT_ALERT_GROUP_WAIT_MS": "500",
    }
    directory: Path = tmp_path_factory.mktemp("two")
    servers = [f"127.0.0.1:{gate.port}" for gate in at_gates[1]]
    with two_collectors(servers, directory, environment) as started:
        started.a.gate, started.b.gate = at_gates[1]
        yield started


@pytest.mark.parametrize(
    ("step", "deed", "most"),
    [
        pytest.param("before the delivery", "kill", 1, marks=pytest.mark.long),
        ("before the delivery", "freeze", 1),
        pytest.param("before the delivery", "cut off", 2, marks=pytest.mark.long),
        ("before the note", "kill", 2),
        pytest.param("before the note", "freeze", 2, marks=pytest.mark.long),
        pytest.param("before the note", "cut off", 2, marks=pytest.mark.long),
        pytest.param("after the note", "kill", 1, marks=pytest.mark.long),
    ],
)
def test_a_notification_is_not_lost_and_a_repetition_is_known_by_its_key(
    both: TwoCollectors,
    receiver: Receiver,
    at_gates: tuple[Broker, tuple[Gate, Gate]],
    step: str,
    deed: str,
    most: int,
) -> None:
    leader, other = both.leader()
    pipeline = ReportedPipeline(KafkaConnection(at_gates[0].bootstrap_servers), LIFECYCLE, timeout_ms=600_000)
    leader.strike_at(step)
    handle = pipeline.prepare(b"overdue")
    pipeline.decide(handle)
    leader.wait_at_step()
    strike(leader, deed)
    other.wait_to_lead()
    bring_back(leader, deed)
    leader.wait_to_stand_by()

    def keys() -> list[str]:
        told = [(one.headers["Idempotency-Key"], json.loads(one.body)) for one in receiver.received]
        return [key for key, body in told if any(handle.transaction in str(alert) for alert in body["firing"])]

    def is_noted() -> bool:
        return bool(keys()) and all(one.rows("receivers")[0]["waiting"] == 0 for one in (leader, other))

    wait_until("it is told, and both know it", is_noted, LIMIT_S)
    assert len(set(keys())) == 1
    assert len(keys()) <= most
    wait_until("the standby shows the alert", lambda: leader.rows("alerts?rule=A2&state=firing"), LIMIT_S)
    row = other.wait_for(handle.transaction, verdict="commit it")
    assert other.order("commit", row).json()["outcome"] == "accepted"
