"""Claim: exactly once costs no throughput. ``passthrough`` with our sink and with Spark's own Kafka sink, in turns.

    python -m benchmarks.sink_throughput [--records 2000000] [--rounds 5] [--json]

Both read the same topic (4 partitions, keyed records of 100 bytes) on one broker, each in a Spark session of its own, for
in a shared JVM each sink's rounds undo what the compiler learned from the other's. One batch a round; the figure is
records / trigger execution time (planning, source, sink, check, decision and commit included), the median of the rounds
after three of warm-up. Every round's sink is counted by a read_committed consumer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from demo.broker import Broker
from demo.children import die_with_parent
from demo.prerequisites import java_home
from pipeline.driver import make_spark
from pipeline.jobs import passthrough, read_source
from pipeline.recovery import Recovery
from pipeline.settings import PipelineSettings
from pipeline.sink import TwoPhaseCommitSink
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection

PARTITIONS = 4
VALUE_BYTES = 100
SOURCE = "throughput_source"
OURS, SPARKS = "ours", "spark"
ANSWER = "records/s: "
ROUND_LIMIT_S = 300.0
WARM_UP = 3
"""Rounds that do not count: the JVM compiles hot code for that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything the rounds share."""

    spark: SparkSession
    connection: KafkaConnection
    work: Path
    records: int

    def settings(self, name: str) -> PipelineSettings:
        """Return the settings of one round: its own checkpoint, prefix and sink topic."""
        return PipelineSettings(
            job="passthrough",
            bootstrap_servers=self.connection.bootstrap_servers,
            checkpoint=str(self.work / name),
            prefix=name,
            source=SOURCE,
            sink=f"sink-{name}",
            max_offsets_per_trigger=self.records,
        )

    def exactly_once(self, name: str) -> float:
        """Run one round of our sink; return records/s."""
        settings = self.settings(name)
        recovery = Recovery(settings, self.connection)
        options = recovery.options(recovery.recover()).to_spark()
        return self._run(settings, TwoPhaseCommitSink.name(), options)

    def spark_sink(self, name: str) -> float:
        """Run one round of Spark's own Kafka sink, tuned as ours is; return records/s."""
        settings = self.settings(name)
        tuned = {
            "kafka.linger.ms": "100",
            "kafka.batch.size": str(1 << 20),
            "kafka.acks": "all",
            "topic": settings.sink,
        }
        return self._run(settings, "kafka", {**self.connection.for_spark(), **tuned})

    def _run(self, settings: PipelineSettings, sink: str, options: dict[str, str]) -> float:
        make_topic(self.connection, settings.sink)
        rows: DataFrame = passthrough(read_source(self.spark, settings, self.connection))
        query = (
            rows.writeStream.format(sink)
            .options(**options)
            .option("checkpointLocation", settings.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(int(ROUND_LIMIT_S)):
            raise TimeoutError(f"round {settings.prefix} did not end in {ROUND_LIMIT_S:.0f} s")
        batches = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
        took_ms = sum(progress["durationMs"]["triggerExecution"] for progress in batches)
        seen = count_committed(self.connection, settings.sink)
        if seen != self.records:
            raise AssertionError(f"{sink} in round {settings.prefix}: {seen} records visible, {self.records} expected")
        admin = AdminClient(self.connection.for_librdkafka())
        admin.delete_topics([settings.sink])[settings.sink].result(30)
        return self.records / took_ms * 1000


class Session:
    """A Spark session in a process of its own that runs rounds of one sink on request."""

    def __init__(self, sink: str, connection: KafkaConnection, work: str, records: int) -> None:
        command = [sys.executable, "-m", "benchmarks.sink_throughput", "--records", str(records), "--session", sink]
        self._process = subprocess.Popen(
            [*command, connection.bootstrap_servers, work],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def round(self, number: int) -> float:
        """Run one round; return records/s. Raises RuntimeError when the session ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        raise RuntimeError("a benchmark session ended; its error stands above")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def serve(sink: str, bootstrap_servers: str, work: str, *, records: int) -> int:
    """Run a round of ``sink`` for each line on standard input, answering with its records/s."""
    connection = KafkaConnection(bootstrap_servers)
    # Spark keeps the consumers of every round's query for minutes; with a small heap their buffers slow later rounds.
    settings = PipelineSettings(**_dummy(bootstrap_servers), spark_properties="spark.driver.memory=4g")
    bench = Bench(spark=make_spark(settings), connection=connection, work=Path(work), records=records)
    bench.spark.dataSource.register(TwoPhaseCommitSink)
    one_round = bench.exactly_once if sink == OURS else bench.spark_sink
    for line in sys.stdin:
        print(f"{ANSWER}{one_round(f'{sink}-{line.strip()}')}", flush=True)
    bench.spark.stop()
    return 0


def make_topic(connection: KafkaConnection, topic: str) -> None:
    """Create a topic of 4 partitions and wait until it is there."""
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def fill(connection: KafkaConnection, records: int) -> None:
    """Write the records: 8-byte keys, values of 100 bytes that begin with a serial number."""
    producer = Producer(
        connection.for_librdkafka(
            **{"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000, "acks": "all"}
        )
    )
    for start in range(0, records, 10_000):
        chunk = [
            {"key": b"%08d" % (n % 100_000), "value": b"%012d" % n + b"x" * (VALUE_BYTES - 12)}
            for n in range(start, min(start + 10_000, records))
        ]
        while chunk:
            taken = producer.produce_batch(SOURCE, chunk)
            chunk = chunk[taken:]
            producer.poll(0.1 if chunk else 0)
    if producer.flush(120):
        raise TimeoutError("the source topic could not be filled in 120 s")


def count_committed(connection: KafkaConnection, topic: str) -> int:
    """Return how many records a read_committed consumer sees in the whole topic."""
    settings = {"group.id": "count", "isolation.level": "read_committed", "enable.partition.eof": True}
    settings |= {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.queue.backoff.ms": 5}
    consumer = Consumer(connection.for_librdkafka(**settings))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen, ended, deadline = 0, 0, time.monotonic() + 120
    while ended < PARTITIONS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} was not read to its end in 120 s")
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                seen += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise RuntimeError(str(message.error()))
    consumer.close()
    return seen


def main() -> int:
    """Run the rounds in turns and print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--session", nargs=3, metavar=("SINK", "BOOTSTRAP", "WORK"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = java_home()
    if arguments.session:
        return serve(*arguments.session, records=arguments.records)
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work, Broker(Path(work) / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        make_topic(connection, SOURCE)
        DecisionLog(connection).ensure_topic()
        make_topic(connection, "transaction_lifecycle")
        print(f"filling {SOURCE} with {arguments.records:,} records …", file=sys.stderr)
        fill(connection, arguments.records)
        with (
            Session(OURS, connection, work, arguments.records) as a,
            Session(SPARKS, connection, work, arguments.records) as b,
        ):
            ours: list[float] = []
            theirs: list[float] = []
            for number in range(WARM_UP + arguments.rounds):
                x, y = a.round(number), b.round(number)
                note = " (warm-up)" if number < WARM_UP else ""
                print(f"round {number}: exactly_once {x:,.0f}/s, spark {y:,.0f}/s{note}", file=sys.stderr)
                if number >= WARM_UP:
                    ours.append(x)
                    theirs.append(y)
    exactly_once, spark = statistics.median(ours), statistics.median(theirs)
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    print(f"{arguments.records:,} records of {VALUE_BYTES} bytes, median of {arguments.rounds} rounds in turns:")
    print(f"  exactly_once (ours)        {exactly_once:>12,.0f} records/s")
    print(f"  at least once (Spark's)    {spark:>12,.0f} records/s")
    print(
        f"  ratio ours / Spark's       {exactly_once / spark:>12.2f}   (by round: {', '.join(f'{r:.2f}' for r in ratios)})"
    )
    if arguments.json:
        print(json.dumps({"exactly_once": round(exactly_once), "spark": round(spark)}))
    return 0


def _dummy(bootstrap_servers: str) -> dict[str, str]:
    named = {"job": "passthrough", "checkpoint": "unused", "prefix": "bench", "source": SOURCE, "sink": "unused"}
    return {**named, "bootstrap_servers": bootstrap_servers}


if __name__ == "__main__":
    sys.exit(main())
