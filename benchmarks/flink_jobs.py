"""Claim: a collector that watches 200 Flink jobs with a checkpoint each 10 s takes less than 10 % of a core.

    python -m benchmarks.flink_jobs [--jobs 200] [--seconds 60] [--json]

It starts its own broker, and a server that answers as Flink's REST API does: jobs that complete a checkpoint every 10 s, each with
a real ``_metadata`` on disk. It measures the processor time of a real collector without them, then with them, in one run; and
how long after its end a checkpoint's completion is known.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.cpu import used_s
from benchmarks.running_collector import RunningCollector
from demo.broker import Broker

INTERVAL_S = 10.0
HISTORY = 10
"""As many checkpoints Flink's REST API remembers (web.checkpoints.history)."""
RETAINED = 3
SETTLE_S = 15.0
LIMIT_S = 60.0
SAMPLES = 20
RECORDING = (
    Path(__file__).parent.parent / "tests/unit/collector/records/flink_metadata_recorded/2.3-incrementing/_metadata"
)
RECORDED_PREFIX = b"incrementing"
CHECKPOINT_ID_AT = 8


class Jobs:
    """Jobs whose checkpoints complete every INTERVAL_S, spread evenly; their files are written when they complete."""

    def __init__(self, directory: Path, jobs: int) -> None:
        self._directory, self._jobs = directory, jobs
        self._started_s = time.time()
        self._metadata = RECORDING.read_bytes()
        self._written = [0] * jobs

    def write_due(self) -> None:
        """Write the files of all checkpoints that are completed, and remove those that Flink would have subsumed."""
        for job in range(self._jobs):
            newest = self._newest(job)
            for number in range(self._written[job] + 1, newest + 1):
                prefix = f"s{job:03}-{number:07}".encode()
                data = self._metadata.replace(RECORDED_PREFIX, prefix)
                id_ = number.to_bytes(8, "big")
                data = data[:CHECKPOINT_ID_AT] + id_ + data[CHECKPOINT_ID_AT + len(id_) :]
                place = self._directory / self._id(job) / f"chk-{number}"
                place.mkdir(parents=True)
                (place / "_metadata").write_bytes(data)
                shutil.rmtree(place.parent / f"chk-{number - RETAINED}", ignore_errors=True)
            self._written[job] = newest

    def answer(self, path: str) -> Any:
        """Return what Flink answers at a path."""
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["jobs", "overview"]:
            return {"jobs": [self._overview(job) for job in range(self._jobs)]}
        job = int(parts[1], 16)
        if parts[2] == "metrics":
            return [{"id": "numRestarts", "value": "0"}]
        newest = self._newest(job)
        history = [self._checkpoint(job, number) for number in range(newest, max(0, newest - HISTORY), -1)]
        latest = {"completed": history[0] if history else None, "savepoint": None, "failed": None, "restored": None}
        counts = {"restored": 0, "total": newest, "in_progress": 0, "completed": newest, "failed": 0}
        return {"counts": counts, "latest": latest, "history": history}

    def completed_ms(self, job: int, number: int) -> int:
        """Return when a checkpoint was completed."""
        return round(1000 * (self._started_s + INTERVAL_S * (number - 1 + job / self._jobs)))

    def _newest(self, job: int) -> int:
        return max(0, int((time.time() - self._started_s) / INTERVAL_S - job / self._jobs + 1))

    @staticmethod
    def _id(job: int) -> str:
        return f"{job:032x}"

    def _overview(self, job: int) -> dict[str, Any]:
        start_ms = round(1000 * self._started_s)
        return {
            "jid": self._id(job),
            "name": f"job-{job}",
            "state": "RUNNING",
            "start-time": start_ms,
            "end-time": -1,
            "duration": round(1000 * time.time()) - start_ms,
            "last-modification": start_ms,
            "tasks": {"running": 2, "total": 2},
        }

    def _checkpoint(self, job: int, number: int) -> dict[str, Any]:
        took_ms = 40
        return {
            "className": "completed",
            "id": number,
            "status": "COMPLETED",
            "is_savepoint": False,
            "trigger_timestamp": self.completed_ms(job, number) - took_ms,
            "latest_ack_timestamp": self.completed_ms(job, number) - 1,
            "checkpointed_size": 1165,
            "state_size": 1165,
            "end_to_end_duration": took_ms,
            "num_subtasks": 4,
            "num_acknowledged_subtasks": 4,
            "checkpoint_type": "CHECKPOINT",
            "external_path": f"file:{self._directory}/{self._id(job)}/chk-{number}",
            "discarded": False,
            "tasks": {},
        }


def serve(directory: Path, jobs: int, parent: Connection, kind: type[Jobs] = Jobs) -> None:
    """Serve Flink's REST API until the parent ends the process; tell it the port."""
    known = kind(directory, jobs)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet, as Flink sends them: else each answer waits 40 ms for an acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            body = json.dumps(known.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    parent.send(server.server_port)
    while True:
        known.write_due()
        time.sleep(0.05)


@contextmanager
def serving(directory: Path, jobs: int) -> Iterator[str]:
    """Have a process serve Flink's REST API while the context is open; yield its address."""
    ours, child = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=serve, args=(directory, jobs, child), daemon=True)
    server.start()
    try:
        if not ours.poll(LIMIT_S):
            raise TimeoutError(f"the server of jobs did not start within {LIMIT_S:.0f} s")
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    arguments = parser.parse_args()
    print(machine.describe())
    with tempfile.TemporaryDirectory() as temporary, Broker(Path(temporary) / "broker") as broker:
        directory = Path(temporary)
        with RunningCollector(broker.bootstrap_servers, directory / "alone") as collector:
            alone = _share(collector, arguments.seconds)
        with serving(directory / "checkpoints", arguments.jobs) as url:
            flink = ["--flink", f"bench={url}"]
            with RunningCollector(broker.bootstrap_servers, directory / "watching", arguments=flink) as collector:
                wait_for_all(collector, arguments.jobs)
                watching = _share(collector, arguments.seconds)
                delays_s = delays(collector, arguments.jobs)
    figures = {
        "jobs": arguments.jobs,
        "alone_percent": round(100 * alone, 2),
        "watching_percent": round(100 * watching, 2),
        "known_after_s_p50": round(statistics.median(delays_s), 2),
        "known_after_s_max": round(max(delays_s), 2),
    }
    print(
        f"{arguments.jobs} Flink jobs, a checkpoint each {INTERVAL_S:g} s: {100 * watching:.1f} % of a core "
        f"({100 * alone:.1f} % without them); a completed checkpoint is known after {figures['known_after_s_p50']} s "
        f"(median), {figures['known_after_s_max']} s at most of {SAMPLES}"
    )
    if arguments.json:
        print(json.dumps({**figures, "machine": machine.describe()}))
    return 0


def _share(collector: RunningCollector, seconds: float) -> float:
    """Return the share of a core that a collector takes, after it has come to rest."""
    time.sleep(SETTLE_S)
    before_s, started = used_s(collector.pid), time.monotonic()
    time.sleep(seconds)
    return (used_s(collector.pid) - before_s) / (time.monotonic() - started)


def wait_for_all(collector: RunningCollector, jobs: int, limit_s: float = LIMIT_S) -> None:
    """Return when the collector lists all jobs. Raises TimeoutError."""
    deadline = time.monotonic() + limit_s
    while len(collector.get("jobs?limit=10000")["rows"]) < jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the collector did not see {jobs} jobs within {limit_s:.0f} s")
        time.sleep(0.2)


def delays(
    collector: RunningCollector,
    jobs: int,
    samples: int = SAMPLES,
    pipeline: Callable[[int], str] = lambda job: f"bench/job-{job}",
) -> list[float]:
    """Return how long after its end each of some checkpoints was known, of jobs that are spread evenly."""
    found = []
    for sample in range(samples):
        job = sample * jobs // samples
        path = f"checkpoints?pipeline={pipeline(job)}&limit=1"
        before = collector.get(path)["rows"][0]["number"]
        deadline = time.monotonic() + LIMIT_S
        while (row := collector.get(path)["rows"][0])["number"] == before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"checkpoint {before + 1} of job {job} was not known within {LIMIT_S:.0f} s")
            time.sleep(0.05)
        found.append(time.time() - (row["started_at_ms"] + row["duration_ms"]) / 1000)
    return found


if __name__ == "__main__":
    sys.exit(main())
