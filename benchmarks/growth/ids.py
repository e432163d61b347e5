"""An idle collector by transactional ids: each had one transaction, which is settled.

The states are written into ``__transaction_state`` past the coordinator, as benchmarks/coordinator_log.py does. The collector
reads them all, then rests. Memory with as many open transactions: benchmarks/collector_memory.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import coordinator_log
from benchmarks.coordinator_log import STATE_TOPIC
from benchmarks.growth import idle, transactions
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

READ_LIMIT_S = 300.0
ID_DISK_BYTES = 2_500
"""Four states in the broker's log and in the history."""


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Measure one collector for each size, each with a broker of its own."""
    for size in sizes:
        directory = work / str(size)
        with Broker(directory / "broker") as broker:
            connection = KafkaConnection(broker.bootstrap_servers)
            coordinator_log.make_state_topic(connection)
            records = coordinator_log.fill(connection, STATE_TOPIC, coordinator_log.states(size, size))
            started = time.monotonic()
            with idle.collector(broker.bootstrap_servers, directory / "collector") as collector:
                _wait_for(collector, records)
                read_s = time.monotonic() - started
                figures, threads = idle.at_rest(collector, broker.pid or 0, options)
                figures |= {"read s": read_s} | transactions.opened_to_api(connection, collector, options)
        yield Point(size=size, figures=figures, parts=threads)


def _wait_for(collector: RunningCollector, records: int) -> None:
    idle.wait_until(f"{records} records", lambda: int(collector.get("status")["events"]) >= records, READ_LIMIT_S)


CURVE = Curve(
    name="ids",
    title="an idle collector by transactional ids; fact: a transaction opens; read: start until all is read",
    sizes=(1_000, 10_000, 100_000, 1_000_000),
    cost=idle.COST,
    columns={**idle.COLUMNS, "read s": ".1f"},
    parts=idle.PARTS,
    measure=measure,
    disk_bytes=lambda size, _: size * ID_DISK_BYTES,
)
