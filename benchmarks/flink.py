"""Flink for comparison: a directory with ``flink.sh``, which builds and runs the same job with Flink's KafkaSink.

``flink.sh BOOTSTRAP throughput pass eo|alo SOURCE N [tuned=1]`` prints one JSON line, ``flink.sh BOOTSTRAP latency eo|alo
CHECKPOINT_MS SECONDS`` one line of percentiles. The first run needs Maven; the project itself does not. Without
``flink.sh`` the output says that Flink was not measured.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cpu import CpuWatcher, Sample
from benchmarks.figures import Mark
from benchmarks.topics import Watcher
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
EXACTLY_ONCE, AT_LEAST_ONCE = "eo", "alo"
PARALLELISM = 2
"""flink.sh's. Spark's sides have as many tasks."""
CHECKPOINT_MS = 5_000
"""flink.sh's interval for throughput."""
BUILD_LIMIT_S = 900.0
RUN_LIMIT_S = 600.0
NOT_MEASURED = "not measured: give a directory with flink.sh by --flink DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """One run: records/s from the first source record to the last visible one, when how many were visible (or as many windows
    as stand for them), and the processor time that it took."""

    whole: float
    marks: list[Mark]
    cpu: list[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRun:
    """A run that is under way; its job keeps checkpoints below ``checkpoints``."""

    process: subprocess.Popen[str]
    checkpoints: Path

    def result(self) -> tuple[int, int]:
        """Wait for its end; return how many records a read_committed reader misses, and how many it saw twice."""
        out, errors = self.process.communicate(timeout=RUN_LIMIT_S)
        verified = [line for line in out.splitlines() if line.startswith("VERIFY ")]
        if self.process.returncode != 0 or not verified:
            raise RuntimeError(
                f"flink.sh failure ended with code {self.process.returncode}:\n{out[-1000:]}{errors[-3000:]}"
            )
        seen = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)\b", verified[-1])}
        return seen["missing"], seen["dups"]


class Flink:
    """Runs ``flink.sh`` of a directory; its build is under FLINK_BASELINE_WORK, or ``.run/flink``."""

    def __init__(self, directory: Path) -> None:
        self._script = directory / "flink.sh"
        if not self._script.exists():
            raise FileNotFoundError(f"{directory} has no flink.sh: give the directory that has it by --flink")
        work = os.environ.get("FLINK_BASELINE_WORK") or str(ROOT / ".run" / "flink")
        self._work, self._environment = Path(work), {**os.environ, "FLINK_BASELINE_WORK": work}

    def build(self, connection: KafkaConnection, topic: str) -> None:
        """Build it before the measured runs, by writing one record to ``topic``."""
        self._run([connection.bootstrap_servers, "generate", topic, "pass", "1"], BUILD_LIMIT_S)

    def throughput(
        self,
        connection: KafkaConnection,
        guarantee: str,
        source: str,
        records: int,
        others: dict[str, int],
        mode: str = "pass",
    ) -> Throughput:
        """Run the job (``mode``: pass or count) over ``records`` of ``source`` with tuned clients into a topic of its own.

        Its own reader counts the result. ``others``: processes (name: id) whose processor time is sampled with its own.
        Raises AssertionError when the sink does not hold, or count, each record once.
        """
        arguments = [connection.bootstrap_servers, "throughput", mode, guarantee, source, str(records), "tuned=1"]
        process = subprocess.Popen(
            ["bash", str(self._script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
            preexec_fn=die_with_parent,
        )
        # flink.sh names its sink after its own process.
        watched = Watcher(connection, f"flink_sink_b{process.pid}")
        with process, CpuWatcher(process.pid, others) as cpu, watched as watcher:
            try:
                out, errors = process.communicate(timeout=RUN_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if process.returncode != 0:
            raise RuntimeError(f"flink.sh ended with code {process.returncode}:\n{errors[-3000:]}")
        answer = json.loads(out.splitlines()[-1])
        rows = require_each_once(answer["verified"], records)
        seen = [Mark(at_s=m.at_s, records=m.records * records // rows) for m in up_to(watcher.marks, rows)]
        return Throughput(whole=float(answer["records_per_s"]), marks=seen, cpu=cpu.samples)

    def latency(
        self, connection: KafkaConnection, guarantee: str, checkpoint_ms: int, seconds: int
    ) -> dict[str, float]:
        """Return percentiles (``p50_ms``, ``p99_ms``, …) of produced -> seen at 10,000 records/s.

        ``n`` is how many records were seen. Raises RuntimeError when there are none.
        """
        arguments = [connection.bootstrap_servers, "latency", guarantee, str(checkpoint_ms), str(seconds)]
        return read_latency(self._run(arguments, RUN_LIMIT_S))

    @contextmanager
    def failure(
        self, connection: KafkaConnection, outage_s: int, timeout_ms: int, rescue: str, environment: Mapping[str, str]
    ) -> Iterator[FailureRun]:
        """Run ``flink.sh failure``: kill between pre-commit and commit, an outage, a restore. ``rescue``: run after the kill."""
        arguments = [
            connection.bootstrap_servers,
            "failure",
            str(outage_s),
            str(timeout_ms),
            *([rescue] if rescue else []),
        ]
        process = subprocess.Popen(
            ["bash", str(self._script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**self._environment, **environment},
            preexec_fn=die_with_parent,
        )
        # flink.sh names its checkpoints' directory after its own process.
        yield FailureRun(process=process, checkpoints=self._work / "chk" / f"b{process.pid}")
        if process.poll() is None:
            process.terminate()
            process.wait(RUN_LIMIT_S)

    def _run(self, arguments: Sequence[str], limit_s: float) -> str:
        done = subprocess.run(
            ["bash", str(self._script), *arguments],
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=self._environment,
            preexec_fn=die_with_parent,
        )
        if done.returncode != 0:
            raise RuntimeError(f"flink.sh {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout


def require_each_once(verified: str, records: int) -> int:
    """Return how many rows flink.sh's reader saw: each record once, or windows that count each once. Raises AssertionError."""
    seen = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)\b", verified)}
    counts = (seen.get("sumOfCounts"), seen.get("dupKeys")) == (records, 0)
    if not counts and (seen.get("records"), seen.get("distinct"), seen.get("missing")) != (records, records, 0):
        raise AssertionError(f"Flink's sink does not have each of {records:,} records once: {verified}")
    return seen["outputs"] if counts else records


def read_latency(text: str) -> dict[str, float]:
    """Return the figures of the line ``LAT n=… p50_ms=… …``. Raises RuntimeError when there is none."""
    for line in text.splitlines():
        if line.startswith("LAT ") and "p99_ms" in line:
            return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", line)}
    raise RuntimeError(f"flink.sh printed no latencies, so its reader saw no record: {text.strip()!r}")


def up_to(marks: Sequence[Mark], records: int) -> list[Mark]:
    """Return the marks without control records: the last mark is where all ``records`` were visible."""
    found: list[Mark] = []
    for mark in marks:
        found.append(Mark(at_s=mark.at_s, records=min(mark.records, records)))
        if mark.records >= records:
            break
    return found
