"""A supervised pipeline as a real process, and the independent reader that judges what it wrote."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from demo.prerequisites import java_home
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.pipeline.config.settings import CRASH_POINTS_VARIABLE, ROOT
from indoubt.resource_managers.kafka.connection import KafkaConnection

LIMIT_S = 180.0
"""Generous: on a busy machine a first batch takes more than a minute."""
# A driver lives for seconds here, so the JVM's second compiler and threads that collect garbage cost more than they save.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_START = f"spark.driver.extraJavaOptions={QUICK_JVM},spark.driver.memory=1g"


def wait_until(what: str, holds: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Return the first true answer of ``holds``; fail naming what was waited for."""
    deadline = time.monotonic() + limit_s
    while True:
        began = time.monotonic()
        if answer := holds():
            return answer
        checked_s = time.monotonic()
        if checked_s > deadline:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for: {what}")
        # A check that costs much is made less often: it would slow down what it waits for.
        time.sleep(min(max(0.1, 4 * (checked_s - began)), 1.0))


def make_topics(connection: KafkaConnection, *topics: str, partitions: int = 2) -> None:
    """Create topics that do not exist yet."""
    admin = AdminClient(connection.for_librdkafka())
    there = admin.list_topics(timeout=30).topics
    new = [NewTopic(topic, partitions) for topic in topics if topic not in there]
    for future in (admin.create_topics(new) if new else {}).values():
        future.result(30)


def produce(connection: KafkaConnection, topic: str, values: list[bytes], partitions: int = 0) -> None:
    """Write values and wait until all are there; over so many partitions in turns, or where the producer puts them."""
    producer = Producer(connection.for_librdkafka(**{"message.max.bytes": 10_000_000}))
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions if partitions else -1)
        producer.poll(0)
    assert producer.flush(60) == 0


def read_committed(connection: KafkaConnection, topic: str, isolation: str = "read_committed") -> Counter[bytes]:
    """Return every value that a read_committed reader sees now, with how often; stops at the last stable offset."""
    settings = {"group.id": "judge", "isolation.level": isolation, "enable.partition.eof": True}
    # The fetch that finds the end waits so long before it says so.
    settings |= {"enable.auto.commit": False, "fetch.wait.max.ms": 20}
    consumer = Consumer(connection.for_librdkafka(**settings))
    partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: Counter[bytes] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + LIMIT_S
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"{topic} was not read to its end in {LIMIT_S:.0f} s"
        for message in consumer.consume(1000, 0.05):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(str(message.error()))
    consumer.close()
    return found


def open_transactions(connection: KafkaConnection, prefix: str) -> list[str]:
    """Return the transactional ids with this beginning that the brokers list as open or being completed."""
    admin = KafkaAdminClient(**connection.for_kafka_python())
    try:
        listings = [t for found in admin.list_transactions().values() for t in found]
        busy = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
        return [t.transactional_id for t in listings if t.state.value in busy and t.transactional_id.startswith(prefix)]
    finally:
        admin.close()


def abort_by_taking_ids(connection: KafkaConnection, ids: Sequence[str]) -> None:
    """Take transactional ids: that aborts what is open under them; what is committed stays."""
    for id_ in ids:
        Producer(connection.for_librdkafka(**{"transactional.id": id_})).init_transactions(30)


def stands_still(pid: int) -> bool:
    """Say whether each thread of a process is stopped; one that has ended runs no more either."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states <= {"T", "X", "Z"}


class PipelineProcess:
    """``indoubt pipeline run``: a context manager that leaves no process behind."""

    program: Sequence[str | Path] = (sys.executable, "-m", "indoubt.pipeline")
    """Another one, for an instance: the installed one."""
    cwd = ROOT
    environment: Mapping[str, str] = {}
    """More of it, for an instance."""

    def __init__(self, connection: KafkaConnection, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.status_file = directory / "status.json"
        self.log_file = directory / "pipeline.log"
        self.crash_points = directory / "crash-points"
        self.crash_points.mkdir(exist_ok=True)
        self.settings = {
            "job": "passthrough",
            "bootstrap_servers": connection.bootstrap_servers,
            "checkpoint": str(directory / "checkpoint"),
            "trigger_interval_ms": 500,
            "restart_delay_ms": 500,
            "restart_attempts": 5,
            "status_file": str(self.status_file),
            "spark_properties": QUICK_START,
            **settings,
        }

    def start(self) -> PipelineProcess:
        """Start the supervisor."""
        command = self.command("run")
        environment = {**os.environ, "JAVA_HOME": java_home(), CRASH_POINTS_VARIABLE: str(self.crash_points)}
        environment |= self.environment
        self._log = self.log_file.open("ab")
        self.process = subprocess.Popen(
            command, cwd=self.cwd, env=environment, stdout=self._log, stderr=self._log, preexec_fn=die_with_parent
        )
        return self

    def command(self, name: str) -> list[str | Path]:
        """Return a command of the pipeline's with its settings."""
        given = [("--" + setting.replace("_", "-"), str(value)) for setting, value in self.settings.items()]
        return [*self.program, name, *(word for pair in given for word in pair)]

    def arm(self, point: str, deed: str) -> None:
        """Arm a crash point (see pipeline/runtime/crash_points.py)."""
        (self.crash_points / point).write_text(deed)

    def reached(self, point: str) -> bool:
        """Say whether an armed crash point struck, and every process that it concerns stands still or has ended."""
        return self.struck_at(point) is not None

    def struck_at(self, point: str) -> int | None:
        """Return the process that came to an armed crash point, once it stands still or has ended."""
        file = self.crash_points / f"{point}.reached"
        pid = int(file.read_text()) if file.exists() else None
        return pid if pid is not None and stands_still(pid) else None

    @property
    def status(self) -> dict[str, Any]:
        """Return the status file, empty before there is one."""
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}

    @property
    def log(self) -> str:
        """Return everything the pipeline said."""
        return self.log_file.read_text(errors="replace")

    def kill_driver(self) -> None:
        """End driver and JVM by SIGKILL, frozen or not; the supervisor restarts them."""
        for name in ("driver_pid", "jvm_pid"):
            os.kill(self.status[name], signal.SIGKILL)

    def wait_exit(self, limit_s: float = LIMIT_S) -> int:
        """Return the supervisor's exit code."""
        return self.process.wait(limit_s)

    def stop(self) -> None:
        """Stop in order, then by force."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(70)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()

    def __enter__(self) -> PipelineProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            error.add_note(f"the pipeline's log ends:\n{self.log[-3000:]}")
