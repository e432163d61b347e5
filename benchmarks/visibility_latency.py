"""How long after a record was produced a read_committed reader of the sink sees it, compared with Flink at the same interval.

    python -m benchmarks.visibility_latency [--flink DIR] [--intervals 1000,5000] [--seconds 30] [--rounds 3] [--json]
        [--also spark-master=local[2]]

A steady 10,000 records/s of 100 bytes go into 4 partitions. An indoubt pipeline (``indoubt pipeline run``, passthrough,
exactly once) with a trigger of 1 s and of 5 s, the same pipeline with the setting of each --also, and Flink's KafkaSink
EXACTLY_ONCE with the same checkpoint interval, run in turn. Every record's latency counts from 10 s after the first record on.
The reader also counts: each record must be there once.
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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks import flink, machine
from benchmarks.figures import percentile, row
from benchmarks.steady_load import SteadyLoad
from benchmarks.topics import PARTITIONS, VALUE_BYTES, Counted, delete_topic, make_topic
from demo.broker import Broker
from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

ROOT = Path(__file__).resolve().parent.parent
OURS, FLINK = "ours", "flink"
FIGURES = ("p50_ms", "p99_ms")
RATE = 10_000
WARM_S = 10
"""The same warm-up as flink.sh."""
START_LIMIT_S = 120.0
END_LIMIT_S = 60.0
PAUSE_S = 0.2
CHUNK = 5_000


@dataclass(slots=True)
class Reader:
    """A read_committed reader of a topic that keeps the time of each record; times in microseconds since the epoch."""

    connection: KafkaConnection
    topic: str
    stamps: list[np.ndarray] = field(default_factory=list)
    latencies_us: list[np.ndarray] = field(default_factory=list)
    serials: list[np.ndarray] = field(default_factory=list)
    records: int = 0

    def read_until(self, load: SteadyLoad) -> None:
        """Read until every record of the load was seen. Raises TimeoutError if that takes too long."""
        settings = {"group.id": "latency", "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer(self.connection.for_librdkafka(**settings, **{"fetch.wait.max.ms": 20}))
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        ended_s: float | None = None
        while load.produced is None or self.records < load.produced:
            if load.produced is not None:
                ended_s = ended_s or time.monotonic()
                if time.monotonic() - ended_s > END_LIMIT_S:
                    raise TimeoutError(
                        f"{self.records:,} of {load.produced:,} records were visible {END_LIMIT_S:.0f} s after the last"
                    )
            self._note(consumer)
        consumer.close()

    def _note(self, consumer: Consumer) -> None:
        messages = consumer.consume(CHUNK, 0.02)
        seen_us = time.time_ns() // 1000
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        values = b"".join(message.value() for message in messages)
        stamped = np.frombuffer(values, np.uint8).reshape(-1, VALUE_BYTES)[:, :16].copy().view(">i8")
        if len(stamped):
            self.stamps.append(stamped[:, 0])
            self.latencies_us.append(seen_us - stamped[:, 0])
            self.serials.append(stamped[:, 1])
            self.records += len(stamped)

    def counted(self) -> Counted:
        """Return how many records were seen, and how many different records."""
        return Counted(records=self.records, distinct=len(np.unique(np.concatenate(self.serials))))

    def latencies_ms(self, warm_s: float, seconds: float) -> list[float]:
        """Return the latencies of the records produced between ``warm_s`` and ``warm_s + seconds`` after the first one."""
        stamps = np.concatenate(self.stamps)
        since_s = (stamps - stamps.min()) / 1e6
        inside = (since_s >= warm_s) & (since_s <= warm_s + seconds)
        return [float(value) / 1000 for value in np.concatenate(self.latencies_us)[inside]]


@contextmanager
def pipeline(
    connection: KafkaConnection, work: Path, name: str, source: str, sink: str, interval_ms: int, also: str
) -> Iterator[None]:
    """Run the pipeline, and return when its first batch is committed. Raises RuntimeError with the end of its log."""
    status, log = work / f"{name}.json", work / f"{name}.log"
    settings = {
        "job": "passthrough",
        "bootstrap-servers": connection.bootstrap_servers,
        "checkpoint": work / name,
        "prefix": name,
        "source": source,
        "sink": sink,
        "trigger-interval-ms": interval_ms,
        "status-file": status,
    }
    command = [sys.executable, "-m", "indoubt.pipeline", "run"]
    command += [part for key, value in settings.items() for part in (f"--{key}", str(value))]
    command += [f"--{also}"] if also else []
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, preexec_fn=die_with_parent)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not list((work / name / "commits").glob("[0-9]*")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the pipeline committed no batch:\n{log.read_text(errors='replace')[-3000:]}")
                time.sleep(PAUSE_S)
            yield
        finally:
            process.terminate()
            process.wait(START_LIMIT_S)


def ours(
    connection: KafkaConnection, work: Path, interval_ms: int, seconds: int, name: str, also: str
) -> dict[str, float]:
    """Return p50_ms and p99_ms of the pipeline, with one more setting (name=value) unless ``also`` is empty.

    Raises AssertionError if a record is missing or duplicated.
    """
    source, sink = f"source-{name}", f"sink-{name}"
    make_topic(connection, source)
    make_topic(connection, sink)
    with pipeline(connection, work, name, source, sink, interval_ms, also):
        load = SteadyLoad(connection, source, RATE, WARM_S + seconds + 2)
        reader = Reader(connection, sink)
        try:
            reader.read_until(load)
        finally:
            load.stop()
    assert load.produced is not None
    reader.counted().require(load.produced, "ours")
    latencies = reader.latencies_ms(WARM_S, seconds)
    delete_topic(connection, source)
    delete_topic(connection, sink)
    return {"p50_ms": percentile(latencies, 0.5), "p99_ms": percentile(latencies, 0.99), "n": len(latencies)}


def _medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(figures[name] for figures in rounds), 1) for name in FIGURES}


def main() -> int:
    """Run the rounds in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", default="1000,5000", help="trigger and checkpoint intervals in ms")
    parser.add_argument("--seconds", type=int, default=30, help="length of the measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flink", type=Path, metavar="DIR", help="directory of flink.sh")
    parser.add_argument("--also", action="append", default=[], metavar="SETTING=VALUE", help="a side with this setting")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = java_home()
    intervals = [int(interval) for interval in arguments.intervals.split(",")]
    peer = flink.Flink(arguments.flink) if arguments.flink else None
    sides = [OURS, *arguments.also, *([FLINK] if peer is not None else [])]
    took: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work, Broker(Path(work) / "broker") as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        DecisionLog(connection).ensure_topic()
        make_topic(connection, "transaction_lifecycle")
        if peer is not None:
            peer.build(connection, "flink_build")
        for number in range(arguments.rounds):
            for interval_ms in intervals:
                for at, side in list(enumerate(sides))[:: 1 if number % 2 == 0 else -1]:
                    if side == FLINK:
                        assert peer is not None
                        figures = peer.latency(connection, flink.EXACTLY_ONCE, interval_ms, arguments.seconds)
                    else:
                        name, also = f"latency-{interval_ms}-{number}-{at}", "" if side == OURS else side
                        figures = ours(connection, Path(work), interval_ms, arguments.seconds, name, also)
                    took[side, interval_ms].append(figures)
                    print(
                        f"round {number}: {side}, {interval_ms} ms: p50 {figures['p50_ms']:,.0f} ms, "
                        f"p99 {figures['p99_ms']:,.0f} ms of {figures['n']:,.0f} records",
                        file=sys.stderr,
                    )
    print(f"produced -> seen by a read_committed reader at {RATE:,} records/s, median of {arguments.rounds} rounds:")
    print(row("interval", "side", "p50", "p99", "p50 / Flink", "p99 / Flink", width=24, first=10))
    answer: dict[str, dict[str, dict[str, float]]] = {}
    for interval_ms in intervals:
        medians = {side: _medians(took[side, interval_ms]) for side in sides}
        for side, figures in medians.items():
            ratios = [f"{figures[name] / medians[FLINK][name]:.2f}" if peer is not None else "-" for name in FIGURES]
            times = [f"{figures[name]:,.0f} ms" for name in FIGURES]
            print(row(f"{interval_ms} ms", side, *times, *ratios, width=24, first=10))
        answer[str(interval_ms)] = medians
    if peer is None:
        print(f"Flink: {flink.NOT_MEASURED}")
    print(machine.describe())
    if arguments.json:
        print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
