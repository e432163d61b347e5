"""Committed before a fence, or timed out by the broker: Flink prints the same error for both, the collector tells them apart.

Beside it: Flink's and Spark's checkpoints, as one collector shows them. The REST API gives recorded answers of a real Flink.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until
from tests.unit.collector.flink_recordings import FIRST_JOB, recorded

pytestmark = pytest.mark.integration
TIMEOUT_MS = 3_000
OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795000005000}\n{"t":{"0":1}}'


class RecordedFlink(BaseHTTPRequestHandler):
    """A REST API that gives the answers of a real Flink, as they were recorded."""

    def do_GET(self) -> None:
        answers = {
            "/jobs/overview": "first_jobs_overview",
            f"/jobs/{FIRST_JOB}/checkpoints": "first_checkpoints",
            f"/jobs/{FIRST_JOB}/metrics": "savepoint_restarts",
        }
        name = answers.get(self.path.partition("?")[0])
        body = json.dumps(recorded(name)).encode() if name is not None else b'{"errors":["not found"]}'
        self.send_response(200 if name is not None else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def flink_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), RecordedFlink)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(LIMIT_S)


@pytest.fixture(scope="module")
def spark_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("spark")
    for folder, text in (("offsets", OFFSETS), ("commits", "v1\n{}")):
        (directory / folder).mkdir()
        (directory / folder / "7").write_text(text)
    return directory


@pytest.fixture(scope="module")
def collector(
    broker: Broker, flink_url: str, spark_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    settings = {"INDOUBT_FLINK_POLLING_MS": "200"}
    arguments = ["--flink", f"eu={flink_url}", "--checkpoint", f"any-query={spark_directory.as_uri()}"]
    directory = tmp_path_factory.mktemp("collector")
    with running(broker.bootstrap_servers, directory, arguments, settings) as process:
        yield process


def test_checkpoints_of_flink_and_spark_stand_side_by_side(collector: CollectorProcess) -> None:
    wait_until("Flink's job", lambda: collector.rows("jobs"), LIMIT_S)
    wait_until("Spark's checkpoint", lambda: collector.rows("checkpoints?pipeline=any-query"), LIMIT_S)
    rows = {(row["source"], row["number"]): row for row in collector.rows("checkpoints")}
    assert (rows["checkpoint directory", 7]["state"], rows["checkpoint directory", 7]["kind"]) == (
        "completed",
        "checkpoint",
    )
    flinks = rows["flink REST", 15]
    assert (flinks["pipeline"], flinks["state"], flinks["duration_ms"], flinks["state_bytes"]) == (
        "eu/orders",
        "completed",
        127,
        2330,
    )
    assert (rows["flink REST", 5]["state"], rows["flink REST", 5]["reason"]) == ("failed", "Task has failed.")
    (job,) = collector.rows("jobs")
    assert (job["job"], job["state"], job["restarts"], job["restored_from"]) == (FIRST_JOB, "RUNNING", 2, 4)
    assert collector.observer("flink eu")["state"] == "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkLike:
    """Subtask 0 of a sink that names its transactions as Flink's KafkaSink does: a new id for each checkpoint."""

    sink: Sink
    prefix: str
    timeout_ms: int = TIMEOUT_MS

    def id_of(self, checkpoint: int) -> str:
        return f"{self.prefix}-0-{checkpoint}"

    def take(self, checkpoint: int) -> Producer:
        """Take an id, fencing whoever had it."""
        settings = {
            "transactional.id": self.id_of(checkpoint),
            "transaction.timeout.ms": self.timeout_ms,
            "linger.ms": 0,
        }
        producer = Producer(self.sink.connection.for_librdkafka(**settings))
        producer.init_transactions(LIMIT_S)
        return producer

    def write(self, producer: Producer, count: int) -> list[int]:
        """Open a transaction with records in partition 0; return their offsets."""
        offsets: list[int] = []
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(
                self.sink.topic, b"x", partition=0, on_delivery=lambda _, message: offsets.append(message.offset())
            )
        assert producer.flush(LIMIT_S) == 0
        return offsets

    def checkpoint(self, number: int) -> None:
        """Write and commit, as a checkpoint that completes does."""
        producer = self.take(number)
        self.write(producer, 2)
        producer.commit_transaction(LIMIT_S)


def losses(collector: CollectorProcess, transaction: str) -> list[dict[str, Any]]:
    return collector.rows(f"losses?transaction={transaction}")


def verdict_of(collector: CollectorProcess, transaction: str) -> str:
    rows = losses(collector, transaction)
    return rows[0]["verdict"] if rows else ""


def test_the_same_error_for_a_committed_and_a_lost_transaction(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink = make_sink(connection)
    flink = FlinkLike(sink=sink, prefix=f"orders-{uuid.uuid4().hex[:8]}")
    for number in (1, 2, 3):
        flink.checkpoint(number)
    # The job is killed after checkpoint 3 was committed; recovery takes the id again, and the commit it tries says "fenced".
    flink.take(3)
    collector.wait_for(flink.id_of(3), state="committed")
    (committed,) = losses(collector, flink.id_of(3))
    assert (committed["verdict"], committed["certainty"]) == ("not lost", "certain")
    assert "already been fenced" in committed["why"]

    # It is killed after checkpoint 4 was completed and before it was committed, and is away for longer than the timeout.
    offsets = flink.write(flink.take(4), 3)
    collector.wait_for(flink.id_of(4), state="aborted")
    (unclear,) = losses(collector, flink.id_of(4))
    assert (unclear["verdict"], unclear["cause"], unclear["cause_certainty"]) == (
        "unknown",
        "timeout",
        "certain",
    )

    # It is restored from checkpoint 4 and goes on with 5: nobody will write again what 4 held.
    flink.checkpoint(5)
    wait_until("told lost", lambda: verdict_of(collector, flink.id_of(4)) == "lost", LIMIT_S)
    wait_until("its offsets", lambda: losses(collector, flink.id_of(4))[0]["offsets"], LIMIT_S)
    (lost,) = losses(collector, flink.id_of(4))
    assert (lost["certainty"], lost["checkpoint"], lost["partitions"]) == ("likely", 4, [f"{sink.topic}-0"])
    assert "timeout" in lost["why"]
    (where,) = lost["offsets"]
    assert (where["partition"], where["first"], where["certainty"]) == (f"{sink.topic}-0", min(offsets), "likely")
    # Behind the abort's marker, or behind what was written after it.
    assert where["next"] > max(offsets)
    assert lost["key"] in {row["key"] for row in collector.rows("losses?verdict=lost")}
    detail = collector.get(f"transactions/{lost['key']}")
    assert (detail["loss"]["verdict"], detail["state"]) == ("lost", "aborted")


def offsets_asked_at_ms(collector: CollectorProcess) -> int:
    """Return when the leaders were asked last, 0 while nothing was found."""
    status = collector.get("status")
    delays = [one["delay_ms"] for one in status["observers"] if one["name"] == "offsets of transactions"]
    return status["now_ms"] - delays[0] if delays and delays[0] is not None else 0


def test_a_committed_one_that_was_open_for_long_has_its_offsets(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    # Long enough that the broker does not abort it while a busy machine waits for the leader to be asked.
    flink = FlinkLike(sink=make_sink(connection), prefix=f"long-{uuid.uuid4().hex[:8]}", timeout_ms=8 * TIMEOUT_MS)
    producer = flink.take(1)
    offsets = flink.write(producer, 3)
    opened_ms = collector.wait_for(flink.id_of(1), state="open")["opened_at_ms"]
    due_ms = opened_ms + flink.timeout_ms // 4
    wait_until("it to be open for long", lambda: offsets_asked_at_ms(collector) > due_ms, LIMIT_S)
    before_ms = offsets_asked_at_ms(collector)
    wait_until("its leader to be asked", lambda: offsets_asked_at_ms(collector) > before_ms, LIMIT_S)
    producer.commit_transaction(LIMIT_S)
    key = collector.wait_for(flink.id_of(1), state="committed")["key"]
    wait_until("its offsets", lambda: collector.get(f"transactions/{key}")["loss"]["offsets"], LIMIT_S)
    ((where,), verdict) = map(collector.get(f"transactions/{key}")["loss"].get, ("offsets", "verdict"))
    assert (verdict, where["first"], where["certainty"]) == ("not lost", min(offsets), "likely")
    assert where["next"] > max(offsets)
    assert "reported by the partition's leader" in where["how"]


def test_a_job_set_back_before_a_transaction_writes_it_again(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    flink = FlinkLike(sink=make_sink(connection), prefix=f"bills-{uuid.uuid4().hex[:8]}")
    for number in (1, 2, 3):
        flink.checkpoint(number)
    abandoned = flink.take(4)
    flink.write(abandoned, 2)
    # Checkpoint 4 never completed: the job restored from 3 takes the id of 4 again, which aborts what was open.
    flink.checkpoint(4)
    wait_until("told harmless", lambda: len(losses(collector, flink.id_of(4))) == 2, LIMIT_S)
    again, before = losses(collector, flink.id_of(4))
    assert (again["verdict"], before["verdict"], before["cause"]) == ("not lost", "harmless", "fenced")
    assert "its id was taken again" in before["why"]


def test_ids_are_counted_by_prefix(collector: CollectorProcess, connection: KafkaConnection) -> None:
    flink = FlinkLike(sink=make_sink(connection), prefix=f"counted-{uuid.uuid4().hex[:6]}x")
    for number in (1, 2, 3):
        flink.take(number)
    wait_until(
        "three ids", lambda: [r["ids"] for r in collector.rows("ids") if r["prefix"] == flink.prefix] == [3], LIMIT_S
    )
