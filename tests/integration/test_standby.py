"""Two collectors of one name: one leads, the other one observes, answers reads, passes orders on, and takes over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, VIEWER
from tests.integration.command_line_process import command
from tests.integration.kafka_fixtures import wait_until
from tests.integration.reported_pipeline import ReportedPipeline
from tests.integration.two_collectors import OneOfTwo, TwoCollectors, two_collectors

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def both(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoCollectors]:
    DecisionLog(connection).ensure_topic()
    servers, settings = [broker.bootstrap_servers] * 2, {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with two_collectors(servers, tmp_path_factory.mktemp("two"), settings) as started:
        yield started


@pytest.fixture
def pipeline(connection: KafkaConnection, lifecycle_topic: str) -> ReportedPipeline:
    DecisionLog(connection).ensure_topic()
    return ReportedPipeline(connection, lifecycle_topic)


def test_an_order_to_the_standby_is_carried_out_by_the_leader_and_both_have_its_audit(
    both: TwoCollectors, pipeline: ReportedPipeline
) -> None:
    leader, other = both.leader()
    handle = pipeline.prepare(b"ordered")
    pipeline.decide(handle)
    row = other.wait_for(handle.transaction, verdict="commit it")
    leader.wait_for(handle.transaction, verdict="commit it")
    refused = other.order("commit", row, token=VIEWER)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert other.order("commit", row, token="nobody").status_code == 401
    answer = other.order("commit", row)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outcome"] == "accepted"
    assert pipeline.visible() == [b"ordered"]
    wait_until("the standby has the audit", lambda: other.rows("audit") == leader.rows("audit"), LIMIT_S)
    assert [(one["who"], one["outcome"]) for one in other.rows("audit")][:2] == [
        ("anna", "accepted"),
        ("ben", "refused"),
    ]
    assert other.get("status")["standby_of"] == leader.url
    assert leader.get("status")["standby_of"] == ""


def test_a_killed_leader_is_followed_by_the_standby_and_comes_back_as_one(
    both: TwoCollectors, pipeline: ReportedPipeline
) -> None:
    leader, other = both.leader()
    handles = [pipeline.prepare(b"row %d" % slot, slot=slot) for slot in range(2)]
    pipeline.decide(*handles)
    rows = [leader.wait_for(handle.transaction, verdict="commit it") for handle in handles]
    first = leader.order("commit", rows[0]).json()
    assert first["outcome"] == "accepted"
    leader.kill()
    other.wait_to_lead()
    row = other.wait_for(handles[1].transaction, verdict="commit it")
    second = other.order("commit", row).json()
    assert (second["outcome"], second["audit"]) == ("accepted", first["audit"] + 1)
    leader.start()
    leader.wait_to_stand_by()
    wait_until("it has the audit", lambda: leader.rows("audit") == other.rows("audit"), LIMIT_S)


def test_a_frozen_leader_wakes_up_as_the_standby(both: TwoCollectors) -> None:
    leader, other = both.leader()
    leader.freeze()
    other.wait_to_lead()
    leader.wake()
    leader.wait_to_stand_by()
    assert other.role() == "leader"


def test_a_stopped_leader_lets_the_lead_go_at_once(both: TwoCollectors) -> None:
    leader, other = both.leader()
    assert leader.stop() == 0
    other.wait_to_lead()
    leader.start()
    assert both.leader() == (other, leader)


def test_standing_orders_come_from_the_leader_alone_and_their_switch_holds_over_a_takeover(
    broker: Broker, lifecycle_topic: str, pipeline: ReportedPipeline, tmp_path: Path
) -> None:
    file = tmp_path / "standing_orders.toml"
    words = 'act = "commit"\nless_than_s_left = 3600\nmost_per_hour = 10\ndry_run = false\n'
    file.write_text(
        f'owner = "night shift"\n[[order]]\nname = "save it"\napplications = ["{pipeline.prefix}"]\n{words}'
    )
    file.chmod(0o600)
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_METRICS_ACCESS": "loopback"}
    servers, arguments = [broker.bootstrap_servers] * 2, ["--standing-orders", str(file)]
    with two_collectors(servers, tmp_path, settings, arguments) as both:
        handles = [pipeline.prepare(b"row %d" % slot, slot=slot) for slot in range(2)]
        pipeline.decide(handles[0])
        both.b.wait_for(handles[0].transaction, state="committed")
        wait_until("both have its audit", lambda: outcomes(both.a) == outcomes(both.b) == ["accepted"], LIMIT_S)
        assert [row["acts"] for row in both.b.rows("standing-orders")] == [1], "the leader says so"
        assert "indoubt_collector_leads 1.0" in both.a.metrics()
        assert "indoubt_collector_leads 0.0" in both.b.metrics()
        assert command(both.b, "standing-orders", "stop", "--reason", "a drill").code == 0
        both.a.kill()
        both.b.wait_to_lead()
        pipeline.decide(handles[1], batch=1)
        held = wait_until("it is held back", lambda: both.b.rows("standing-orders")[0]["held"], LIMIT_S)
        assert (held, both.b.rows("standing-orders")[0]["why"]) == (1, "all standing orders are stopped")
        assert command(both.b, "standing-orders", "start", "--yes", "--reason", "over").code == 0
        both.b.wait_for(handles[1].transaction, state="committed")


def outcomes(one: OneOfTwo) -> list[str]:
    return [row["outcome"] for row in reversed(one.rows("audit")) if row["reason"].startswith("standing order")]
