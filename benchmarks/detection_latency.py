"""How long after its opening on the broker a transaction is in the collector's API.

Starts its own broker and collector, opens transactions at a steady rate, polls GET /api/v1/transactions, and measures from the
broker's own start time to the arrival of the first answer that lists the transaction. For comparison it measures one run of
Kafka's own tool, TransactionsCommand list.

    python -m benchmarks.detection_latency [--count 400] [--rate 20] [--load 1000] [--json]

With --load this many other transactions begin and end each second: another process writes four states of each into
``__transaction_state``, as the coordinator does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import coordinator_log
from benchmarks.coordinator_load import CoordinatorLoad
from benchmarks.figures import percentile
from demo.broker import Broker
from demo.prerequisites import JARS, java_home
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "detection_latency"
START_LIMIT_S = 30.0
SEEN_LIMIT_S = 5.0
POLL_PAUSE_S = 0.005
PRODUCERS = 10
REPEATS = 3
PREFIX = "latency-"
STATES, OTHER_IDS = 4, 1_000


@dataclass
class Watcher:
    """Polls the API in a thread, and keeps the time from each transaction's start to the first answer that lists it."""

    url: str
    token: str
    latencies_ms: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            with httpx.Client(base_url=self.url, headers=headers, timeout=10.0) as client:
                while not self.stopping.wait(POLL_PAUSE_S):
                    rows = client.get("/api/v1/transactions").raise_for_status().json()["rows"]
                    arrived_ms = time.time_ns() / 1e6
                    for row in rows:
                        if row["transaction"].startswith(PREFIX):
                            self.latencies_ms.setdefault(row["key"], arrived_ms - row["opened_at_ms"])
        except (httpx.HTTPError, KeyError) as error:
            self.failed = f"the API did not answer: {error!r}"


def start_collector(bootstrap_servers: str, directory: Path, token: str) -> tuple[subprocess.Popen[str], str]:
    """Start a collector on a free port; return its process and address once it is ready."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("INDOUBT_")}
    command = [sys.executable, "-m", "indoubt.collector", "--bootstrap-servers", bootstrap_servers]
    process = subprocess.Popen(
        [*command, "--directory", str(directory), "--port", "0"],
        cwd=ROOT,
        # The benchmark asks without a pause, which no caller should do.
        env={**environment, "INDOUBT_VIEWER_TOKEN": f"benchmark:{token}", "INDOUBT_REQUESTS_PER_SECOND": "100000"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/api/v1/health", timeout=1.0).status_code == 200:
                return process, url
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"the collector was not ready within {START_LIMIT_S:.0f} s")


def open_transactions(bootstrap_servers: str, watcher: Watcher, count: int, rate: float) -> int:
    """Open ``count`` transactions at ``rate`` a second; each stays open until the watcher has had time to see it."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    client.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(START_LIMIT_S)
    producers = [
        Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{PREFIX}{n}", "linger.ms": 0})
        for n in range(PRODUCERS)
    ]
    for producer in producers:
        producer.init_transactions(START_LIMIT_S)
    is_open = [False] * PRODUCERS
    started = time.monotonic()
    for number in range(count):
        wait_s = started + number / rate - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)  # the rate is what is asked for
        slot = number % PRODUCERS
        producer = producers[slot]
        if is_open[slot]:
            producer.commit_transaction(START_LIMIT_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"x")
        producer.flush(START_LIMIT_S)
        is_open[slot] = True
    deadline = time.monotonic() + SEEN_LIMIT_S
    while len(watcher.latencies_ms) < count and time.monotonic() < deadline and not watcher.failed:
        time.sleep(0.01)
    for producer in producers:
        producer.abort_transaction(START_LIMIT_S)
    return count


def transactions_command_ms(bootstrap_servers: str) -> float:
    """Return the median wall time of one ``TransactionsCommand list``."""
    command = [f"{java_home()}/bin/java", "-cp", f"{JARS / 'broker'}/*", "org.apache.kafka.tools.TransactionsCommand"]
    times = []
    for _ in range(REPEATS):
        started = time.monotonic()
        subprocess.run(
            [*command, "--bootstrap-server", bootstrap_servers, "list"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )
        times.append((time.monotonic() - started) * 1000)
    return sorted(times)[len(times) // 2]


def main() -> int:
    """Measure and print; exit code 1 if a transaction was never seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--rate", type=float, default=20.0, help="openings per second")
    parser.add_argument("--load", type=int, default=0, help="other transactions per second meanwhile")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    token = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "broker") as broker:
        process, url = start_collector(broker.bootstrap_servers, Path(directory) / "collector", token)
        watcher = Watcher(url, token)
        thread = threading.Thread(target=watcher.run)
        others = CoordinatorLoad(broker.bootstrap_servers, STATES * arguments.load, OTHER_IDS)
        try:
            thread.start()
            coordinator_log.make_state_topic(KafkaConnection(broker.bootstrap_servers))
            with others if arguments.load else contextlib.nullcontext():
                open_transactions(broker.bootstrap_servers, watcher, arguments.count, arguments.rate)
        finally:
            watcher.stopping.set()
            thread.join()
            process.terminate()
            process.wait(START_LIMIT_S)
        command_ms = transactions_command_ms(broker.bootstrap_servers)
    latencies = list(watcher.latencies_ms.values())
    if watcher.failed or len(latencies) < arguments.count:
        print(
            f"the API listed only {len(latencies)} of {arguments.count} transactions. {watcher.failed}", file=sys.stderr
        )
        return 1
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    load = ""
    if arguments.load:
        load = f", beside {others.written // STATES:,} others at {arguments.load:,}/s"
    print(f"open on the broker -> in the API, {len(latencies)} transactions at {arguments.rate:g}/s{load}:")
    print(f"  p50 {p50:.0f} ms   p99 {p99:.0f} ms   worst {max(latencies):.0f} ms")
    print(f"one run of TransactionsCommand list: {command_ms:.0f} ms")
    if arguments.json:
        print(
            json.dumps(
                {
                    "load_per_s": arguments.load,
                    "p50_ms": round(p50, 1),
                    "p99_ms": round(p99, 1),
                    "transactions_command_ms": round(command_ms),
                }
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
