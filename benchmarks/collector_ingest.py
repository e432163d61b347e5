"""Claim: the collector reads at least half as fast as a bare consumer, and never less than 100,000 events a second.

    python -m benchmarks.collector_ingest [--transactions 500000] [--batches 20000] [--ids 1000] [--rounds 3] [--json]

It starts its own broker, and writes four states of each transaction into ``__transaction_state`` and 34 events of each batch
into the lifecycle topic. Then two readers read each topic in turn, each in its own process: a bare confluent-kafka consumer
that counts records, and a real collector with an empty history, until every record is folded and committed to disk. The time
is from the first record to the last. The history must then contain every record once, or the run fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import coordinator_log, machine
from benchmarks.coordinator_log import STATE_TOPIC
from benchmarks.figures import row
from benchmarks.running_collector import ROOT, RunningCollector
from benchmarks.topics import make_topic
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

LIFECYCLE_TOPIC = "transaction_lifecycle"
LIMIT_S = 300.0
BATCH = 10_000
POLL_PAUSE_S = 0.05
COUNTED = {
    STATE_TOPIC: 'select count(*), count(distinct (partition, "offset")) from transaction_records where source = ?',
    LIFECYCLE_TOPIC: 'select count(*), count(distinct (partition, "offset")) from lifecycle_events where source = ?',
}
# The collector reads only the measured topic.
ENVIRONMENTS = {
    STATE_TOPIC: {"INDOUBT_TRANSACTION_SOURCE": "log", "INDOUBT_LIFECYCLE_TOPIC": "not_there"},
    LIFECYCLE_TOPIC: {"INDOUBT_TRANSACTION_SOURCE": "polling", "INDOUBT_TRANSACTION_POLLING_MS": "600000"},
}


def consume(bootstrap_servers: str, topic: str) -> float:
    """Read a topic to its end and count; return the seconds from the first record to the last."""
    settings = {"group.id": "bare", "enable.auto.commit": False, "enable.partition.eof": True}
    settings |= {"isolation.level": "read_uncommitted", "auto.offset.reset": "error"}
    consumer = Consumer(KafkaConnection(bootstrap_servers).for_librdkafka(**settings))
    partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    ended, first_s, last_s = 0, 0.0, 0.0
    while ended < len(partitions):
        messages = consumer.consume(BATCH, 1.0)
        first_s = first_s or (time.monotonic() if messages else 0.0)
        last_s = time.monotonic()
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ended += 1
    consumer.close()
    return last_s - first_s


def bare_rate(bootstrap_servers: str, topic: str, records: int) -> float:
    """Return records/s of a bare consumer in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.collector_ingest", "--consume", bootstrap_servers, topic]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return records / float(done.stdout)


def collector_rate(bootstrap_servers: str, topic: str, records: int, directory: Path) -> float:
    """Return the records/s that a collector folds and stores. Raises AssertionError unless history has each record once."""
    with RunningCollector(bootstrap_servers, directory, ENVIRONMENTS[topic]) as collector:
        first: tuple[float, int] | None = None
        deadline = time.monotonic() + LIMIT_S
        while True:
            status, at_s = collector.get("status"), time.monotonic()
            seen = int(status["events"])
            if first is None and seen > 0:
                first = (at_s, seen)
            if seen >= records and status["history"]["waiting"] == 0:
                break
            if at_s > deadline:
                raise AssertionError(
                    f"the collector read only {seen:,} of {records:,} records of {topic} within {LIMIT_S:.0f} s"
                )
            time.sleep(POLL_PAUSE_S)
    assert first is not None
    with duckdb.connect(str(directory / "history.duckdb"), read_only=True) as history:
        counted = history.execute(COUNTED[topic], [topic]).fetchone()
    if counted != (records, records):
        raise AssertionError(
            f"the history of {topic} has {counted} (rows, different positions) instead of {records} each"
        )
    return (records - first[1]) / (at_s - first[0])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--consume", nargs=2, metavar=("BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.consume:
        print(consume(*arguments.consume))
        return 0
    print(machine.describe())
    rates: dict[str, dict[str, list[float]]] = {topic: {"consumer": [], "collector": []} for topic in COUNTED}
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        connection, servers = KafkaConnection(broker.bootstrap_servers), broker.bootstrap_servers
        coordinator_log.make_state_topic(connection)
        make_topic(connection, LIFECYCLE_TOPIC)
        states = coordinator_log.states(arguments.transactions, arguments.ids)
        records = {STATE_TOPIC: coordinator_log.fill(connection, STATE_TOPIC, states)}
        records[LIFECYCLE_TOPIC] = coordinator_log.fill(
            connection, LIFECYCLE_TOPIC, coordinator_log.events(arguments.batches)
        )
        machine.settle()
        for number in range(arguments.rounds):
            for topic, size in records.items():
                rates[topic]["consumer"].append(bare_rate(servers, topic, size))
                history = Path(directory) / f"collector-{topic}-{number}"
                rates[topic]["collector"].append(collector_rate(servers, topic, size, history))
    print(row("records/s", "consumer", "collector", "ratio"))
    answer: dict[str, object] = {}
    times = {"consumer": 0.0, "collector": 0.0}
    for topic, found in rates.items():
        bare, ours = (statistics.median(found[side]) for side in ("consumer", "collector"))
        print(row(topic, f"{bare:,.0f}", f"{ours:,.0f}", f"{ours / bare:.2f}"))
        answer[topic] = {
            "collector_events_per_s": round(ours),
            "consumer_events_per_s": round(bare),
            "ratio": round(ours / bare, 3),
        }
        times["consumer"] += records[topic] / bare
        times["collector"] += records[topic] / ours
    if arguments.json:
        total = sum(records.values())
        both = {f"{side}_events_per_s": round(total / took_s) for side, took_s in times.items()}
        ratio = times["consumer"] / times["collector"]
        print(json.dumps({**both, "ratio": round(ratio, 3), "topics": answer, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
