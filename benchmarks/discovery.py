"""How much of a core a collector takes with 1,000 Flink jobs and 100,000 partitions, and how old what it shows is.

    python -m benchmarks.discovery [--shape session,applications,partitions] [--jobs 1000] [--partitions 100000] [--json]

What is asked is simulated: nobody runs 1,000 Flink jobs or 100,000 partitions on one machine. The answers are such as Flink, Kafka
and the Kubernetes API give, over the network; a checkpoint's ``_metadata`` is a real one on disk. Shapes:

session       all jobs in one session cluster, by ``--flink``
applications  a JobManager for each job, found by its FlinkDeployment, by ``--flink-kubernetes``
partitions    a broker that leads so many partitions (simulated_partitions.py)

Age: of Flink's jobs, from the end of a checkpoint until the API tells of it; of partitions, from when one begins to hide records
until the API tells of that.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks import machine
from benchmarks.cpu import used_s
from benchmarks.flink_jobs import Jobs, serve, serving, wait_for_all
from benchmarks.flink_jobs import delays as checkpoint_delays
from benchmarks.growth import idle
from benchmarks.running_collector import RunningCollector
from benchmarks.simulated_partitions import simulating
from demo.broker import Broker
from indoubt.collector.observe.partitions import PARTITIONS_PER_POLL

NAMESPACE, LIMIT_S = "bench", 180.0
SETTLE_S = 20.0
THREADS_SAID = 6


class Applications(Jobs):
    """A JobManager for each job, and the Kubernetes API that tells of them; asked as a proxy is, by whole addresses."""

    def answer(self, path: str) -> Any:
        """Return what the Kubernetes API or a JobManager answers at an address."""
        at = urlsplit(path)
        if at.path.startswith("/apis/"):
            return self._resources(at.path.rpartition("/")[2], parse_qs(at.query))
        if at.path == "/jobs/overview":
            return {"jobs": [self._overview(_number(at.hostname or ""))]}
        return super().answer(f"{at.path}?{at.query}")

    def _resources(self, plural: str, query: Mapping[str, list[str]]) -> Any:
        count = self._jobs if plural == "flinkdeployments" else 0
        start = int(query.get("continue", ["0"])[0])
        end = min(count, start + int(query["limit"][0]))
        metadata = {"continue": str(end)} if end < count else {}
        return {"metadata": metadata, "items": [self._deployment(number) for number in range(start, end)]}

    def _deployment(self, number: int) -> dict[str, Any]:
        return {
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "metadata": {"name": f"d{number}", "namespace": NAMESPACE, "resourceVersion": "1"},
            "spec": {
                "image": "flink:2.2",
                "flinkConfiguration": {"state.checkpoints.dir": f"file://{self._directory}"},
                "job": {"jarURI": "local:///job.jar", "state": "running"},
                # As large as many are.
                "podTemplate": {
                    "spec": {"containers": [{"env": [{"name": f"V{i}", "value": "x" * 50} for i in range(40)]}]}
                },
            },
            "status": {
                "lifecycleState": "STABLE",
                "jobManagerDeploymentStatus": "READY",
                "jobStatus": {"jobId": self._id(number), "state": "RUNNING"},
            },
        }


def _number(host: str) -> int:
    return int(host.removeprefix("d").partition("-")[0])


def _serve_applications(directory: Path, jobs: int, parent: Connection) -> None:
    serve(directory, jobs, parent, Applications)


@contextmanager
def applications(directory: Path, jobs: int) -> Iterator[str]:
    """Have a process serve the JobManagers and the Kubernetes API; yield its address."""
    ours, child = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=_serve_applications, args=(directory, jobs, child), daemon=True)
    server.start()
    try:
        if not ours.poll(LIMIT_S):
            raise TimeoutError(f"the server of JobManagers did not start within {LIMIT_S:.0f} s")
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def at_rest(collector: RunningCollector, seconds: float, settle_s: float = SETTLE_S) -> dict[str, float]:
    """Return the share of a core, and the memory, of a collector that has come to rest."""
    time.sleep(settle_s)
    threads_s, before_s, started = idle.threads(collector.pid), used_s(collector.pid), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - started
    share = (used_s(collector.pid) - before_s) / took_s
    parts = {name: used - threads_s.get(name, 0.0) for name, used in idle.threads(collector.pid).items()}
    most = sorted(parts, key=lambda name: -parts[name])[:THREADS_SAID]
    print("  threads, % of a core:", ", ".join(f"{name} {100 * parts[name] / took_s:.1f}" for name in most), flush=True)
    return {"core_percent": round(100 * share, 1), "resident_mib": round(machine.resident_mib(collector.pid))}


def ages(found_s: list[float]) -> dict[str, float]:
    """Return the median and the largest of some ages."""
    return {"age_s_p50": round(statistics.median(found_s), 2), "age_s_max": round(max(found_s), 2)}


def session(work: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure one session cluster of all jobs."""
    with Broker(work / "broker") as broker, serving(work / "checkpoints", given.jobs) as url:
        words = ["--flink", f"bench={url}"]
        with RunningCollector(broker.bootstrap_servers, work / "collector", None, words, idle.NAMED) as collector:
            wait_for_all(collector, given.jobs, LIMIT_S)
            figures = at_rest(collector, given.seconds)
            return figures | ages(checkpoint_delays(collector, given.jobs, given.facts))


def of_applications(work: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure a JobManager for each job."""
    (work / "serviceaccount").mkdir()
    (work / "serviceaccount" / "token").write_text("token")
    with Broker(work / "broker") as broker, applications(work / "checkpoints", given.jobs) as url:
        environment = {
            "INDOUBT_KUBERNETES_URL": url,
            "INDOUBT_KUBERNETES_CREDENTIALS": str(work / "serviceaccount"),
            "http_proxy": url,
            "no_proxy": "127.0.0.1",
        }
        words = ["--flink-kubernetes", NAMESPACE]
        with RunningCollector(
            broker.bootstrap_servers, work / "collector", environment, words, idle.NAMED
        ) as collector:
            started_s = time.monotonic()
            wait_for_all(collector, given.jobs, LIMIT_S)
            known_s = time.monotonic() - started_s
            figures = at_rest(collector, given.seconds)
            figures |= ages(
                checkpoint_delays(collector, given.jobs, given.facts, lambda job: f"{NAMESPACE}.d{job}/job-{job}")
            )
            return figures | {"all_known_after_s": round(known_s, 1)}


def partitions(work: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure a broker of all partitions."""
    with (
        simulating(work / "broker", given.partitions) as simulated,
        RunningCollector(simulated.address, work / "collector", module=idle.NAMED) as collector,
    ):
        figures = at_rest(collector, given.seconds, SETTLE_S + given.partitions / PARTITIONS_PER_POLL)
        found = []
        for number in random.Random(7).sample(range(given.partitions), given.facts):
            began_s, name = time.monotonic(), simulated.hide(number)
            _wait(lambda name=name: name in _hiding(collector), f"{name} is shown")
            found.append(time.monotonic() - began_s)
        return figures | ages(found)


def _hiding(collector: RunningCollector) -> set[str]:
    rows = collector.get("blocked?limit=1000")["rows"]
    return {f"{row['topic']}-{row['partition']}" for row in rows if row["hidden"] > 0}


def _wait(holds: Any, what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}")
        time.sleep(0.1)


SHAPES = {"session": session, "applications": of_applications, "partitions": partitions}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default=",".join(SHAPES), help="comma separated")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--facts", type=int, default=20, help="how many facts are followed to the API")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    given = parser.parse_args()
    print(machine.describe())
    figures = {}
    for shape in given.shape.split(","):
        with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as work:
            found = figures[shape] = SHAPES[shape](Path(work), given)
        size = f"{given.partitions:,} partitions" if shape == "partitions" else f"{given.jobs:,} jobs"
        print(
            f"{shape} ({size}): {found['core_percent']} % of a core, {found['resident_mib']} MiB; age "
            f"{found['age_s_p50']} s (median), {found['age_s_max']} s at most of {given.facts}",
            flush=True,
        )
    if given.json:
        print(json.dumps({**figures, "machine": machine.describe()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
