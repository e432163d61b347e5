"""A standing order's request that never reached its coordinator is given again, unless it was stopped, on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, SHORT_ORDERS, CollectorProcess, running
from tests.integration.command_line_process import command
from tests.integration.cutting_proxy import END_TXN, broker_behind_proxy
from tests.integration.flink_transactions import prepare
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline
from tests.integration.test_standing_orders_of_flink import CLUSTER, ORDER, await_evaluations, job_manager, row

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
TIMEOUT_MS = 600_000
"""Longer than any broker takes to come back: nothing here may end by its timeout."""
SETTLED_S = 120.0


@pytest.mark.long
def test_a_commit_that_its_coordinator_never_got_is_given_again(tmp_path: Path) -> None:
    with broker_behind_proxy(tmp_path / "broker") as (broker, proxy, address):
        connection = KafkaConnection(address)
        prepared = prepare(connection, TIMEOUT_MS)
        file = standing_orders(tmp_path, ORDER)
        with job_manager(tmp_path, prepared) as manager:
            places = ["--flink", f"{CLUSTER}={manager.url}", "--flink-checkpoints", f"{CLUSTER}={tmp_path / 'flink'}"]
            settings = {"INDOUBT_FLINK_POLLING_MS": "100"}
            options = [*places, "--standing-orders", str(file)]
            with running(address, tmp_path / "collector", options, settings, SHORT_ORDERS) as collector:
                for id_ in prepared.ids:
                    collector.wait_for(id_, verdict="commit it", may_commit=True, commit_confirmation="")
                cut = proxy.at_next(END_TXN, broker.kill, answer_lost=False)
                manager.die()
                wait_until("the request is lost", cut.done.is_set, LIMIT_S)
                wait_until("its end is not known", lambda: "pending" in outcomes(collector.rows("audit")), LIMIT_S)
                wait_until("it is held back", lambda: row(collector)["held"] > 0, LIMIT_S)
                broker.start()
                expected = {b"of " + id_.encode(): 1 for id_ in prepared.ids}
                wait_until(
                    "the rows are seen",
                    lambda: dict(read_committed(connection, prepared.sink.topic)) == expected,
                    SETTLED_S,
                )
                wait_until("nothing is held back", lambda: row(collector)["held"] == 0, LIMIT_S)
                audit = collector.rows("audit")
                (lost,) = (one for one in audit if one["outcome"] == "pending")
                again = [one for one in audit if one["keys"] == lost["keys"] and one["reason"] == lost["reason"]]
                assert "accepted" in outcomes(again)


@pytest.mark.long
def test_once_stopped_no_pending_act_is_given_again(tmp_path: Path) -> None:
    text = ORDER.replace("driver_gone = true", "less_than_s_left = 3600")
    with broker_behind_proxy(tmp_path / "broker") as (broker, proxy, address):
        connection, topic = KafkaConnection(address), "lifecycle"
        DecisionLog(connection).ensure_topic()
        make_topic(connection, topic)
        pipeline = ReportedPipeline(connection, topic, TIMEOUT_MS)
        settings = {"INDOUBT_LIFECYCLE_TOPIC": topic}
        options = ["--standing-orders", str(standing_orders(tmp_path, text))]
        collector = CollectorProcess(address, tmp_path / "collector", options, settings, SHORT_ORDERS)
        try:
            collector.start()
            handle = pipeline.prepare(b"held back")
            collector.wait_for(handle.transaction, state="prepared")
            cut = proxy.at_next(END_TXN, broker.kill)
            pipeline.decide(handle)
            wait_until("the request is lost", cut.done.is_set, LIMIT_S)
            wait_until("its end is not known", lambda: "pending" in outcomes(collector.rows("audit")), LIMIT_S)
            assert command(collector, "standing-orders", "stop", "--reason", "its owner says that it lives").code == 0
            collector.kill()
            broker.start()
            # A restart probes at once what is pending.
            collector.start()
            collector.wait_for(handle.transaction, verdict="commit it")
            await_evaluations(collector)
            await_evaluations(collector)
            assert pipeline.sink.view(handle.transaction).state == "Ongoing"

            assert command(collector, "standing-orders", "start", "--reason", "the drill is over", "--yes").code == 0
            wait_until("the row is visible", lambda: pipeline.visible() == [b"held back"], SETTLED_S)
        finally:
            collector.kill()


def standing_orders(directory: Path, text: str) -> Path:
    file = directory / "standing_orders.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def make_topic(connection: KafkaConnection, topic: str) -> None:
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(LIMIT_S)


def outcomes(audit: list[dict[str, Any]]) -> set[str]:
    return {one["outcome"] for one in audit}
