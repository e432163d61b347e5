"""Claim: with 10,000,000 events of history every page's requests take less than 100 ms (p95) while 5,000 events/s come in.

    python -m benchmarks.collector_queries [--events 10000000] [--ids 1000] [--seconds 30] [--rate 5000] [--json]

A broker of its own. History is made before the start, in the file, as the observers would have written it. Measured: from the
collector's start to its readiness, then every request that the pages make, in turns, while a producer writes states of
transactions into ``__transaction_state`` at the rate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
from confluent_kafka import Producer

from benchmarks import coordinator_log, machine
from benchmarks.coordinator_log import STATE_TOPIC
from benchmarks.figures import percentile, row
from benchmarks.running_collector import RunningCollector
from collector.store import Store
from demo.broker import Broker
from resource_managers.kafka_connection import KafkaConnection

REQUESTS = (
    "status",
    "overview",
    "transactions",
    "transactions?all=true",
    "aborts",
    "checkpoints",
    "audit",
    "malformed",
)
DAY_MS = 24 * 3_600_000
PAUSE_S = 0.05
STEP_S = 0.02

# Nine tenths are states of transactions over the last day, four each, one of 50 aborted; the rest events of checkpoints.
MAKE_STATES = """
insert into transaction_records
select '__transaction_state', (n // 4) % $ids % 8, n + 1_000_000_000, 'orders-' || (n // 4) % $ids || '-17', (n // 4) % $ids,
       n // 4 // $ids, case when n % 4 < 2 then 'ONGOING' when n % 4 = 2 then 'PREPARE_' || e.what else 'COMPLETE_' || e.what end,
       $first + n // 4 * $step, $first + n // 4 * $step + 300 * (n % 4), 60000, ['ip_count_sink-' || (n // 4) % 4], 2
from range($states) r(n), lateral (select if(n // 4 % 50 = 0, 'ABORT', 'COMMIT') as what) e"""
MAKE_EVENTS = """
insert into lifecycle_events
select 'earlier', 0, n, 'checkpoint.completed', $first + n * $step, 'ip-count',
       '{"specversion":"1.0","id":"' || md5(n::varchar) || '","source":"/pipeline/ip-count",'
       || '"type":"io.indoubt.checkpoint.completed","subject":"checkpoint","time":"2026-11-21T12:00:00.000+00:00",'
       || '"data":{"pipeline":"ip-count","life":"l","attempt":0,"batch":' || n
       || ',"rows":1000,"bytes":100000,"duration_ms":' || 200 + n % 800 || '}}'
from range($events) r(n)"""
COUNT_STATES = """
insert into transaction_counts
select update_ms // 60000 * 60000, 60000, 'orders', if(status = 'COMPLETE_COMMIT', 'committed', 'aborted'), count(*)
from transaction_records where status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') group by all"""


def make_history(path: Path, events: int, ids: int) -> None:
    """Write a history of so many events over the last day."""
    Store(path).close()
    states, now_ms = events * 9 // 10 // 4 * 4, time.time_ns() // 1_000_000
    first = now_ms - DAY_MS
    with duckdb.connect(str(path)) as file:
        file.execute(MAKE_STATES, {"ids": ids, "states": states, "first": first, "step": DAY_MS // (states // 4 + 1)})
        file.execute(MAKE_EVENTS, {"events": events - states, "first": first, "step": DAY_MS // (events - states + 1)})
        file.execute(COUNT_STATES)
        file.execute("checkpoint")


class Load:
    """Writes states of transactions at a rate until its context ends."""

    def __init__(self, connection: KafkaConnection, rate: int, ids: int) -> None:
        settings = {"client.id": "__admin_client", "linger.ms": 5}
        self._producer = Producer(connection.for_librdkafka(**settings))
        self._rate, self._ids = rate, ids
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written = 0

    def _run(self) -> None:
        started, records = time.monotonic(), coordinator_log.states(10**9, self._ids, time.time_ns() // 1_000_000)
        while not self._stopping.wait(STEP_S):
            due = int((time.monotonic() - started) * self._rate) - self.written
            for key, value in itertools.islice(records, due):
                self._producer.produce(STATE_TOPIC, value, key)
            self._producer.poll(0)
            self.written += due
        self._producer.flush(30.0)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--json", action="store_true", help="last line: one JSON object")
    arguments = parser.parse_args()
    print(machine.describe())
    took_ms: dict[str, list[float]] = {request: [] for request in REQUESTS}
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        home = Path(directory) / "collector"
        home.mkdir()
        make_history(home / "history.duckdb", arguments.events, arguments.ids)
        connection = KafkaConnection(broker.bootstrap_servers)
        coordinator_log.make_state_topic(connection)
        machine.settle()
        with RunningCollector(broker.bootstrap_servers, home) as collector:
            ready_s, before = collector.ready_s, int(collector.get("status")["events"])
            with Load(connection, arguments.rate, arguments.ids) as load:
                started = time.monotonic()
                while time.monotonic() - started < arguments.seconds:
                    for request, found in took_ms.items():
                        asked = time.monotonic()
                        collector.get(request)
                        found.append(1000 * (time.monotonic() - asked))
                        time.sleep(PAUSE_S)
                arrived = (int(collector.get("status")["events"]) - before) / (time.monotonic() - started)
            written = load.written / (time.monotonic() - started)
    print(f"start to ready {ready_s:.2f} s; {written:,.0f} events/s written, {arrived:,.0f} events/s arrived")
    print(row("ms", "p50", "p95", "worst"))
    for request, found in took_ms.items():
        print(
            row(request, *(f"{value:.1f}" for value in (percentile(found, 0.5), percentile(found, 0.95), max(found))))
        )
    if arguments.json:
        p95 = {request: round(percentile(found, 0.95), 1) for request, found in took_ms.items()}
        figures = {"ready_s": round(ready_s, 2), "arrived_per_s": round(arrived), "worst_p95_ms": max(p95.values())}
        print(json.dumps({**figures, "p95_ms": p95, "events": arguments.events, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
