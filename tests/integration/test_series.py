"""Series of a real collector that was down for a while: what it read later is there, and what nobody saw is a gap."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.collector.history.sql import KEEP_SOURCE_WATCHES
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess
from tests.integration.kafka_fixtures import make_sink, wait_until

pytestmark = pytest.mark.integration
AWAY_MS = 40 * 60_000
APPLICATION = "shop-while-away"


def commit(connection: KafkaConnection, topic: str, transaction: str) -> None:
    producer = Producer(connection.for_librdkafka(**{"transactional.id": transaction}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"row")
    producer.commit_transaction(LIMIT_S)


def series(collector: CollectorProcess) -> dict[str, Any] | None:
    """Return the series of the last hour, once something of the application was counted."""
    found: dict[str, Any] = collector.get(f"series?pipeline={APPLICATION}")
    return found if any(sum(filter(None, one["commits"])) for one in found["applications"]) else None


@pytest.mark.long
def test_a_collector_that_was_down_leaves_a_gap_and_no_zeros(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    sink = make_sink(connection)
    collector = CollectorProcess(broker.bootstrap_servers, tmp_path)
    try:
        collector.start()
        commit(connection, sink.topic, "shop-before-0-0")  # without any transaction there is no log to observe
        for source in ("partitions", "transaction log"):
            wait_until(f"{source} is observed", lambda name=source: collector.observer(name)["state"] == "up", LIMIT_S)
        assert collector.stop() == 0
        began_ms, ended_ms = _move_watches(tmp_path / "history.duckdb")
        commit(connection, sink.topic, f"{APPLICATION}-0-0")
        committed_ms = time.time_ns() // 1_000_000
        collector.start()
        found: dict[str, Any] = wait_until("it was counted", lambda: series(collector), LIMIT_S)
        (gap,) = [gap for gap in found["gaps"] if gap["source"] == "collector" and gap["from_ms"] >= began_ms]
        assert abs(gap["from_ms"] - ended_ms) < 1_000
        assert gap["text"].startswith("no data for 40 min")
        assert gap["text"].endswith(": the collector did not run")
        (application,) = found["applications"]
        away = [
            place
            for place in range(len(application["commits"]))
            if gap["from_ms"] <= found["from_ms"] + place * found["bucket_ms"]
            and found["from_ms"] + (place + 2) * found["bucket_ms"] <= min(gap["until_ms"], committed_ms)
        ]
        assert len(away) >= 30
        assert sum(filter(None, application["commits"])) == 1, "it was read from the coordinator's log afterwards"
        for values in ("commits", "aborts", "waiting", "hidden"):
            assert [application[values][place] for place in away] == [None] * len(away)
    finally:
        collector.kill()


def _move_watches(path: Path) -> tuple[int, int]:
    """Put the collector's first run forty minutes back, as if it had been down since; return when it began and ended."""
    with duckdb.connect(str(path)) as history:
        rows = history.execute("select source, from_ms, until_ms from source_watches").fetchall()
        assert {source for source, _, _ in rows} >= {"collector", "partitions", "transaction log"}
        now_ms = time.time_ns() // 1_000_000
        end_ms = now_ms - AWAY_MS
        last_ms = max(until_ms for _, _, until_ms in rows)
        moved = [(source, begin - last_ms + end_ms, end - last_ms + end_ms) for source, begin, end in rows]
        history.execute("delete from source_watches")
        history.execute(KEEP_SOURCE_WATCHES, [list(column) for column in zip(*moved, strict=True)])
        return min(begin for _, begin, _ in moved), end_ms
