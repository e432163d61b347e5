"""How the throughput of a job is compared: several sinks on one broker, in turns, each with the same records.

Each run is a fresh process over all records; each round runs every side once and starts with a different side. The rounds of
--warm-up do not count: brokers run for weeks, but this broker has just started and would compile its code during the
measurement. Spark's sides run micro-batches of --batch-records, an eighth of all records; Flink has a checkpoint every 5 s.

The figure is the steady rate: between the first commit (batch end) after 15 % of the records and the last one before 90 %,
so neither a side's start-up counts, nor Flink's wait for its last checkpoint. The table also has the rate of the whole run,
from the first source record to the last visible one. An independent read_committed reader checks every round's sink.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import flink, machine
from benchmarks.cpu import Sample, used_between
from benchmarks.figures import Mark, median_ratio, row, steady_rate, steady_window, whole_rate
from benchmarks.spark_run import NULL, SPARK, Batch, Ran, SparkRun, marks
from benchmarks.topics import delete_topic, make_topic
from demo.broker import Broker
from demo.prerequisites import java_home
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

SOURCE = "throughput_source"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
FLINK_EXACTLY_ONCE, FLINK_AT_LEAST_ONCE = "flink_exactly_once", "flink_at_least_once"
SIDES = (EXACTLY_ONCE, AT_LEAST_ONCE, SPARK, FLINK_EXACTLY_ONCE, FLINK_AT_LEAST_ONCE)
BOUND = NULL
"""Not a side but a bound: the time that Spark takes to bring rows to any Python sink."""
BY_NAME = (BOUND,)
"""Measured only when they are named."""
FLINK_GUARANTEES = {FLINK_EXACTLY_ONCE: flink.EXACTLY_ONCE, FLINK_AT_LEAST_ONCE: flink.AT_LEAST_ONCE}
NAMES = {
    EXACTLY_ONCE: "ours, exactly once",
    AT_LEAST_ONCE: "ours, at least once",
    SPARK: "Spark's own, at least once",
    FLINK_EXACTLY_ONCE: "Flink, exactly once",
    FLINK_AT_LEAST_ONCE: "Flink, at least once",
    BOUND: "a Python sink that drops all",
}
STEPS = {
    "latestOffset": "latest offset",
    "queryPlanning": "planning",
    "addBatch": "add batch",
    "walCommit": "offset log",
    "commitOffsets": "commit log",
    "triggerExecution": "all",
}
"""Spark's names for the parts of a micro-batch; the sink's tasks, check, decision and commit are in addBatch."""
BROKER_SETTINGS = {
    # The broker frees a deleted topic's disk space before the next side writes.
    "log.segment.delete.delay.ms": "1000",
    "log.segment.bytes": str(256 << 20),
}
BROKER, JAVA, PYTHON = "broker", "java", "python"
COPIES = 3
"""The source, a sink, and a sink that is being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job, and the records that it gets: filled into the source, and looked for in the sink (AssertionError)."""

    job: str
    flink_mode: str
    record_bytes: int
    fill: Callable[[KafkaConnection, str, int], None]
    require: Callable[[KafkaConnection, str, int, str], None]
    """Of the sink, for this many records; the last one says whose sink it is."""


@dataclass(slots=True)
class Results:
    """All rounds of one side, in order; ``batches`` of Spark's sides; ``cpu_s`` per million records, by process."""

    steady: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    cpu_s: list[dict[str, float]] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    """How long the first batch took, or Flink until its first commit."""
    batches: list[Batch] = field(default_factory=list)

    def add(self, started_s: float, whole: float, seen: Sequence[Mark], samples: Sequence[Sample]) -> None:
        """Keep a round that read its first record at ``started_s`` (epoch)."""
        first, last = steady_window(seen)
        self.whole.append(whole)
        self.first_s.append(seen[0].at_s - started_s)
        self.steady.append(steady_rate(seen))
        millions = (last.records - first.records) / 1e6
        used = used_between(samples, first.at_s, last.at_s)
        self.cpu_s.append({name: used_s / millions for name, used_s in used.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The data that all rounds share."""

    work: Work
    connection: KafkaConnection
    directory: Path
    records: int
    batch_records: int
    flink: flink.Flink | None
    broker_pid: int
    results: dict[str, Results] = field(default_factory=lambda: defaultdict(Results))

    def run_side(self, side: str, number: int) -> None:
        """Run a side once and keep its figures; a round below 0 warms the broker up and is not kept."""
        machine.settle()
        results = self.results[side] if number >= 0 else Results()
        if side in FLINK_GUARANTEES:
            assert self.flink is not None
            run = self.flink.throughput(
                self.connection,
                FLINK_GUARANTEES[side],
                SOURCE,
                self.records,
                {BROKER: self.broker_pid},
                mode=self.work.flink_mode,
            )
            results.add(run.marks[-1].at_s - self.records / run.whole, run.whole, run.marks, run.cpu)
        else:
            ran = self._spark(side, number)
            results.batches += ran.batches
            seen = marks(ran.batches)
            started_s = ran.batches[0].started_s
            results.add(started_s, whole_rate(started_s, seen), seen, ran.cpu)
        print(
            f"round {number}: {NAMES[side]}: {results.steady[-1]:,.0f}/s, whole run {results.whole[-1]:,.0f}/s",
            file=sys.stderr,
        )

    def _spark(self, side: str, number: int) -> Ran:
        name = f"{side}-{number}"
        sink = f"sink-{name}"
        if side != BOUND:
            make_topic(self.connection, sink)
        run = SparkRun(
            job=self.work.job,
            side=side,
            bootstrap_servers=self.connection.bootstrap_servers,
            source=SOURCE,
            sink=sink,
            checkpoint=str(self.directory / name),
            batch_records=self.batch_records,
            prefix=name,
        )
        ran = run.run({BROKER: self.broker_pid})
        if side != BOUND:
            self.work.require(self.connection, sink, self.records, NAMES[side])
            delete_topic(self.connection, sink)
        return ran


def report(work: Work, results: dict[str, Results], records: int, rounds: int) -> None:
    """Print the table: medians, ratios to our exactly_once where it was measured, and where Spark's batches spend their time."""
    print(
        f"{work.job}, {records:,} records, median of {rounds} rounds in turns, records/s (of the ratios: steady, whole run):"
    )
    print(row("", "steady", "whole run", "ours / this", "rounds", "first batch"))
    ours = results.get(EXACTLY_ONCE)
    for side in (*SIDES, *(side for side in BY_NAME if side in results)):
        if side not in results:
            print(row(NAMES[side], flink.NOT_MEASURED if side in FLINK_GUARANTEES else "not selected"))
            continue
        result = results[side]
        ratio = "-"
        if ours is not None:
            ratio = f"{median_ratio(ours.steady, result.steady):.2f}, {median_ratio(ours.whole, result.whole):.2f}"
        spread = f"{min(result.steady) / 1e3:,.0f}k-{max(result.steady) / 1e3:,.0f}k"
        figures = (f"{statistics.median(result.steady):,.0f}", f"{statistics.median(result.whole):,.0f}")
        print(row(NAMES[side], *figures, ratio, spread, f"{statistics.median(result.first_s):.1f} s"))
    print("processor seconds per million records in the steady window, median:")
    print(row("", "broker", "Java", "Python", "all", "cores busy"))
    for side, result in results.items():
        used = [statistics.median(cpu_s.get(kind, 0.0) for cpu_s in result.cpu_s) for kind in (BROKER, JAVA, PYTHON)]
        busy = sum(used) * statistics.median(result.steady) / 1e6
        print(row(NAMES[side], *(f"{value:.2f}" for value in (*used, sum(used), busy))))
    print("a micro-batch, median in ms by Spark's own report:")
    print(row("", *STEPS.values()))
    for side in (side for side in (EXACTLY_ONCE, AT_LEAST_ONCE, SPARK, *BY_NAME) if side in results):
        parts = [statistics.median(b.durations_ms.get(step, 0) for b in results[side].batches) for step in STEPS]
        print(row(NAMES[side], *(f"{part:,.0f}" for part in parts)))
    print(machine.describe())


def chosen(text: str, *, with_flink: bool) -> list[str]:
    """Return the sides to run, of names that are comma separated. Raises ValueError for an unknown name, or if none is left."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"there is no side {unknown[0]!r}; the sides are {', '.join(NAMES)}")
    found = [side for side in NAMES if side in names and (with_flink or side not in FLINK_GUARANTEES)]
    if not found:
        raise ValueError("no side is left to measure: Flink's need --flink")
    return found


def run(work: Work, description: str | None) -> int:
    """Read the command line, run the rounds in turns, print medians and ratios; return an exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--batch-records", type=int, help="records in a micro-batch of Spark (default: an eighth)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before that are not counted")
    parser.add_argument("--flink", type=Path, metavar="DIR", help="directory of flink.sh")
    parser.add_argument("--sides", default=",".join(SIDES), help="measure only these: " + ", ".join((*SIDES, *BY_NAME)))
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    try:
        sides = chosen(arguments.sides, with_flink=arguments.flink is not None)
    except ValueError as error:
        parser.error(str(error))
    os.environ["JAVA_HOME"] = java_home()
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as directory:
        machine.require_room(Path(directory), arguments.records * work.record_bytes, COPIES)
        with Broker(Path(directory) / "broker", settings=BROKER_SETTINGS) as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            DecisionLog(connection).ensure_topic()
            make_topic(connection, "transaction_lifecycle")
            make_topic(connection, SOURCE)
            bench = Bench(
                work=work,
                connection=connection,
                directory=Path(directory),
                records=arguments.records,
                batch_records=arguments.batch_records or -(-arguments.records // 8),
                flink=flink.Flink(arguments.flink) if arguments.flink else None,
                broker_pid=broker.pid or 0,
            )
            if bench.flink is not None:
                bench.flink.build(connection, "flink_build")
            print(f"filling {SOURCE} with {arguments.records:,} records …", file=sys.stderr)
            work.fill(connection, SOURCE, arguments.records)
            for number in range(-arguments.warm_up, arguments.rounds):
                first = number % len(sides)
                for side in sides[first:] + sides[:first]:
                    bench.run_side(side, number)
    report(work, bench.results, arguments.records, arguments.rounds)
    if arguments.json:
        medians = {
            side: round(statistics.median(bench.results[side].steady)) if side in bench.results else None
            for side in (*SIDES, *(side for side in BY_NAME if side in bench.results))
        }
        whole = {side: round(statistics.median(result.whole)) for side, result in bench.results.items()}
        print(json.dumps({**medians, "whole_run": whole}))
    return 0
