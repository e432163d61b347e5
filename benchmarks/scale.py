"""Claim: each additional task makes a commit less than 1 ms longer.

    python -m benchmarks.scale [--tasks 1,2,4,16,64] [--records 4000000] [--rounds 3] [--json]

The same records pass through indoubt's sink, exactly once, from topics with different numbers of partitions; each partition
is a task and so a transaction. The runs alternate, each in a fresh process. Commit time is from the last task's prepare to the
checkpoint's completion: collecting the handles, check, decision and EndTxn of all. It comes from the handles in the decision
log and from the lifecycle events, as the median of all batches except the first. An independent read_committed reader counts
every run's sink.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import machine
from benchmarks.figures import row, slope, steady_rate
from benchmarks.spark_run import SparkRun, marks
from benchmarks.topics import PARTITIONS, VALUE_BYTES, count_committed, delete_topic, fill, make_topic
from demo.broker import Broker
from demo.prerequisites import java_home
from indoubt.lifecycle.decisions import Decision
from indoubt.lifecycle.events import EventType, LifecycleEvent, decode
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

LIFECYCLE = "transaction_lifecycle"
BATCHES = 8
READ_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTime:
    """A batch: ms from the last task's prepared transaction to the decision, and from there to the completed checkpoint."""

    to_decision_ms: float
    to_completed_ms: float

    @property
    def whole_ms(self) -> float:
        """Return the time of the whole commit."""
        return self.to_decision_ms + self.to_completed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with a number of tasks."""

    rate: float
    commits: list[CommitTime]


def commit_times(decisions: Sequence[Decision], completed_ms: Mapping[int, int]) -> list[CommitTime]:
    """Return the commit time of each decided batch except the first, whose clients are new; ``completed_ms`` by batch.

    Times are epoch ms of one machine. Events may be lost: a batch without its event is left out.
    """
    found = []
    for decision in decisions[1:]:
        ended_ms = completed_ms.get(decision.batch_attempt.batch)
        if ended_ms is None or not decision.handles:
            continue
        prepared_ms = max(handle.prepared_at_ms for handle in decision.handles)
        found.append(CommitTime(to_decision_ms=decision.at_ms - prepared_ms, to_completed_ms=ended_ms - decision.at_ms))
    return found


def completed(events: Sequence[LifecycleEvent], prefix: str) -> dict[int, int]:
    """Return when each checkpoint of the pipeline was completed (epoch ms), by batch."""
    return {
        int(event.data["batch"]): event.at_ms
        for event in events
        if event.type is EventType.CHECKPOINT_COMPLETED and event.data.get("pipeline") == prefix
    }


def read_events(connection: KafkaConnection) -> list[LifecycleEvent]:
    """Return every lifecycle event so far. Raises KafkaException."""
    settings = {"group.id": "scale", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer(connection.for_librdkafka(**settings))
    consumer.assign([TopicPartition(LIFECYCLE, partition, 0) for partition in range(PARTITIONS)])
    found: list[LifecycleEvent] = []
    ended = 0
    deadline = time.monotonic() + READ_LIMIT_S
    while ended < PARTITIONS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the reader did not reach the end of {LIFECYCLE} in {READ_LIMIT_S:.0f} s")
        # consume waits for the whole number of records or its timeout, so its timeout is short.
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                found.append(decode(message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise KafkaException(error)
    consumer.close()
    return found


def measure(connection: KafkaConnection, work: Path, tasks: int, records: int, number: int) -> Run:
    """Run once with this number of tasks."""
    machine.settle()
    name = f"scale-{tasks}-{number}"
    sink = f"sink-{name}"
    make_topic(connection, sink)
    batches = (
        SparkRun(
            side=DeliveryGuarantee.EXACTLY_ONCE.value,
            bootstrap_servers=connection.bootstrap_servers,
            source=f"scale_source_{tasks}",
            sink=sink,
            checkpoint=str(work / name),
            batch_records=-(-records // BATCHES),
            prefix=name,
            tasks=tasks,
            task_records=1,
        )
        .run()
        .batches
    )
    count_committed(connection, sink, records).require(records, name)
    delete_topic(connection, sink)
    log = DecisionLog(connection)
    decisions = [decision for _, decision in log.read_to_end().commit_decisions(name)]
    log.close()
    return Run(
        rate=steady_rate(marks(batches)),
        commits=commit_times(decisions, completed(read_events(connection), name)),
    )


def report(runs: Mapping[int, Sequence[Run]], records: int, rounds: int) -> dict[str, object]:
    """Print the table; return the figures for --json."""
    print(f"{records:,} records of {VALUE_BYTES} bytes in batches of {records // BATCHES:,}, {rounds} rounds in turns:")
    print(row("tasks", "records/s", "commit", "to decision", "to completed", "worst", first=8))
    points: list[tuple[float, float]] = []
    rates: dict[str, int] = {}
    for tasks, runs_of_size in runs.items():
        commits = [commit for run in runs_of_size for commit in run.commits]
        rate = statistics.median(run.rate for run in runs_of_size)
        whole = statistics.median(commit.whole_ms for commit in commits)
        points.append((tasks, whole))
        rates[str(tasks)] = round(rate)
        parts = (
            statistics.median(commit.to_decision_ms for commit in commits),
            statistics.median(commit.to_completed_ms for commit in commits),
            max(commit.whole_ms for commit in commits),
        )
        print(row(str(tasks), f"{rate:,.0f}", *(f"{part:,.0f} ms" for part in (whole, *parts)), first=8))
    more = slope(points) if len(points) > 1 else 0.0
    print(f"each additional task makes the commit {more:.2f} ms longer")
    print(machine.describe())
    commit_ms = {str(tasks): whole for tasks, whole in points}
    return {"records_per_s": rates, "commit_ms": commit_ms, "commit_ms_per_task": round(more, 3)}


def main() -> int:
    """Run the rounds in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="1,2,4,16,64", help="numbers of tasks")
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = java_home()
    numbers = [int(tasks) for tasks in arguments.tasks.split(",")]
    runs: dict[int, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work:
        machine.require_room(Path(work), arguments.records * VALUE_BYTES, len(numbers) + 2)
        with Broker(Path(work) / "broker", settings={"log.segment.delete.delay.ms": "1000"}) as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            DecisionLog(connection).ensure_topic()
            make_topic(connection, LIFECYCLE)
            for tasks in numbers:
                make_topic(connection, f"scale_source_{tasks}", tasks)
                fill(connection, f"scale_source_{tasks}", arguments.records)
            for number in range(arguments.rounds):
                for tasks in numbers:
                    run = measure(connection, Path(work), tasks, arguments.records, number)
                    runs[tasks].append(run)
                    whole = statistics.median(commit.whole_ms for commit in run.commits)
                    print(f"round {number}: {tasks} tasks: {run.rate:,.0f}/s, commit {whole:,.0f} ms", file=sys.stderr)
    figures = report(runs, arguments.records, arguments.rounds)
    if arguments.json:
        print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
