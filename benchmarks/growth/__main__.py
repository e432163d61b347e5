"""How cost grows, and where it bends: one curve a run.

    python -m benchmarks.growth --curve handles [--sizes 1,10,100] [--json]

Curves: tasks and record_bytes (the exactly-once sink), handles (one commit), ids, partitions, groups and flink_jobs (an idle
collector), history (the requests of pages). Each size is a row, printed when it is measured, with the ratio of its cost to that
of the size before it, what the cost is made of, and the machine's load average. It starts its own broker. The default sizes
end in less than ten minutes on two cores; --sizes takes others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.growth import flink_jobs, groups, handles, history, ids, partitions, tasks
from benchmarks.growth.curve import Curve, Options, Point, load
from benchmarks.machine import NotEnoughRoom
from demo.prerequisites import java_home

CURVES: dict[str, Curve] = {
    curve.name: curve
    for curve in (
        tasks.TASKS,
        tasks.RECORD_BYTES,
        handles.CURVE,
        ids.CURVE,
        partitions.CURVE,
        groups.CURVE,
        flink_jobs.CURVE,
        history.CURVE,
    )
}


def draw(curve: Curve, sizes: list[int], options: Options) -> list[Point]:
    """Measure a curve and print each point when it is there. Raises NotEnoughRoom."""
    points: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work:
        curve.require_disk(Path(work), sizes, options)
        print(f"{curve.title}\n{curve.header()}", flush=True)
        for point in curve.measure(Path(work), sizes, options):
            lines = (curve.line(point, points[-1] if points else None), curve.parts_of(point))
            print(*filter(None, lines), sep="\n", flush=True)
            points.append(point)
    return points


def main(arguments: list[str] | None = None) -> int:
    """Draw the curve that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", required=True, choices=CURVES)
    parser.add_argument("--sizes", help="comma separated, ascending")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long an idle collector is watched")
    parser.add_argument("--facts", type=int, default=10, help="how many facts are followed to the API")
    parser.add_argument("--record-bytes", type=int, default=100, help="of the curve tasks")
    parser.add_argument("--tasks", type=int, default=4, help="of the curve record_bytes")
    parser.add_argument("--megabytes", type=int, default=0, help="what passes through the sink for one size")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args(arguments)
    curve = CURVES[given.curve]
    sizes = [int(size) for size in given.sizes.split(",")] if given.sizes else list(curve.sizes)
    options = Options(
        seconds=given.seconds,
        facts=given.facts,
        record_bytes=given.record_bytes,
        tasks=given.tasks,
        megabytes=given.megabytes,
    )
    os.environ["JAVA_HOME"] = java_home()
    try:
        points = draw(curve, sizes, options)
    except NotEnoughRoom as error:
        print(error, file=sys.stderr)
        return 1
    print(machine.describe())
    if given.json:
        rows = [{curve.name: point.size, **point.figures, "parts": dict(point.parts)} for point in points]
        print(json.dumps({"points": rows, "load": load(), "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
