"""One run of the demo: broker, topics, collector, pipeline, generator and, with a page, the app; started and ended in order."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException

from demo import downstream, guard, topics
from demo.broker import Broker, BrokerFailed, free_port
from demo.prerequisites import ROOT, java_home
from demo.processes import Child
from demo.waiting import DemoFailed, T, wait_until

PREFIX = "ip-count"
APP_PORT = 8651
START_LIMIT_S = 180.0
STOP_LIMIT_S = 20.0
TRIGGER_INTERVAL_MS = 5_000
FOREIGN_OLD_MS = "10000"
"""Sooner than by default: nobody waits half a minute to see that an abandoned transaction needs a hand."""


def say(text: str) -> None:
    """Print one line of progress on stderr."""
    print(f"[demo] {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Where a run keeps its files, how many records it writes per second, how many restarts in a row the pipeline may need
    before it gives up, and whether its data stays after a clean end."""

    directory: Path
    rate: float
    restart_attempts: int
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """What the pipeline's supervisor says of itself; a pid is None while that process does not run."""

    state: str
    driver_pid: int | None
    jvm_pid: int | None
    restarts: int


class DemoRun:
    """Starts the parts one by one and ends all of them on exit, whatever happened. Use it as a context manager."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.directory = settings.directory.resolve()
        self.operator_token = secrets.token_urlsafe(24)
        self._mark = secrets.token_hex(8)
        self._broker = Broker(self.directory / "broker")
        self._children: dict[str, Child] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self.collector_url = ""
        self.app_url = ""

    def __enter__(self) -> DemoRun:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.crash_points.mkdir(exist_ok=True)
        os.environ[guard.MARK] = self._mark
        unmarked = {name: value for name, value in os.environ.items() if name != guard.MARK}
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "demo.guard", self._mark],
            cwd=ROOT,
            env=unmarked,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and not self.settings.keep:
            self._remove_data()

    @property
    def bootstrap_servers(self) -> str:
        """Return the broker's address."""
        return self._broker.bootstrap_servers

    @property
    def checkpoint(self) -> Path:
        """Return the pipeline's checkpoint directory."""
        return self.directory / "checkpoint"

    @property
    def crash_points(self) -> Path:
        """Return the directory in which a file arms a crash point of the driver."""
        return self.directory / "crash-points"

    @property
    def logs(self) -> Path:
        """Return where each part writes what it says."""
        return self.directory / "logs"

    def start_broker(self) -> None:
        """Start a real broker and create the topics."""
        say("starting a Kafka broker …")
        try:
            self._broker.start()
            topics.create_topics(self.bootstrap_servers)
        except BrokerFailed as error:
            raise DemoFailed(str(error)) from None
        except KafkaException as error:
            why = f"{error.args[0].str()}; the broker's log is {self._broker.log_file}"
            raise DemoFailed(f"the topics could not be created: {why}") from None
        say(f"broker {self.bootstrap_servers}, topics {', '.join(topic.topic for topic in topics.TOPICS)}")

    def start_collector(self) -> None:
        """Start the collector and wait until its API answers."""
        port = free_port()
        self.collector_url = f"http://127.0.0.1:{port}"
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--directory", str(self.directory / "collector")]
        arguments += ["--port", str(port), "--checkpoint", f"{PREFIX}={self.checkpoint}"]
        environment = {
            "INDOUBT_OPERATOR_TOKEN": f"demo:{self.operator_token}",
            "INDOUBT_FOREIGN_OLD_MS": FOREIGN_OLD_MS,
        }
        child = self._start("collector", arguments, environment)
        health = f"{self.collector_url}/api/v1/health"
        wait_until(f"the collector at {health}", lambda: _answers(health), START_LIMIT_S, child.check_running)
        say(f"collector {self.collector_url}")

    def start_pipeline(self) -> None:
        """Start the pipeline's supervisor; its driver takes about ten seconds to come up (``wait_for_pipeline``)."""
        arguments = ["run", "--job", "ip_count", "--bootstrap-servers", self.bootstrap_servers]
        arguments += ["--checkpoint", str(self.checkpoint), "--prefix", PREFIX]
        arguments += ["--source", topics.SOURCE, "--sink", topics.SINK]
        arguments += ["--trigger-interval-ms", str(TRIGGER_INTERVAL_MS), "--status-file", str(self._status_file)]
        arguments += ["--restart-delay-ms", "2000", "--restart-attempts", str(self.settings.restart_attempts)]
        environment = {"INDOUBT_CRASH_POINTS": str(self.crash_points), "JAVA_HOME": java_home()}
        self._start("pipeline", arguments, environment)

    def wait_for_pipeline(self) -> None:
        """Wait until Spark runs the query."""
        say("starting the Spark pipeline (about 10 s) …")
        what = f"the pipeline to run (its log: {self.logs / 'pipeline.log'})"
        self.wait_for(what, lambda: self.pipeline_status().state == "running", START_LIMIT_S)
        say("pipeline running")

    def start_generator(self, *, close: bool = False) -> None:
        """Start the traffic; ``close``: it ends with a record that closes every window."""
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--topic", topics.SOURCE]
        arguments += ["--rate", str(self.settings.rate), *(["--close"] if close else [])]
        self._start("demo.generator", arguments, {})
        say(f"generator: {self.settings.rate:g} records/s")

    def start_downstream(self) -> None:
        """Start a read_committed consumer group behind the pipeline: somebody to wait when a transaction stays open."""
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--topic", topics.SINK]
        self._start("demo.downstream", arguments, {})
        say(f"consumer group {downstream.GROUP} reads {topics.SINK}")

    def end_generator(self) -> None:
        """End the traffic in order. Raises DemoFailed when not all of it was delivered."""
        child = self._children.pop("demo.generator")
        child.stop(STOP_LIMIT_S * 2)
        if child.exit_code != 0:
            raise DemoFailed(f"the generator ended with code {child.exit_code}; its log:\n{child.tail()}")

    def start_app(self, port: int, trouble_url: str) -> None:
        """Start the app on that port and wait until its page can be opened."""
        self.app_url = f"http://127.0.0.1:{port}"
        environment = {"INDOUBT_TOKEN": self.operator_token, "INDOUBT_TROUBLE_URL": trouble_url}
        child = self._start("app", ["--collector", self.collector_url, "--port", str(port)], environment)
        health = f"{self.app_url}/_stcore/health"
        wait_until(f"the app at {self.app_url}", lambda: _answers(health), START_LIMIT_S, child.check_running)

    def pipeline_status(self) -> PipelineStatus:
        """Return how the pipeline stands; state ``starting`` until its supervisor wrote something."""
        try:
            fields: dict[str, Any] = json.loads(self._status_file.read_text())
        except FileNotFoundError:
            fields = {}
        return PipelineStatus(
            state=fields.get("state", "starting"),
            driver_pid=fields.get("driver_pid"),
            jvm_pid=fields.get("jvm_pid"),
            restarts=fields.get("restarts", 0),
        )

    def check_running(self) -> None:
        """Raise DemoFailed when a part that must run has ended."""
        if self._broker.pid is None:
            raise DemoFailed(f"the broker ended; see {self._broker.log_file}")
        for name, child in list(self._children.items()):
            if name == "pipeline" and child.exit_code == 0:
                say("the pipeline was stopped by an order")
                del self._children[name]
                continue
            child.check_running()

    @property
    def pipeline_is_stopped(self) -> bool:
        """Return whether no supervisor of the pipeline runs, because an order stopped it."""
        return "pipeline" not in self._children

    def wait_for(self, what: str, look: Callable[[], T | bool | None], limit_s: float) -> T:
        """Return the first true answer of ``look`` while every part keeps running. Raises DemoFailed, naming ``what``."""
        return wait_until(what, look, limit_s, self.check_running)

    def stop_pipeline(self) -> None:
        """End the pipeline in order: its supervisor sweeps what it left. Raises DemoFailed when it ended before."""
        if self.pipeline_is_stopped:
            raise DemoFailed(f"the pipeline ended before it was told to; see {self.logs / 'pipeline.log'}")
        self._children.pop("pipeline").stop(STOP_LIMIT_S * 2)

    def stop(self) -> None:
        """End everything, first what writes, last the broker, then whatever else carries this run's mark."""
        order = ("demo.generator", "pipeline", "demo.downstream", "app", "collector")
        for name in order:
            if name in self._children:
                self._children.pop(name).stop(STOP_LIMIT_S)
        self._broker.stop()
        left = guard.end_marked(self._mark)
        if left:
            say(f"ended {len(left)} processes that were left over: {left}")
        os.environ.pop(guard.MARK, None)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait(STOP_LIMIT_S)

    @property
    def _status_file(self) -> Path:
        return self.directory / "pipeline-status.json"

    def _start(self, module: str, arguments: list[str], environment: dict[str, str]) -> Child:
        command = [sys.executable, "-m", module, *arguments]
        child = Child(module, command, self.logs / f"{module}.log", environment)
        self._children[module] = child
        return child

    def _remove_data(self) -> None:
        """Remove all but the logs; the broker's own is kept with the others."""
        if self._broker.log_file.exists():
            self._broker.log_file.rename(self.logs / "broker.log")
        for path in self.directory.iterdir():
            if path != self.logs and path.is_dir():
                shutil.rmtree(path)
        self._status_file.unlink(missing_ok=True)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def page_port(wanted: int | None) -> int:
    """Return the port for the page: the wanted one, else 8651, else a free one. Raises DemoFailed when the wanted one is taken."""
    if wanted is None:
        return APP_PORT if not _is_taken(APP_PORT) else free_port()
    if wanted == 0:
        return free_port()
    if _is_taken(wanted):
        raise DemoFailed(f"port {wanted} is taken: give another one with --port, or leave --port away for a free one")
    return wanted


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
