"""The failure of flink_rescue.py without an operator: a standing order commits what Flink's last checkpoint lists.

A standing order acts on certainty alone: REST must have reported the checkpoint as completed. flink.sh kills its job as soon as
the checkpoint's ``_metadata`` is there, some ms before that. So its killwatch.py is stopped until the collector knows that the
checkpoint counts, and kills at once then. The job may have committed by then, or the collector may have been ready too late:
such a try shows nothing, and the round is tried again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from benchmarks import flink
from benchmarks.running_collector import RunningCollector
from indoubt.resource_managers.kafka.connection import KafkaConnection

OWNER, CLUSTER = "night shift", "bench"
CHECKPOINT = 3
"""The one after which flink.sh kills its job."""
ORDER = f"""
owner = "{OWNER}"

[[order]]
name = "save what Flink listed"
act = "commit"
applications = ["*"]
less_than_s_left = 5
driver_gone = true
most_per_hour = 20
dry_run = false
"""
POLLING_MS = "20"
START_LIMIT_S, CHECKPOINT_LIMIT_S = 180.0, 180.0
TRIES = 12
"""How often a round is tried before it is given up."""
T = TypeVar("T")


class ShowedNothing(RuntimeError):
    """This try had nothing to save, or did not see the checkpoint in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOutcome:
    """One run: records missed and seen twice; transactions that the standing order committed, and how long after the kill."""

    lost: int
    duplicates: int
    committed: int
    committed_s: float | None


def run(peer: flink.Flink, connection: KafkaConnection, work: Path, outage_s: int, timeout_ms: int) -> StandingOutcome:
    """Run the failure until a try shows something. Raises RuntimeError when none of ``TRIES`` does."""
    for number in range(TRIES):
        try:
            return _try(peer, connection, work / str(number), outage_s, timeout_ms)
        except ShowedNothing as why:
            print(f"try {number}: {why}", file=sys.stderr)
    raise RuntimeError(f"none of {TRIES} tries had a transaction to save")


def _try(peer: flink.Flink, connection: KafkaConnection, work: Path, outage_s: int, timeout_ms: int) -> StandingOutcome:
    """Run the failure once, with a collector that has a standing order. Raises RuntimeError, ShowedNothing."""
    work.mkdir(parents=True, exist_ok=True)
    orders = work / "standing_orders.toml"
    orders.write_text(ORDER)
    orders.chmod(0o600)
    with peer.failure(connection, outage_s, timeout_ms, "", {}) as failure, _ending_with(failure.process):
        address = _rest_of(failure.process)
        places = ["--flink", f"{CLUSTER}={address}", "--flink-checkpoints", f"{CLUSTER}={failure.checkpoints}"]
        settings = {"INDOUBT_FLINK_POLLING_MS": POLLING_MS}
        arguments = [*places, "--standing-orders", str(orders)]
        collector_of_run = RunningCollector(connection.bootstrap_servers, work / "standing", settings, arguments)
        with _killing_held_back(failure.process) as kill, collector_of_run as collector:
            _await_checkpoint(collector)
            kill()
            killed_s = time.time()
            lost, duplicates = failure.result()
            audit = collector.get("audit?limit=100")["rows"]
    done = [row for row in audit if row["who"] == OWNER and row["outcome"] == "accepted"]
    if not (done or lost or duplicates):
        raise ShowedNothing("the job had committed before it was killed")
    last_s = max((row["at_ms"] for row in done), default=0) / 1000 - killed_s if done else None
    return StandingOutcome(lost=lost, duplicates=duplicates, committed=len(done), committed_s=last_s)


def _await_checkpoint(collector: RunningCollector) -> None:
    """Wait until the collector knows that the checkpoint is completed. Raises ShowedNothing when it came too late to see that."""

    def completed() -> int:
        rows = collector.get("checkpoints?limit=10")["rows"]
        return max((row["number"] for row in rows if row["state"] == "completed"), default=0)

    if completed() >= CHECKPOINT:
        raise ShowedNothing(f"checkpoint {CHECKPOINT} was completed before the collector was ready")
    number = _wait(
        f"checkpoint {CHECKPOINT}", lambda: at if (at := completed()) >= CHECKPOINT else None, CHECKPOINT_LIMIT_S
    )
    if number != CHECKPOINT:
        raise ShowedNothing(f"checkpoint {number} was completed before {CHECKPOINT} was seen")


@contextmanager
def _ending_with(process: subprocess.Popen[str]) -> Iterator[None]:
    """End what flink.sh started where the run ends before flink.sh does: its job would go on without it."""
    try:
        yield
    finally:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()


@contextmanager
def _killing_held_back(process: subprocess.Popen[str]) -> Iterator[Callable[[], None]]:
    """Stop flink.sh's killwatch.py; what is given lets it go on, which kills the job as soon as it looks."""
    watch = _wait("killwatch.py", lambda: _child(process, "killwatch.py"), START_LIMIT_S)
    watch.suspend()
    try:
        yield watch.resume
    finally:
        if watch.is_running() and watch.status() == psutil.STATUS_STOPPED:
            watch.resume()


def _rest_of(process: subprocess.Popen[str]) -> str:
    """Return the address of the job's REST API: it listens on a free port."""

    def found() -> str | None:
        job = _child(process, "Bench")
        ports = {} if job is None else {at.laddr.port for at in job.net_connections("tcp") if at.status == "LISTEN"}
        return next((f"http://127.0.0.1:{port}" for port in ports if _answers(port)), None)

    return _wait("Flink's REST API", found, START_LIMIT_S)


def _answers(port: int) -> bool:
    try:
        answer: Any = httpx.get(f"http://127.0.0.1:{port}/jobs/overview", timeout=1.0).json()
        return bool(answer["jobs"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return False


def _child(process: subprocess.Popen[str], word: str) -> psutil.Process | None:
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return next((child for child in children if any(word in part for part in child.cmdline())), None)
    except psutil.NoSuchProcess:
        return None


def _wait(what: str, find: Callable[[], T | None], limit_s: float) -> T:
    deadline = time.monotonic() + limit_s
    while (found := find()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {limit_s:.0f} s in vain for {what}")
        time.sleep(0.01)
    return found
