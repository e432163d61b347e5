"""The real broker, started once for the whole run, and connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.broker import Broker
from resource_managers.kafka_connection import KafkaConnection


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a running broker with data and port of its own."""
    with Broker(Path(tmp_path_factory.mktemp("broker"))) as running:
        yield running


@pytest.fixture(scope="session")
def connection(broker: Broker) -> KafkaConnection:
    """Return a connection to the broker."""
    return KafkaConnection(broker.bootstrap_servers)
