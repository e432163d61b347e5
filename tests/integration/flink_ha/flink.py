"""Starts a Flink with high availability in a process of its own, and kills it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from demo import flink_job
from demo.ports import free_port
from demo.prerequisites import ROOT, java_home
from demo.waiting import DemoFailed
from indoubt.lifecycle.child_processes import die_with_parent

SOURCE = Path(__file__).parent / "HighlyAvailableOrders.java"
CLASSES, LIBRARIES = ROOT / ".run" / "flink-ha", flink_job.BUILD / "libraries"
ROOT_PATH = "/flink/orders"
"""Its path.root and cluster-id."""
COMMIT, SNAPSHOT = "commit", "snapshot"
LIMIT_S = 20.0
_OPENS = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang")]


def build() -> None:
    """Have Maven fetch Flink, and compile its job. Skips the tests where Flink cannot be had, and says why."""
    if absent := flink_job.missing():
        pytest.skip(f"no Flink is run: {absent} is missing on this machine")
    try:
        flink_job.build()
    except DemoFailed as failed:
        if LIBRARIES.is_dir():
            raise
        pytest.skip(f"no Flink is run: Maven cannot fetch it: {failed}")
    CLASSES.mkdir(parents=True, exist_ok=True)
    command = [shutil.which("javac") or "javac", "-nowarn", "-d", str(CLASSES), "-cp", f"{LIBRARIES}/*", str(SOURCE)]
    subprocess.run(command, check=True, timeout=flink_job.COMPILER_LIMIT_S)


class HighlyAvailableFlink:
    """One Flink, started as often as a test wants. Its job writes so many orders, 20 a second, with a checkpoint each 2 s."""

    def __init__(self, work: Path, quorum: str, bootstrap_servers: str, topic: str, orders: int) -> None:
        self.port, self._work = free_port(), work
        self._arguments = [quorum, str(work), str(self.port), bootstrap_servers, topic, str(orders)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def checkpoints(self) -> Path:
        """Return where its jobs keep their checkpoints."""
        return self._work / "checkpoints"

    def hold(self, what: str) -> None:
        """Have the job stand still from its third checkpoint on: in its snapshot, or before it commits."""
        (self._work / f"hold-{what}").touch()

    def release(self, what: str) -> None:
        """Have it go on."""
        (self._work / f"hold-{what}").unlink()

    def submit(self) -> None:
        """Start Flink, and give it the job."""
        self._start("submit")

    def recover(self) -> None:
        """Start Flink alone: it finds its job in ZooKeeper."""
        self._start("recover")

    def kill(self) -> None:
        """End JobManager and TaskManager by SIGKILL. Twice is as once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)

    def _start(self, what: str) -> None:
        java = [f"{java_home()}/bin/java", "-Xmx768m", *_OPENS]
        java += [f"-Dlog4j2.configurationFile={flink_job.SOURCES / 'log4j2.properties'}"]
        java += ["-cp", f"{CLASSES}:{LIBRARIES}/*", SOURCE.stem]
        with (self._work / f"{what}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*java, what, *self._arguments], stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
            )
