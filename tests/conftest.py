"""The real broker and the real databases, each started once for the whole run when a test asks for it."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from indoubt.resource_managers.kafka.connection import KafkaConnection

# Most of the tests' JVMs end within a minute: the quick compiler alone takes a quarter less processor time of them.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# kafka-python tells of each attempt to reach a broker that a test has stopped: thousands of lines above a failure.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


BEGAN_S = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let ``python -m tests.brokers`` run tests on brokers of other releases, and a run end in time."""
    parser.addoption(
        "--minutes", type=float, help="begin no test after so long; what was not begun is skipped and named"
    )
    parser.addoption("--kafka-jars", type=Path, help="directory of the jars of another Kafka release")
    parser.addoption("--transaction-version", type=int, help="transaction.version at which brokers are formatted")


def pytest_configure(config: pytest.Config) -> None:
    """Have every broker of this run be of that release, and note when the run began."""
    config.stash[BEGAN_S] = time.monotonic()
    Broker.jars = config.getoption("--kafka-jars") or Broker.jars
    Broker.transaction_version = config.getoption("--transaction-version")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what is marked so come last: where the time is over before all is run, less of it is."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin nothing after ``--minutes``."""
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - item.config.stash[BEGAN_S] > minutes * 60:
        pytest.skip(f"{item.nodeid}: the {minutes:g} minutes of this run were over")


def pytest_collection_finish() -> None:
    """Have the garbage collector leave the nine thousand tests alone: they are all kept until the end."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """At the exit nothing is left: nanobind lists what is."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a running broker with data and port of its own."""
    with Broker(Path(tmp_path_factory.mktemp("broker"))) as running:
        yield running


@pytest.fixture(scope="session")
def connection(broker: Broker) -> KafkaConnection:
    """Return a connection to the broker."""
    return KafkaConnection(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """Return a running MariaDB with data and port of its own."""
    with MariaDbServer(Path(tmp_path_factory.mktemp("mariadb"))) as running:
        yield running


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Return a running PostgreSQL with data and port of its own, and room for 2,000 prepared transactions."""
    with PostgresServer(Path(tmp_path_factory.mktemp("postgres"))) as running:
        yield running
