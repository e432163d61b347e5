"""Restart and stop of a supervised pipeline by the command line, through a running collector: real broker, real Spark."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.lifecycle.pipeline_orders import PipelineAction, PipelineOrder, Run, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import PIPELINE_ORDER_LIMIT, running
from tests.integration.command_line_process import command
from tests.integration.pipeline_process import (
    PipelineProcess,
    make_topics,
    open_transactions,
    produce,
    read_committed,
    wait_until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def values(start: int, count: int) -> list[bytes]:
    return [b"row %06d" % n for n in range(start, start + count)]


def scratch_directory(pid: int) -> Path:
    """Return where a driver keeps its temporary files."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return Path(dict(line.decode().split("=", 1) for line in environment if line)["TMPDIR"])


@pytest.mark.long
def test_a_pipeline_with_a_frozen_driver_restarts_and_stops_by_order(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    name = f"ordered-{uuid.uuid4().hex[:8]}"
    source, sink = f"in-{name}", f"out-{name}"
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle", source, sink)
    settings: dict[str, Any] = {"source": source, "sink": sink, "prefix": name, "restart_delay_ms": 60_000}
    settings |= {"transaction_timeout_ms": 600_000}
    # Each answer is waited for: a first batch takes long on a busy machine.
    limits = {PIPELINE_ORDER_LIMIT: 100_000}
    with (
        running(broker.bootstrap_servers, tmp_path / "collector", defaults=limits) as collector,
        PipelineProcess(connection, tmp_path / "pipeline", **settings) as pipeline,
    ):
        produce(connection, source, values(0, 500))
        wait_until("the first rows", lambda: read_committed(connection, sink).total() >= 500)
        first = pipeline.status["attempt"]

        dry = command(collector, "restart", name, "--json")
        assert (dry.code, dry.answer["steps"][0]["outcome"]) == (0, "dry run")
        assert "running" in dry.answer["steps"][0]["detail"]
        assert command(collector, "restart", name, "--yes").code == 2, "a reason is missing"
        done = command(collector, "restart", name, "--yes", "--reason", "a test", "--json")
        assert (done.code, done.answer["outcome"]) == (0, "accepted"), done
        second = pipeline.status["attempt"]
        assert second > first
        assert done.answer["steps"][0]["detail"] == f"run {second} started"

        late = Run(prefix=name, checkpoint_id=pipeline.status["checkpoint_id"], attempt=first)
        order = PipelineOrder(run=late, action=PipelineAction.STOP, who="anna", reason="old", id="old", at_ms=0)
        producer = Producer(connection.for_librdkafka())
        producer.produce("pipeline_orders", encode(order), key=name)
        assert producer.flush(30) == 0
        wait_until("the old order is ignored", lambda: "order old (stop by anna) is ignored" in pipeline.log)
        produce(connection, source, values(500, 500))
        wait_until("rows of the second run", lambda: read_committed(connection, sink).total() >= 1000)

        scratch = scratch_directory(pipeline.status["driver_pid"])
        left_behind = sorted(path.name for path in scratch.iterdir())
        assert any(name.endswith(".sock") for name in left_behind), "Spark's sockets are elsewhere"
        for process in ("driver_pid", "jvm_pid"):
            os.kill(pipeline.status[process], signal.SIGSTOP)
        done = command(collector, "restart", name, "--yes", "--reason", "it stands still", "--json")
        assert (done.code, done.answer["outcome"]) == (0, "accepted"), done
        assert "the driver stands still" in pipeline.log
        assert not set(left_behind) & {path.name for path in scratch.iterdir()}, (
            "temporary files of the killed driver stay"
        )
        produce(connection, source, values(1000, 500))
        wait_until("rows of the third run", lambda: read_committed(connection, sink).total() >= 1500)

        pipeline.arm("after-prepare", "freeze")
        produce(connection, source, values(1500, 500))
        wait_until("it stands still with a prepared batch", lambda: pipeline.reached("after-prepare"))
        assert open_transactions(connection, name)

        unconfirmed = command(collector, "stop", name, "--yes", "--reason", "a test")
        assert unconfirmed.code == 1
        assert "'confirm'" in unconfirmed.err
        done = command(collector, "stop", name, "--yes", "--reason", "a test", "--confirm", name, "--json")
        assert (done.code, done.answer["steps"][0]["outcome"]) == (0, "stopped"), done
        assert open_transactions(connection, name) == []
        assert pipeline.wait_exit(60) == 0
        assert not scratch.parent.exists()
        assert read_committed(connection, sink) == Counter(values(0, 1500))
        audit = [row for row in collector.rows("audit") if row["keys"] == [f"pipeline:{name}"]]
        assert [row["outcome"] for row in reversed(audit)] == ["dry_run", "accepted", "accepted", "refused", "accepted"]
