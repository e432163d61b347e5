"""Claim: record batches made from Arrow's columns cost less than librdkafka. Both write the same rows in turns.

    python -m benchmarks.kafka_producers [--records 2000000] [--rounds 3] [--json]

Each round writes one transaction of each producer (begin, rows in Arrow batches of 10,000 as Spark hands them over, prepare,
commit) into a topic of 4 partitions on a real broker, for each kind of rows: without keys, with keys, with keys of many
lengths, and compressed by lz4. The first round of each does not count. It prints records/s from the first row to prepared, the
processor seconds of this process and of the broker per million records, and the median of the rounds' ratios. An independent
read_committed reader counts each topic.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import machine
from benchmarks.cpu import read_processes
from benchmarks.figures import median_ratio, row
from benchmarks.topics import VALUE_BYTES, count_committed, delete_topic, make_topic, value_of
from demo.broker import Broker
from demo.prerequisites import java_home
from lifecycle.identity import Marker
from lifecycle.outcomes import Committed
from resource_managers.fingerprint import RunningFingerprint
from resource_managers.kafka.connection import ARROW, LIBRDKAFKA, PRODUCERS, KafkaConnection
from resource_managers.kafka.resource_manager import KafkaResourceManager
from resource_managers.protocol import SlotAttempt
from resource_managers.topics.decision_log import DecisionLog

BATCH_ROWS = 10_000
COMMIT_LIMIT_S = 60.0
COPIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Rows of one kind: ``make`` takes the first row's number and how many, and returns them."""

    name: str
    make: Callable[[int, int], pa.RecordBatch]
    properties: dict[str, str] = field(default_factory=dict)


def _values(start: int, count: int) -> pa.Array:
    return pa.array([value_of(number, 0) for number in range(start, start + count)], pa.binary())


def plain(start: int, count: int) -> pa.RecordBatch:
    """Return rows without keys."""
    return pa.record_batch({"value": _values(start, count)})


def keyed(start: int, count: int) -> pa.RecordBatch:
    """Return rows with keys of 8 bytes, a million different ones."""
    keys = [b"%08d" % (number * 7919 % 1_000_000) for number in range(start, start + count)]
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": _values(start, count)})


def uneven(start: int, count: int) -> pa.RecordBatch:
    """Return rows with keys of 1 to 40 bytes."""
    sizes = np.random.default_rng(start).integers(1, 41, count)
    keys = [b"%d" % number * 8 for number in range(start, start + count)]
    cut = [key[:size] for key, size in zip(keys, sizes, strict=True)]
    return pa.record_batch({"key": pa.array(cut, pa.binary()), "value": _values(start, count)})


KINDS = (
    Kind(name="no keys", make=plain),
    Kind(name="keys", make=keyed),
    Kind(name="uneven keys", make=uneven),
    Kind(name="lz4", make=plain, properties={"compression.type": "lz4"}),
)


@dataclass(slots=True)
class Results:
    """All rounds of one producer and kind, in order: records/s, and processor seconds per million records."""

    rate: list[float] = field(default_factory=list)
    own_s: list[float] = field(default_factory=list)
    broker_s: list[float] = field(default_factory=list)


def run(
    connection: KafkaConnection, kind: Kind, producer: str, batches: list[pa.RecordBatch], broker_pid: int
) -> Results:
    """Write the rows in a transaction of its own and commit it; return one round's figures."""
    topic = f"rows-{time.monotonic_ns()}"
    make_topic(connection, topic)
    machine.settle()
    manager = KafkaResourceManager(
        connection, topic=topic, producer=producer, producer_properties=kind.properties, transaction_timeout_ms=300_000
    )
    marker = Marker(batch=0, attempt=1, checkpoint_id="bench")
    transaction = manager.begin(SlotAttempt(prefix=topic, slot=0, marker=marker))
    broker_s, own_s, started_s = read_processes()[broker_pid].used_s, time.process_time(), time.monotonic()
    for batch in batches:
        transaction.write(batch)
    handle = transaction.prepare(RunningFingerprint().value)
    took_s, own_s = time.monotonic() - started_s, time.process_time() - own_s
    broker_s = read_processes()[broker_pid].used_s - broker_s
    (outcome,) = manager.commit([handle], [marker], COMMIT_LIMIT_S)
    if not isinstance(outcome, Committed):
        raise RuntimeError(f"{producer}: not committed: {outcome}")
    records = sum(batch.num_rows for batch in batches)
    count_committed(connection, topic, records).require(records, producer)
    delete_topic(connection, topic)
    return Results([records / took_s], [own_s / records * 1e6], [broker_s / records * 1e6])


def report(results: dict[str, dict[str, Results]]) -> dict[str, dict[str, float]]:
    """Print the table; return the ratios by kind: ``rate`` above 1 and ``own`` below 1 speak for arrow."""
    print(row("", "records/s", "own s/million", "broker s/million"))
    ratios = {}
    for kind, by_producer in results.items():
        for producer, found in by_producer.items():
            figures = (statistics.median(values) for values in (found.own_s, found.broker_s))
            print(
                row(
                    f"{kind}, {producer}",
                    f"{statistics.median(found.rate):,.0f}",
                    *(f"{value:.2f}" for value in figures),
                )
            )
        arrow, other = by_producer[ARROW], by_producer[LIBRDKAFKA]
        ratios[kind] = {
            "rate": round(median_ratio(arrow.rate, other.rate), 3),
            "own": round(median_ratio(arrow.own_s, other.own_s), 3),
        }
        print(row(f"{kind}, arrow / librdkafka", f"{ratios[kind]['rate']:.2f}", f"{ratios[kind]['own']:.2f}"))
    print(machine.describe())
    return ratios


def main() -> int:
    """Run the rounds in turns and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = java_home()
    results: dict[str, dict[str, Results]] = {kind.name: {p: Results() for p in PRODUCERS} for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work:
        machine.require_room(Path(work), arguments.records * VALUE_BYTES, COPIES)
        with Broker(Path(work) / "broker") as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            DecisionLog(connection).ensure_topic()
            for kind in KINDS:
                starts = range(0, arguments.records, BATCH_ROWS)
                batches = [kind.make(start, min(BATCH_ROWS, arguments.records - start)) for start in starts]
                for number in range(-1, arguments.rounds):
                    for producer in PRODUCERS if number % 2 else reversed(PRODUCERS):
                        found = run(connection, kind, producer, batches, broker.pid or 0)
                        print(f"{kind.name}, {producer}: {found.rate[0]:,.0f}/s", file=sys.stderr)
                        if number >= 0:
                            kept = results[kind.name][producer]
                            kept.rate += found.rate
                            kept.own_s += found.own_s
                            kept.broker_s += found.broker_s
    ratios = report(results)
    if arguments.json:
        print(json.dumps(ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
