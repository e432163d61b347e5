"""A run of the demo: starts and ends broker, topics, collector, pipeline, generator and, with pages, the app."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException

from demo import downstream, flink_job, guard, prerequisites, topics
from demo.broker import Broker
from demo.checkpoint_directory import CheckpointDirectory
from demo.flink_job import FlinkJob
from demo.kafka_cluster import KafkaCluster
from demo.ports import free_port, is_taken
from demo.prerequisites import ROOT, java_home
from demo.processes import STOP_LIMIT_S, Child, Part
from demo.waiting import DemoFailed, T, wait_until
from demo.whole_cluster import WholeCluster
from indoubt.lifecycle.clock import now_ms

PREFIX = "ip-count"
APP_PORT = 8651
START_LIMIT_S = 180.0
TRIGGER_INTERVAL_MS = 3_000
"""With what a batch takes until its decision, a fault strikes within 5 s of its button."""
FOREIGN_OLD_MS = "10000"
"""Earlier than by default: the demo should not wait half a minute until an abandoned transaction needs attention."""


def say(text: str) -> None:
    """Print a line of progress on stderr, with the seconds since the demo started."""
    prerequisites.say(text, "demo")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """A run's directory, records per second, restarts in a row before the pipeline gives up, and whether it keeps its data."""

    directory: Path
    rate: float
    restart_attempts: int
    keep: bool = False
    flink: bool = False
    """A Flink job beside the pipeline, where it can be built."""
    cluster: bool = False
    """Three brokers, Spark's standalone cluster and an object store, instead of one broker and Spark in the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """The state that the pipeline's supervisor reports; a pid is None while that process does not run."""

    state: str
    driver_pid: int | None
    jvm_pid: int | None
    restarts: int


class DemoRun:
    """Starts the parts and, as a context manager, ends all of them on exit, whatever happened."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.directory = settings.directory.resolve()
        self.operator_token = secrets.token_urlsafe(24)
        self._mark = secrets.token_hex(8)
        self._cluster = WholeCluster(self.directory / "cluster") if settings.cluster else None
        self._broker: Broker | KafkaCluster = (
            self._cluster.kafka if self._cluster else Broker(self.directory / "broker")
        )
        self._class_archives: Child | None = None
        self._parts: dict[str, Part] = {}
        self.happened: list[tuple[int, str]] = []
        """Ends and restarts of parts, oldest first, as (epoch ms, sentence)."""
        self._guard: subprocess.Popen[bytes] | None = None
        self.collector_url = ""
        self.app_url = ""
        self._flink: FlinkJob | None = None

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
    def checkpoint(self) -> CheckpointDirectory:
        """Return the pipeline's checkpoint directory."""
        return (
            self._cluster.checkpoint(PREFIX)
            if self._cluster
            else CheckpointDirectory(str(self.directory / "checkpoint"))
        )

    @property
    def crash_points(self) -> Path:
        """Return the directory in which a file arms a crash point of the driver."""
        return self.directory / "crash-points"

    @property
    def logs(self) -> Path:
        """Return the directory of the parts' logs."""
        return self.directory / "logs"

    def build_flink(self) -> None:
        """Build the Flink job, if one is wanted; where it cannot be built, say why and go on without."""
        if not self.settings.flink:
            return
        if absent := flink_job.missing():
            say(f"no Flink job: {absent} is missing")
            return
        say("building the Flink job (the first time Maven downloads about 100 MB) …")
        try:
            flink_job.build()
        except DemoFailed as error:
            say(f"no Flink job: {error}")
            return
        self._flink = FlinkJob(port=free_port(), checkpoints=self.directory / "flink-checkpoints")

    def start_broker(self) -> None:
        """Start a real broker, or all of a cluster, and create the topics."""
        try:
            if self._cluster is not None:
                say("starting three Kafka brokers, Spark's master and two workers, and an object store …")
                self._cluster.start()
            else:
                say("starting a Kafka broker …")
                self._broker.start()
            topics.create_topics(self.bootstrap_servers, [flink_job.TOPIC] if self._flink is not None else [])
        except KafkaException as error:
            why = f"{error.args[0].str()}; read the broker's log {self._broker.log_file}"
            raise DemoFailed(f"the broker did not create the demo's topics: {why}") from None
        say(f"Kafka {self.bootstrap_servers}, topics {', '.join(topic.topic for topic in topics.TOPICS)}")

    def start_collector(self, *, public_url: str = "", fault_injection_url: str = "") -> None:
        """Start the collector; its API answers when ``wait_for_collector`` returns.

        ``public_url``: where its notifications link to; ``fault_injection_url``: what starts a stopped pipeline again.
        """
        port = free_port()
        self.collector_url = f"http://127.0.0.1:{port}"
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--directory", str(self.directory / "collector")]
        arguments += ["--port", str(port), "--checkpoint", f"{PREFIX}={self.checkpoint.setting}"]
        arguments += ["--public-url", public_url] if public_url else []
        arguments += self._flink.arguments if self._flink is not None else []
        if fault_injection_url:
            command = shlex.join([sys.executable, "-m", "demo.start_pipeline", fault_injection_url])
            arguments += ["--start-command", f"{PREFIX}={command}"]
        environment = {
            "INDOUBT_OPERATOR_TOKEN": f"demo:{self.operator_token}",
            "INDOUBT_FOREIGN_OLD_MS": FOREIGN_OLD_MS,
            **(self._cluster.store.environment if self._cluster else {}),
        }
        self._start("collector", "indoubt.collector", arguments, environment)

    def wait_for_collector(self) -> None:
        """Wait until the collector's API answers."""
        health = f"{self.collector_url}/api/v1/health"
        self.wait_for(f"the collector at {health}", lambda: _answers(health), START_LIMIT_S)
        say(f"collector {self.collector_url}")

    def start_pipeline(self) -> None:
        """Start the pipeline's supervisor; its driver needs about ten seconds (``wait_for_pipeline``)."""
        arguments = ["run", "--job", "ip_count", "--bootstrap-servers", self.bootstrap_servers]
        arguments += ["--checkpoint", self.checkpoint.setting, "--prefix", PREFIX]
        arguments += ["--source", topics.SOURCE, "--sink", topics.SINK]
        arguments += ["--trigger-interval-ms", str(TRIGGER_INTERVAL_MS), "--status-file", str(self._status_file)]
        arguments += ["--restart-delay-ms", "2000", "--restart-attempts", str(self.settings.restart_attempts)]
        for name, value in (self._cluster.pipeline_settings() if self._cluster else {}).items():
            arguments += [f"--{name.replace('_', '-')}", value]
        environment = {"INDOUBT_CRASH_POINTS": str(self.crash_points), "JAVA_HOME": java_home()}
        environment |= self._cluster.pipeline_environment if self._cluster else {}
        self._start("pipeline", "indoubt.pipeline", arguments, environment)

    def start_flink(self) -> None:
        """Start the Flink job, if there is one; its first checkpoint comes after about ten seconds."""
        if self._flink is None:
            return
        self._flink.checkpoints.mkdir(exist_ok=True)
        command = self._flink.command(self.bootstrap_servers)
        self._parts["flink"] = Part("flink", command, self.logs / "flink.log", {})
        say(f"Flink writes {flink_job.TOPIC}; its REST API is http://127.0.0.1:{self._flink.port}")

    def wait_for_pipeline(self) -> None:
        """Wait until Spark runs the query."""
        say("waiting for the Spark pipeline …")
        what = f"the pipeline to run (its log: {self.logs / 'pipeline.log'})"
        self.wait_for(what, lambda: self.pipeline_status().state == "running", START_LIMIT_S)
        say("pipeline running")

    def start_generator(self, *, close: bool = False) -> None:
        """Start the traffic; with ``close`` its last records close every window."""
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--topic", topics.SOURCE]
        arguments += ["--rate", str(self.settings.rate), *(["--close"] if close else [])]
        self._start("generator", "demo.generator", arguments, {})
        say(f"generator: {self.settings.rate:g} records/s")

    def start_downstream(self) -> None:
        """Start a read_committed consumer group behind the pipeline, which waits when a transaction stays open."""
        arguments = ["--bootstrap-servers", self.bootstrap_servers, "--topic", topics.SINK]
        self._start("downstream", "demo.downstream", arguments, {})
        say(f"consumer group {downstream.GROUP} reads {topics.SINK}")

    def end_generator(self) -> None:
        """End the traffic in order. Raises DemoFailed if some of it was not delivered."""
        child = self._parts.pop("generator").child
        child.stop(STOP_LIMIT_S * 2)
        if child.exit_code != 0:
            raise DemoFailed(f"the generator ended with code {child.exit_code}; its log:\n{child.tail()}")

    def start_app(self, port: int, fault_injection_url: str) -> None:
        """Start the app on that port; its pages answer when ``wait_for_app`` returns."""
        self.app_url = page_url(port)
        environment = {"INDOUBT_TOKEN": self.operator_token, "INDOUBT_FAULT_INJECTION_URL": fault_injection_url}
        self._start("app", "indoubt.app", ["--collector", self.collector_url, "--port", str(port)], environment)

    def wait_for_app(self) -> None:
        """Wait until the app's pages answer."""
        health = f"{self.app_url}/_stcore/health"
        self.wait_for(f"the app at {self.app_url}", lambda: _answers(health), START_LIMIT_S)

    def archive_classes(self) -> None:
        """Make class data archives for the next start, unless there are some, at the lowest priority."""
        command = ["nice", "-n", "19", sys.executable, "-m", "demo.class_archives"]
        self._class_archives = Child("class_archives", command, self.logs / "class_archives.log", {})

    def pipeline_status(self) -> PipelineStatus:
        """Return the pipeline's status; its state is ``starting`` until the supervisor writes the status file."""
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

    @property
    def pipeline_commits(self) -> bool:
        """Return whether the pipeline has committed a batch since its driver was started last."""
        try:
            started_ns = self._status_file.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        return max(self.checkpoint.files("commits").values(), default=0) > started_ns

    def check_running(self) -> None:
        """Start each ended part again. Raises DemoFailed if a restart cannot help, for example without a broker."""
        if self._broker.pid is None:
            raise DemoFailed(f"the broker ended, so the demo ends; read its log {self._broker.log_file}")
        for event in self._cluster.keep() if self._cluster else ():
            say(event)
            self.happened.append((now_ms(), event))
        for name, part in list(self._parts.items()):
            code = part.child.exit_code
            if name == "pipeline" and code == 0:
                say("an order stopped the pipeline")
                del self._parts[name]
                continue
            if name == "pipeline" and code is not None and code > 0:
                # Its supervisor gave up, or its settings are wrong; the supervisor counts restarts itself.
                part.child.check_running()
            event = part.keep()
            if event:
                say(event)
                self.happened.append((now_ms(), event))

    @property
    def pipeline_is_stopped(self) -> bool:
        """Return whether an order stopped the pipeline, so that no supervisor runs."""
        return "pipeline" not in self._parts

    def wait_for(self, what: str, check: Callable[[], T | bool | None], limit_s: float) -> T:
        """Return the first true answer of ``check`` while every part keeps running. Raises DemoFailed, naming ``what``."""
        return wait_until(what, check, limit_s, self.check_running)

    def stop_pipeline(self) -> None:
        """End the pipeline in order, so that its supervisor settles every transaction. Raises DemoFailed if it ended before."""
        if self.pipeline_is_stopped:
            raise DemoFailed(f"the pipeline ended before the end of the run; read its log {self.logs / 'pipeline.log'}")
        self._parts.pop("pipeline").child.stop(STOP_LIMIT_S * 2)

    def stop(self) -> None:
        """End the writers first and the broker last, then every other process with this run's mark."""
        # Without a broker no part can end in order: a writer would try to deliver its rows or to roll them back.
        limit_s = STOP_LIMIT_S if self._broker.pid is not None else 0.0
        for name in ("generator", "pipeline", "flink", "downstream", "app", "collector"):
            if name in self._parts:
                self._parts.pop(name).child.stop(limit_s)
        if self._class_archives is not None:
            self._class_archives.stop(limit_s)
        if self._cluster is not None:
            self._cluster.stop()
        self._broker.stop()
        left = guard.end_marked(self._mark)
        if left:
            say(f"ended {len(left)} processes that still ran: {left}")
        os.environ.pop(guard.MARK, None)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait(STOP_LIMIT_S)

    @property
    def _status_file(self) -> Path:
        return self.directory / "pipeline-status.json"

    def _start(self, name: str, module: str, arguments: list[str], environment: dict[str, str]) -> Child:
        command = [sys.executable, "-m", module, *arguments]
        part = self._parts[name] = Part(name, command, self.logs / f"{name}.log", environment)
        return part.child

    def _remove_data(self) -> None:
        """Remove everything but the logs, including the broker's log."""
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


def page_url(port: int) -> str:
    """Return the address of the pages on this port."""
    return f"http://127.0.0.1:{port}"


def page_port(wanted: int | None) -> int:
    """Return the page's port: the wanted port (0: a free port), else 8651, else a free port.

    Raises DemoFailed if the wanted port is in use.
    """
    if wanted is None:
        return APP_PORT if not is_taken(APP_PORT) else free_port()
    if wanted == 0:
        return free_port()
    if is_taken(wanted):
        raise DemoFailed(f"port {wanted} is in use: choose another port with --port, or omit --port for a free port")
    return wanted
