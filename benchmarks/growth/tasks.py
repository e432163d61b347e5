"""Records/s of the exactly-once sink by number of tasks and by size of a record.

The same bytes pass once for each size, in eight micro-batches, from a topic with as many partitions as tasks. The rate is the
steady one (benchmarks/figures.py), the processor time is that of the same window, and the commit is timed as in
benchmarks/scale.py. An independent read_committed reader counts the sink.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.figures import whole_rate
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.scale import BATCHES, LIFECYCLE, commit_times, completed, read_events
from benchmarks.spark_run import SparkRun, marks
from benchmarks.throughput import BROKER, BROKER_SETTINGS, JAVA, PYTHON, Results
from benchmarks.topics import count_committed, delete_topic, fill, make_topic
from demo.broker import Broker
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

MEGABYTES = {"tasks": 400, "record_bytes": 1_000}
"""Larger records pass faster: less of them would end before there is a steady rate."""
COPIES = 3
"""Source, sink, and a sink that is being deleted."""
STEPS = {
    "latestOffset": "latest offset",
    "addBatch": "add batch",
    "walCommit": "offset log",
    "commitOffsets": "commit log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What passes through the sink once."""

    tasks: int
    record_bytes: int
    megabytes: int

    @property
    def records(self) -> int:
        """Return the number of records."""
        return self.megabytes * 1_000_000 // self.record_bytes


def run(broker: Broker, work: Path, load: Load, size: int) -> Point:
    """Fill a topic, copy it through the sink in a process of its own, count what is visible."""
    connection = KafkaConnection(broker.bootstrap_servers)
    name = f"tasks-{load.tasks}-{load.record_bytes}"
    source, sink = f"source-{name}", f"sink-{name}"
    make_topic(connection, source, load.tasks)
    make_topic(connection, sink)
    fill(connection, source, load.records, load.record_bytes)
    machine.settle()
    spark = SparkRun(
        side=DeliveryGuarantee.EXACTLY_ONCE.value,
        bootstrap_servers=connection.bootstrap_servers,
        source=source,
        sink=sink,
        checkpoint=str(work / name),
        batch_records=-(-load.records // BATCHES),
        prefix=name,
        tasks=load.tasks,
        task_records=1,
    )
    ran = spark.run({BROKER: broker.pid or 0})
    count_committed(connection, sink, load.records, load.record_bytes).require(load.records, name)
    delete_topic(connection, source)
    delete_topic(connection, sink)
    results, seen = Results(), marks(ran.batches)
    started_s = ran.batches[0].started_s
    results.add(started_s, whole_rate(started_s, seen), seen, ran.cpu)
    log = DecisionLog(connection)
    decisions = [decision for _, decision in log.read_to_end().commit_decisions(name)]
    log.close()
    commits = commit_times(decisions, completed(read_events(connection), name))
    rate, used = results.steady[0], results.cpu_s[0]
    processor_s = sum(used.get(kind, 0.0) for kind in (BROKER, JAVA, PYTHON))
    figures = {
        "records/s": rate,
        "MB/s": rate * load.record_bytes / 1e6,
        "cpu s / GB": processor_s * 1_000 / load.record_bytes,
        **{f"{kind} s / GB": used.get(kind, 0.0) * 1_000 / load.record_bytes for kind in (BROKER, JAVA, PYTHON)},
        "commit ms": statistics.median(commit.whole_ms for commit in commits),
    }
    steps = {
        f"{shown} ms": statistics.median(b.durations_ms.get(step, 0) for b in ran.batches)
        for step, shown in STEPS.items()
    }
    return Point(size=size, figures=figures, parts=steps)


def _loads(curve: str, sizes: Sequence[int], options: Options) -> Iterator[tuple[int, Load]]:
    for size in sizes:
        tasks, record_bytes = (size, options.record_bytes) if curve == "tasks" else (options.tasks, size)
        megabytes = options.megabytes or MEGABYTES[curve]
        yield size, Load(tasks=tasks, record_bytes=record_bytes, megabytes=megabytes)


def _measure(curve: str, work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    with Broker(work / "broker", settings=BROKER_SETTINGS) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        DecisionLog(connection).ensure_topic()
        make_topic(connection, LIFECYCLE)
        for size, load in _loads(curve, sizes, options):
            yield run(broker, work, load, size)


def _curve(name: str, title: str, sizes: tuple[int, ...]) -> Curve:
    return Curve(
        name=name,
        title=title,
        sizes=sizes,
        cost="cpu s / GB",
        columns={
            "records/s": ",.0f",
            "MB/s": ",.0f",
            "cpu s / GB": ".1f",
            **{f"{kind} s / GB": ".1f" for kind in (BROKER, JAVA, PYTHON)},
            "commit ms": ",.0f",
        },
        parts="a micro-batch",
        measure=lambda work, sizes, options: _measure(name, work, sizes, options),
        disk_bytes=lambda _, options: COPIES * (options.megabytes or MEGABYTES[name]) * 1_200_000,
    )


TASKS = _curve("tasks", "the exactly-once sink by tasks (--record-bytes)", (1, 2, 4, 16, 64))
RECORD_BYTES = _curve("record_bytes", "the exactly-once sink by bytes of a record (--tasks)", (100, 1_000, 10_000))
