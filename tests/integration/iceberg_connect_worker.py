"""A real Kafka Connect that writes a topic into a table of Iceberg: a worker with one task, whose commits can be held up."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.flink_job import SOURCES as LOGGING
from demo.flink_job import missing
from demo.ports import free_port
from demo.prerequisites import ROOT, java_home
from indoubt.lifecycle.child_processes import die_with_parent

SOURCES = Path(__file__).with_name("iceberg_connect")
LIBRARIES = ROOT / ".run" / "test-iceberg-connect" / "libraries"
BUILD_LIMIT_S, LIMIT_S = 900.0, 90.0
CATALOG, TABLE = "tests", "db.orders"
HELD_UP_MS = 120_000


def fetch() -> None:
    """Fetch what a worker needs, unless that was done. Skips tests where it cannot be had, and says why."""
    if absent := missing():
        pytest.skip(f"no Kafka Connect is run: {absent} is missing on this machine")
    if not LIBRARIES.is_dir():
        draft = LIBRARIES.with_name("libraries.draft")
        shutil.rmtree(draft, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"), "dependency:copy-dependencies"]
        ended = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={draft}"],
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        if ended.returncode:
            pytest.skip(f"no Kafka Connect is run: Maven cannot fetch it: {(ended.stdout + ended.stderr)[-500:]}")
        draft.rename(LIBRARIES)


class ConnectWorker:
    """``name``: of its connector; ``libraries``: those of another release.

    In ``directory``, its own, the database ``catalog.db`` keeps the catalog, and ``warehouse`` has the tables.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        name: str,
        topic: str,
        control: str,
        directory: Path,
        libraries: Path = LIBRARIES,
    ) -> None:
        self._directory, self._libraries = directory, libraries
        self.group = f"connect-{name}"
        self.database, self.log = directory / "catalog.db", directory / "connect.log"
        self._process: subprocess.Popen[bytes] | None = None
        kafka = {"bootstrap.servers": bootstrap_servers, "session.timeout.ms": "6000"}
        worker = {
            **kafka,
            "listeners": f"http://127.0.0.1:{free_port()}",
            "plugin.discovery": "service_load",
            "offset.storage.file.filename": str(directory / "offsets"),
            "offset.flush.interval.ms": "1000",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "consumer.auto.offset.reset": "earliest",
            "consumer.session.timeout.ms": "6000",
        }
        sink = {
            "name": name,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "iceberg.tables": TABLE,
            "iceberg.catalog": CATALOG,
            "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "iceberg.catalog.jdbc.schema-version": "V1",
            # A statement that another writer keeps from the database waits instead of failing.
            "iceberg.catalog.uri": f"jdbc:sqlite:{self.database}?busy_timeout={HELD_UP_MS}",
            "iceberg.catalog.warehouse": f"file://{directory}/warehouse",
            "iceberg.control.topic": control,
            "iceberg.control.commit.interval-ms": "2000",
            "iceberg.control.commit.timeout-ms": "5000",
            **{f"iceberg.kafka.{name}": value for name, value in kafka.items()},
        }
        for file, properties in (("worker", worker), ("sink", sink)):
            text = "".join(f"{key}={value}\n" for key, value in properties.items())
            (directory / f"{file}.properties").write_text(text)

    @property
    def catalog(self) -> dict[str, str]:
        """Return how PyIceberg finds the catalog."""
        warehouse = f"file://{self._directory}/warehouse"
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": warehouse}

    def start(self) -> None:
        """Start it; it has ended when the test does."""
        logging = f"-Dlog4j2.configurationFile={LOGGING / 'log4j2.properties'}"
        java = [f"{java_home()}/bin/java", "-Xmx384m", logging, "-cp", f"{self._libraries}/*"]
        properties = [str(self._directory / f"{file}.properties") for file in ("worker", "sink")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*java, "org.apache.kafka.connect.cli.ConnectStandalone", *properties],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT_S)

    @contextmanager
    def commits_held_up(self) -> Iterator[None]:
        """Keep everybody from changing the catalog; it can be read."""
        other = sqlite3.connect(self.database, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            yield
        finally:
            other.close()
