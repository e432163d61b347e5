"""Two collectors of one name: one leads, the other one observes, answers reads, passes orders on, and takes over."""

from __future__ import annotations

import signal
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


@pytest.fixture
def pipeline(connection: KafkaConnection, lifecycle_topic: str) -> ReportedPipeline:
    DecisionLog(connection).ensure_topic()
    return ReportedPipeline(connection, lifecycle_topic)


@pytest.fixture
def both(broker: Broker, lifecycle_topic: str, pipeline: ReportedPipeline, tmp_path: Path) -> Iterator[TwoCollectors]:
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_METRICS_ACCESS": "loopback"}
    with two_collectors([broker.bootstrap_servers] * 2, tmp_path, settings) as started:
        yield started


def test_an_order_to_the_standby_is_carried_out_by_the_leader_and_both_have_its_audit(
    both: TwoCollectors, pipeline: ReportedPipeline
) -> None:
    handle = pipeline.prepare(b"ordered")
    pipeline.decide(handle)
    row = both.b.wait_for(handle.transaction, verdict="commit it")
    both.a.wait_for(handle.transaction, verdict="commit it")
    refused = both.b.order("commit", row, token=VIEWER)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert both.b.order("commit", row, token="nobody").status_code == 401
    answer = both.b.order("commit", row)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outcome"] == "accepted"
    assert pipeline.visible() == [b"ordered"]
    wait_until("the standby has the audit", lambda: both.b.rows("audit") == both.a.rows("audit"), LIMIT_S)
    assert [(one["who"], one["outcome"]) for one in both.b.rows("audit")] == [("anna", "accepted"), ("ben", "refused")]


def test_a_killed_leader_is_followed_by_the_standby_and_comes_back_as_one(
    both: TwoCollectors, pipeline: ReportedPipeline
) -> None:
    handles = [pipeline.prepare(b"row %d" % slot, slot=slot) for slot in range(2)]
    pipeline.decide(*handles)
    rows = [both.a.wait_for(handle.transaction, verdict="commit it") for handle in handles]
    assert both.a.order("commit", rows[0]).json()["outcome"] == "accepted"
    both.a.kill()
    both.b.wait_to_lead()
    row = both.b.wait_for(handles[1].transaction, verdict="commit it")
    assert both.b.order("commit", row).json()["outcome"] == "accepted"
    both.a.start()
    both.a.wait_to_stand_by()
    wait_until("it has the audit", lambda: both.a.rows("audit") == both.b.rows("audit"), LIMIT_S)
    assert [one["audit"] for one in both.a.rows("audit")] == [2, 1]


def test_a_stopped_leader_lets_the_lead_go_at_once(both: TwoCollectors) -> None:
    assert both.a.stop() == 0
    both.b.wait_to_lead()
    assert "this collector leads" in both.b.log.read_text()


def test_a_frozen_leader_wakes_up_as_the_standby(both: TwoCollectors) -> None:
    both.a.freeze()
    both.b.wait_to_lead()
    both.a.wake()
    both.a.wait_to_stand_by()
    assert both.b.role() == "leader"
    both.b.signal(signal.SIGKILL)
    both.a.wait_to_lead()


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
