"""A real collector on a machine whose clock is stepped, beside brokers whose clock is not: nothing lost, doubled or alarmed."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess, offsets_of, running
from tests.integration.command_line_process import command
from tests.integration.kafka_fixtures import Sink, make_sink, wait_until
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration
SOURCE = Path(__file__).with_name("stepped_clock.c")
NEAR_MS = 5_000
YEAR_S = 365 * 86_400


class SteppedClock:
    """The clock of one process: its library, and the file that says by how much it is wrong."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or "gcc"
        self._library, self._file = directory / "stepped_clock.so", directory / "ahead"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        self.is_ahead_by(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._file)}

    def is_ahead_by(self, seconds: int) -> None:
        # In place: the process has mapped it.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds * 1_000_000_000))


class Foreign:
    """A producer of nobody's pipeline."""

    def __init__(self, sink: Sink, name: str, timeout_ms: int = 120_000) -> None:
        self.id = f"{name}-{uuid.uuid4().hex[:8]}"
        settings = {"transactional.id": self.id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        self._producer, self._topic = Producer(sink.connection.for_librdkafka(**settings)), sink.topic
        self._producer.init_transactions(LIMIT_S)

    def open(self) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"x", partition=0)
        assert self._producer.flush(LIMIT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT_S)


def committed(collector: CollectorProcess, id_: str) -> int:
    return sum(row["state"] == "committed" for row in collector.transactions(id_))


def require_calm(collector: CollectorProcess, open_id: str) -> None:
    """Fail unless the collector's time is the brokers', every observer has just looked, and nobody is called."""
    status = collector.get("status")
    assert abs(status["now_ms"] - time.time_ns() // 1_000_000) < NEAR_MS
    for observer in status["observers"]:
        assert 0 <= (observer["delay_ms"] or 0) < NEAR_MS, observer
        assert observer["state"] != "down", observer
    assert open_id not in str(collector.rows("alerts")), "it has most of its timeout left"
    assert "A9" not in {alert["rule"] for alert in collector.rows("alerts")}


@pytest.mark.long
def test_steps_that_the_brokers_do_not_confirm_change_nothing(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path: Path
) -> None:
    clock, sink = SteppedClock(tmp_path), make_sink(connection)
    waiting, busy = Foreign(sink, "waiting"), Foreign(sink, "busy")
    environment = {
        **clock.environment,
        "INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic,
    }
    with running(broker.bootstrap_servers, tmp_path / "data", environment=environment) as collector:
        waiting.open()
        collector.wait_for(waiting.id, state="open", verdict="foreign")
        done = 0
        for ahead_s in (600, -600, YEAR_S, 0):
            clock.is_ahead_by(ahead_s)
            for _ in range(10):
                busy.open()
                busy.commit()
                done += 1
                wait_until(f"commit {done}", lambda n=done: committed(collector, busy.id) == n, LIMIT_S)
                require_calm(collector, waiting.id)
        log = collector.log.read_text()
        assert log.count("clock is stepped by") == 3
        assert "is back from its step" in log
        assert "from what it was" not in log
        waiting.commit()
        collector.wait_for(waiting.id, state="committed")
        told = offsets_of(broker.bootstrap_servers, "__transaction_state")
    with duckdb.connect(str(tmp_path / "data" / "history.duckdb")) as history:
        kept = history.execute("""select "partition", "offset" from transaction_records""").fetchall()
    assert len(kept) == len(set(kept)), "none twice"
    # Tombstones and what is compacted away are no records of history.
    assert {place for place in kept if place in told} == set(kept)
    assert len(kept) >= 3 * done


ORDER = """
owner = "night shift"

[[order]]
name = "save it"
act = "commit"
applications = ["{application}"]
less_than_s_left = 3600
most_per_hour = 10
dry_run = false
"""


@pytest.mark.long
@pytest.mark.parametrize("source", ["log", "polling"])
@pytest.mark.parametrize("ahead_s", [120, -120])
def test_a_clock_that_was_always_off_is_measured_told_and_acted_on(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path: Path, ahead_s: int, source: str
) -> None:
    clock = SteppedClock(tmp_path)
    clock.is_ahead_by(ahead_s)
    DecisionLog(connection).ensure_topic()
    pipeline = ReportedPipeline(connection, lifecycle_topic, timeout_ms=300_000)
    orders = tmp_path / "standing_orders.toml"
    orders.write_text(ORDER.format(application=pipeline.prefix))
    orders.chmod(0o600)
    environment = {
        **clock.environment,
        "INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic,
        "INDOUBT_TRANSACTION_SOURCE": source,
    }
    arguments = ["--standing-orders", str(orders)]
    with running(broker.bootstrap_servers, tmp_path / "data", arguments, environment) as collector:
        handle = pipeline.prepare(b"decided")
        pipeline.decide(handle)
        way = "ahead of" if ahead_s > 0 else "behind"
        off = f"this machine's clock is 2 min 00 s {way} the clock of broker "
        wait_until("the observer says so", lambda: off in collector.observer("clocks")["error"], LIMIT_S)
        assert "2 min 00 s" in command(collector, "status").out
        assert abs(collector.get("status")["now_ms"] - time.time_ns() // 1_000_000) < NEAR_MS
        alert = wait_until("alert A16", lambda: firing(collector, "A16"), LIMIT_S)
        assert off in alert["summary"]
        held = wait_until("held back", lambda: str(collector.rows("standing-orders")[0]["why"] or ""), LIMIT_S)
        assert off in held
        row = collector.wait_for(handle.transaction, verdict="commit it")
        left_ms = row["deadline_ms"] - collector.get("status")["now_ms"]
        assert 200_000 < left_ms <= 300_000, "by the brokers' clock"
        clock.is_ahead_by(0)
        # Its verdict may have changed as the clock was measured: then it is held back for another minute.
        wait_until("it is committed", lambda: committed(collector, handle.transaction), 90.0)
        wait_until("alert A16 is over", lambda: not firing(collector, "A16"), 60.0)
        assert collector.observer("clocks")["error"] == ""


def firing(collector: CollectorProcess, rule: str) -> dict[str, Any] | None:
    found = (row for row in collector.rows("alerts") if row["rule"] == rule and row["state"] == "firing")
    return next(found, None)
