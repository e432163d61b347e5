"""The leader of two killed, frozen or cut off at every step of an order: the other one takes over, and nothing is done twice.

Judged from outside: by a reader of the sink, by the decision log, and by an independent read_committed reader of the journal.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline
from tests.integration.two_collectors import (
    Gate,
    OneOfTwo,
    TwoCollectors,
    bring_back,
    broker_behind_gates,
    strike,
    two_collectors,
)

pytestmark = pytest.mark.integration
LIFECYCLE, ORDERS = "lifecycle-of-two", "pipeline_orders"
STEPS = (
    "before the intent",
    "after a record of the journal within the intent",
    "after the journal within the intent",
    "after the intent",
    "before the act",
    "after the act",
    "after a record of the journal within the outcome",
    "after the journal within the outcome",
    "after the outcome",
)
DEEDS = ("kill", "freeze", "cut off")
CASES = [(step, deed) for step, deed in itertools.product(STEPS, DEEDS)]
SHORT = {
    ("after a record of the journal within the intent", "freeze"),
    ("after the journal within the intent", "kill"),
    ("after the intent", "cut off"),
    ("after the act", "kill"),
}


@pytest.fixture(scope="module")
def at_gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, tuple[Gate, Gate]]]:
    with broker_behind_gates(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def connection(at_gates: tuple[Broker, tuple[Gate, Gate]]) -> KafkaConnection:
    return KafkaConnection(at_gates[0].bootstrap_servers)


@pytest.fixture(scope="module")
def both(
    at_gates: tuple[Broker, tuple[Gate, Gate]], connection: KafkaConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoCollectors]:
    connection.ensure_topic(LIFECYCLE)
    DecisionLog(connection).ensure_topic()
    servers = [f"127.0.0.1:{gate.port}" for gate in at_gates[1]]
    with two_collectors(servers, tmp_path_factory.mktemp("two"), {"INDOUBT_LIFECYCLE_TOPIC": LIFECYCLE}) as started:
        started.a.gate, started.b.gate = at_gates[1]
        yield started


@pytest.fixture
def pipeline(connection: KafkaConnection) -> ReportedPipeline:
    return ReportedPipeline(connection, LIFECYCLE, timeout_ms=600_000)


@pytest.mark.parametrize(
    ("step", "deed"), [pytest.param(*case, marks=() if case in SHORT else pytest.mark.long) for case in CASES]
)
def test_an_order_is_carried_out_once(
    both: TwoCollectors,
    pipeline: ReportedPipeline,
    connection: KafkaConnection,
    step: str,
    deed: str,
) -> None:
    leader, other = both.leader()
    handle = pipeline.prepare(b"once")
    pipeline.decide(handle)
    row, idempotency_key = leader.wait_for(handle.transaction, verdict="commit it"), uuid.uuid4().hex
    other.wait_for(handle.transaction, verdict="commit it")

    def give() -> None:
        with contextlib.suppress(httpx.HTTPError):
            leader.order("commit", row, idempotency_key=idempotency_key)

    leader.strike_at(step)
    giving = threading.Thread(target=give)
    giving.start()
    leader.wait_at_step()
    strike(leader, deed)
    other.wait_to_lead()
    bring_back(leader, deed)
    leader.wait_to_stand_by()
    giving.join(LIMIT_S)
    assert both.leader() == (other, leader)

    # The same order again, to the one that was struck: it goes to the leader, which does it if it was not done.
    again = leader.order("commit", row, idempotency_key=idempotency_key)
    assert again.status_code == 200, again.text
    key = row["key"]

    def outcomes(one: OneOfTwo) -> list[str]:
        return [each["outcome"] for each in reversed(one.rows("audit")) if key in each["keys"]]

    wait_until("it is carried out", lambda: outcomes(other)[-1:] == ["accepted"], LIMIT_S)
    wait_until("both have the same audit", lambda: leader.rows("audit") == other.rows("audit"), LIMIT_S)
    assert pipeline.visible() == [b"once"]
    assert Counter(outcomes(other))["accepted"] == 1
    server = connection.bootstrap_servers
    intents = [values for values in both.written(server, "add intent") if idempotency_key in values]
    assert len(intents) == 1, "one intent, whoever wrote it"
    audits = both.written(server, "add audit")
    assert [values[0] for values in audits] == list(range(1, len(audits) + 1)), "the audit is whole"
    assert [json.loads(json.dumps(values[0])) for values in audits] == [
        r["audit"] for r in reversed(other.rows("audit"))
    ]
    assert pipeline.sink.view(handle.transaction).state != "Ongoing"


def test_a_leader_that_stood_still_before_it_acted_sends_nothing(
    both: TwoCollectors, pipeline: ReportedPipeline, connection: KafkaConnection
) -> None:
    connection.ensure_topic(ORDERS)
    leader, other = both.leader()

    def row() -> dict[str, Any] | None:
        return next((each for each in leader.rows("pipelines") if each["pipeline"] == pipeline.prefix), None)

    seen, answers = wait_until("the run is seen", row, LIMIT_S), list[httpx.Response]()
    leader.strike_at("after the intent")
    giving = threading.Thread(target=lambda: answers.append(leader.order("restart", seen)))
    giving.start()
    leader.wait_at_step()
    leader.freeze()
    other.wait_to_lead()
    leader.mark.unlink()
    leader.wake()
    giving.join(LIMIT_S)
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(504, "unanswered")]
    leader.wait_to_stand_by()
    wait_until("it is followed up", lambda: [r for r in other.rows("audit") if seen["key"] in r["keys"]], LIMIT_S)
    assert [r["outcome"] for r in other.rows("audit") if seen["key"] in r["keys"]] == ["pending"]
    assert read_committed(connection, ORDERS).total() == 0
