"""A collector by the Flink jobs that it watches, each with a checkpoint every 10 s (benchmarks/flink_jobs.py serves them)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.flink_jobs import INTERVAL_S, delays, serving, wait_for_all
from benchmarks.growth import idle
from benchmarks.growth.curve import Curve, Options, Point
from demo.broker import Broker

SETTLE_S = 15.0
JOB_DISK_BYTES = 200_000


def measure(work: Path, sizes: Sequence[int], options: Options) -> Iterator[Point]:
    """Measure one collector for each size on one broker."""
    with Broker(work / "broker") as broker:
        for size in sizes:
            with serving(work / f"checkpoints-{size}", size) as url:
                arguments = ("--flink", f"bench={url}")
                with idle.collector(broker.bootstrap_servers, work / f"collector-{size}", arguments) as collector:
                    wait_for_all(collector, size)
                    figures, threads = idle.at_rest(collector, broker.pid or 0, options, SETTLE_S)
                    figures |= idle.times(delays(collector, size, options.facts))
            yield Point(size=size, figures=figures, parts=threads)


CURVE = Curve(
    name="flink_jobs",
    title=f"a collector by Flink jobs with a checkpoint each {INTERVAL_S:g} s; fact: a checkpoint is completed",
    sizes=(10, 50, 100, 200),
    cost=idle.COST,
    columns=idle.COLUMNS,
    parts=idle.PARTS,
    measure=measure,
    disk_bytes=lambda size, _: size * JOB_DISK_BYTES,
)
