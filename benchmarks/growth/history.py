"""The requests of pages by the length of the history, with nothing else to do for the collector.

benchmarks/synthetic_history.py writes the history into the file before the start; its time and its disk are told as well.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import coordinator_log, machine
from benchmarks.collector_queries import ask_in_turns
from benchmarks.collector_requests import PAGES
from benchmarks.cpu import used_s
from benchmarks.figures import percentile
from benchmarks.growth import idle
from benchmarks.growth.curve import Curve, Options, Point
from benchmarks.running_collector import RunningCollector
from benchmarks.synthetic_history import write_history
from demo.broker import Broker
from indoubt.resource_managers.kafka.connection import KafkaConnection

START_LIMIT_S = 300.0
IDS = 1_000
SMALL_IDS = 100
EVENT_DISK_BYTES = 50
UNBOUNDED = {"INDOUBT_HISTORY_MEGABYTES": "1000000"}
FILE = "history.duckdb"


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Write a history of each size, start a collector on it, ask for everything that pages ask for."""
    with Broker(work / "broker") as broker:
        coordinator_log.make_state_topic(KafkaConnection(broker.bootstrap_servers))
        for size in sizes:
            home = work / f"collector-{size}"
            home.mkdir()
            started = time.monotonic()
            write_history(home / FILE, size, IDS if size >= IDS * SMALL_IDS else SMALL_IDS)
            made_s, mib = time.monotonic() - started, (home / FILE).stat().st_size / (1 << 20)
            machine.settle()
            with RunningCollector(
                broker.bootstrap_servers, home, idle.UNLIMITED | UNBOUNDED, start_limit_s=START_LIMIT_S
            ) as collector:
                before_s = used_s(collector.pid)
                took = ask_in_turns(collector, PAGES, options.seconds)
                asked = sum(len(times_ms) for times_ms in took.values())
                cpu_ms = 1000 * (used_s(collector.pid) - before_s) / asked
                memory_mib = machine.resident_mib(collector.pid)
            (home / FILE).unlink()
            medians = {question.name: statistics.median(times_ms) for question, times_ms in took.items()}
            figures = {
                "made s": made_s,
                "s / million": made_s * 1e6 / size,
                "disk MiB": mib,
                "ready s": collector.ready_s,
                "ready cpu s": before_s,
                "cpu ms/request": cpu_ms,
                "slowest p50 ms": max(medians.values()),
                "p95 ms": percentile([ms for times_ms in took.values() for ms in times_ms], 0.95),
                "MiB": memory_mib,
            }
            yield Point(size=size, figures=figures, parts=medians)


CURVE = Curve(
    name="history",
    title="the requests of pages by events in the history; 100,000,000 with --sizes",
    sizes=(1_000_000, 10_000_000),
    cost="cpu ms/request",
    columns={
        "made s": ",.1f",
        "s / million": ".2f",
        "disk MiB": ",.0f",
        "ready s": ".2f",
        "ready cpu s": ".2f",
        "cpu ms/request": ".2f",
        "slowest p50 ms": ",.0f",
        "p95 ms": ",.0f",
        "MiB": ",.0f",
    },
    parts="p50 ms",
    measure=measure,
    disk_bytes=lambda size, _: size * EVENT_DISK_BYTES,
)
