"""Spark's standalone cluster on loopback: a master and workers, each with its own address, ports and directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from demo.ports import free_port
from demo.prerequisites import java_home
from demo.server import Server
from indoubt.lifecycle.child_processes import with_descendants

CORES = 2
MEMORY = "2g"
REGISTERED = "Successfully registered with master"
_CLASSES = "org.apache.spark.deploy."
# The daemons do little, and each has a JVM of its own.
_DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkNode(Server):
    """A daemon of the cluster."""

    start_limit_s = 120.0

    def __init__(self, name: str, directory: Path, arguments: Sequence[str], started: str) -> None:
        """``started``: what stands in the log of a daemon that has started."""
        super().__init__(directory)
        self.name, self.what = name, f"Spark's {name}"
        self._arguments, self._started = arguments, started.encode()
        self._log_begin = 0

    @property
    def log_file(self) -> Path:
        """Return the daemon's log; those of its executors are in ``work``."""
        return self.directory / f"{self.name}.log"

    @property
    def pids(self) -> list[int]:
        """Return the daemon and what it started: executors, Python's daemons, their workers; parents first."""
        return [] if self.pid is None else with_descendants([self.pid])

    def start(self) -> Self:
        """Start it and wait until it has started. Raises ServerFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log_begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "JAVA_HOME": java_home(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(self.directory / "scratch"),
            "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
        }
        environment.pop("JAVA_TOOL_OPTIONS", None)
        self._run([home / "bin" / "spark-class", *self._arguments], env=environment, cwd=self.directory)
        return self

    def _answers(self) -> bool:
        return self._started in self.log_file.read_bytes()[self._log_begin :]


class SparkCluster:
    """A context manager: a master and workers at 127.0.0.2, 127.0.0.3, …, as machines with an address each."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        ports = ["--port", str(port), "--webui-port", str(free_port())]
        command = [f"{_CLASSES}master.Master", "--host", "127.0.0.1", *ports]
        self._master = SparkNode("master", directory / "master", command, "New state: ALIVE")
        self.workers = tuple(self._worker(directory / f"worker-{number}", number) for number in range(1, workers + 1))

    def _worker(self, directory: Path, number: int) -> SparkNode:
        own = ["--host", f"127.0.0.{number + 1}", "--port", str(free_port()), "--webui-port", str(free_port())]
        size = ["--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(directory / "work")]
        command = [f"{_CLASSES}worker.Worker", *own, *size, self.master]
        return SparkNode(f"worker-{number}", directory, command, REGISTERED)

    @property
    def nodes(self) -> tuple[SparkNode, ...]:
        """Return the master and the workers."""
        return (self._master, *self.workers)

    def __enter__(self) -> SparkCluster:
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.kill)
                node.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
