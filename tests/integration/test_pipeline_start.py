"""The order that starts a pipeline whose supervisor has ended, through a running collector and a real broker; no Spark."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.lifecycle.events import EventType
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import PIPELINE_ORDER_LIMIT, ROOT, running
from tests.integration.command_line_process import command
from tests.integration.kafka_fixtures import wait_until
from tests.integration.pipeline_process import make_topics
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

STARTS = """
import os, sys
sys.path.insert(0, {root!r})
from indoubt.lifecycle.decisions import RunStarted
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from confluent_kafka import Producer

assert "INDOUBT_OPERATOR_TOKEN" not in os.environ
connection = KafkaConnection({bootstrap!r})
run = RunStarted(prefix={prefix!r}, checkpoint_id={checkpoint_id!r}, run="second", at_ms={at_ms})
attempt = DecisionLog(connection).start_run(run)
data = {{"pipeline": {prefix!r}, "checkpoint_id": {checkpoint_id!r}, "attempt": attempt, "job": "test"}}
producer = Producer(connection.for_librdkafka())
event = LifecycleEvent(type=EventType.PIPELINE_STARTED, source="/test", subject="x", at_ms={at_ms}, data=data)
producer.produce("transaction_lifecycle", encode(event))
assert producer.flush(30) == 0
"""


@pytest.mark.long
def test_a_pipeline_that_failed_is_started_by_the_collectors_command(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle")
    failed = ReportedPipeline(connection, "transaction_lifecycle")
    failed.tell(EventType.PIPELINE_STARTED, failed.prefix, job="test")
    script = tmp_path / "start.py"
    starts = f"--start-command={failed.prefix}={shlex.join([sys.executable, str(script)])}"
    limits = {PIPELINE_ORDER_LIMIT: 30_000}
    with running(broker.bootstrap_servers, tmp_path / "collector", [starts], defaults=limits) as collector:

        def row() -> dict[str, object]:
            return next((row for row in collector.rows("pipelines") if row["pipeline"] == failed.prefix), {})

        wait_until("the run to be seen", lambda: row().get("state") == "running")
        refused = command(collector, "start", failed.prefix, "--yes", "--reason", "a test")
        assert (refused.code, row()["may_start"]) == (1, False)
        assert "order a restart" in refused.err

        failed.tell(EventType.PIPELINE_STOPPED, failed.prefix, job="test", reason="query failed")
        wait_until("its end to be seen", lambda: row()["may_start"] is True)
        script.write_text("import sys; print('no such unit'); sys.exit(3)")
        broken = command(collector, "start", failed.prefix, "--yes", "--reason", "a test", "--json")
        assert broken.code == 1
        assert broken.answer["steps"][0]["detail"] == "the start command ended with 3: no such unit"

        at_ms = collector.get("status")["now_ms"] + 1
        script.write_text(STARTS.format(
            root=str(ROOT), bootstrap=broker.bootstrap_servers, prefix=failed.prefix, checkpoint_id=failed.checkpoint_id,
            at_ms=at_ms,
        ))  # fmt: skip
        dry = command(collector, "start", failed.prefix, "--json")
        assert dry.answer["steps"][0]["description"] == f"run: {shlex.join([sys.executable, str(script)])}"
        done = command(collector, "start", failed.prefix, "--yes", "--reason", "its machine is back", "--json")
        assert (done.code, done.answer["steps"][0]["outcome"]) == (0, "started"), done
        assert row()["may_start"] is False
        audit = [one for one in collector.rows("audit") if one["keys"] == [f"pipeline:{failed.prefix}"]]
        assert [one["outcome"] for one in reversed(audit)] == ["refused", "failed", "dry_run", "accepted"]
        assert audit[0]["reason"] == "its machine is back"
