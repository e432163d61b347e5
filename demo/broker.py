"""A real single-node Kafka broker (KRaft) from its Maven jars, on loopback, in a directory of its own.

``python -m demo.broker --directory DIR [--port PORT]`` runs a broker until Ctrl-C. Tests and benchmarks use ``Broker``.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from demo.ports import free_port, listens
from demo.prerequisites import ARCHIVE_LOG_OFF, BROKER_CLASSES, JARS, java_home
from demo.server import Server, ServerFailed

START_LIMIT_S = 60.0
ASK_LIMIT_S = 2.0
PORT_TRIES = 3
HEAP = "768m"
CLASSES = (f"-XX:SharedArchiveFile={BROKER_CLASSES}", ARCHIVE_LOG_OFF)
"""Read the broker's class data archive where it is there and fits. Formatting a directory takes a third less with it."""


class BrokerFailed(ServerFailed):
    """The broker did not start or stop; the message has the end of its log."""


def new_cluster_id() -> str:
    """Return an id for a new cluster."""
    # StorageTool reads a leading "-" as an option, so the first character is fixed.
    return "c" + base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")[1:]


class Broker(Server):
    """A broker process. By default it takes free ports.

    ``classes``: the JVM's flags for class data archives (demo/class_archives.py). ``client``: librdkafka settings that the
    listener requires of clients (a login), for the check whether the broker answers.
    """

    what, failure = "broker", BrokerFailed
    jars = JARS / "broker"
    transaction_version: int | None = None
    """The feature level for the first start (None: the release's default). Set it, like ``jars``, on the class or a broker."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        settings: dict[str, str] | None = None,
        classes: Sequence[str] = CLASSES,
        client: dict[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self._port_is_given = port is not None
        self.port = port or free_port()
        self._controller_port = free_port()
        self._client = client or {}
        self._settings = settings or {}
        self._classes = classes
        self._cluster_id = new_cluster_id()

    @property
    def bootstrap_servers(self) -> str:
        """Return ``127.0.0.1:<port>``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        """Return the broker's log file."""
        return self.directory / "broker.log"

    def start(self) -> Self:
        """Format the directory if it is new, start, and wait until the broker answers. Raises BrokerFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if listens(self.port):
            raise BrokerFailed(
                f"port {self.port} is in use: choose another port, or end the program that listens on it"
            )
        tries = 1 if self._port_is_given or self._is_formatted() else PORT_TRIES
        while True:
            try:
                self._start_once()
                return self
            except BrokerFailed as error:
                # Another process may take a free port before the broker's JVM listens on it.
                tries -= 1
                if tries == 0 or "Address already in use" not in str(error):
                    raise
                self.port, self._controller_port = free_port(), free_port()

    def _start_once(self) -> None:
        configuration = self._write_configuration()
        self.what = f"broker on port {self.port}"
        if not self._is_formatted():
            self._format(configuration)
        self._run([*self._java(HEAP, self._classes), "kafka.Kafka", str(configuration)])

    def _is_formatted(self) -> bool:
        return self._meta_properties.exists()

    @property
    def _meta_properties(self) -> Path:
        return self.directory / "data" / "meta.properties"

    def _answers(self) -> bool:
        """Return whether this cluster, not another one on its port, answers and has a broker that can create topics.

        A broker listens before its controller registers it.
        """
        if not listens(self.port):
            return False
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **self._client})
        try:
            cluster = admin.describe_cluster(request_timeout=ASK_LIMIT_S).result(2 * ASK_LIMIT_S)
        except (KafkaException, TimeoutError):
            return False
        ours = f"cluster.id={cluster.cluster_id}" in self._meta_properties.read_text().splitlines()
        return ours and bool(cluster.nodes) and cluster.controller is not None

    def _configuration(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "num.partitions": "4",
            "offsets.topic.num.partitions": "8",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "8",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # Timed-out transactions end within a second of their timeout instead of ten: a demo should not wait.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            # The controller registers a killed and restarted broker only after its old session has ended.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
            **self._settings,
        }

    def _write_configuration(self) -> Path:
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self._configuration().items()))
        (self.directory / "log4j2.properties").write_text(LOGGING)
        (self.directory / "log4j.properties").write_text(LOGGING_BEFORE_4_0)
        return path

    def _format(self, configuration: Path) -> None:
        cluster = self._cluster_id
        command = [
            *self._java("128m", CLASSES),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(configuration),
        ]
        if self.transaction_version is not None:
            command += ["--feature", f"transaction.version={self.transaction_version}"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
        )
        if done.returncode != 0:
            raise BrokerFailed(
                f"the broker's directory {self.directory} could not be formatted: {done.stderr.strip() or done.stdout.strip()}"
            )

    def _java(self, heap: str, more: Sequence[str]) -> list[str]:
        if not any(self.jars.glob("kafka_2.13-*.jar")):
            raise BrokerFailed(f"no broker jars in {self.jars}: run 'make setup'")
        flags = [f"-Xmx{heap}", f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"]
        flags += [f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}"]
        return [f"{java_home()}/bin/java", *flags, *more, "-cp", f"{self.jars}/*"]


LOGGING = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
logger.coordinator.name=org.apache.kafka.coordinator.transaction
logger.coordinator.level=INFO
"""


LOGGING_BEFORE_4_0 = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c{1})%n
log4j.logger.kafka.coordinator.transaction=INFO
"""


def main() -> int:
    """Run a broker until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    with Broker(arguments.directory, arguments.port) as broker:
        print(broker.bootstrap_servers, flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            while broker.pid is not None:
                time.sleep(0.2)
            print(f"the broker ended by itself; read its log {broker.log_file}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
