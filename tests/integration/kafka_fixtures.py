"""What the Kafka tests share: topics of their own, and a manager that writes into them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.lifecycle.identity import Fingerprint, Handle, Marker
from indoubt.resource_managers.fingerprint import RunningFingerprint
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.markers import KafkaMarkers
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.kafka.transaction import KafkaOpenTransaction
from indoubt.resource_managers.protocol import OpenTransactionView, SlotAttempt
from indoubt.resource_managers.topics.decision_log import DecisionLog

LIMIT_S = 20.0


def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker with data and port of its own: a fixture for modules that must be alone on their cluster."""
    with Broker(tmp_path_factory.mktemp("own-broker")) as running:
        yield running


def connection_to(broker: Broker) -> KafkaConnection:
    """Return a connection to the broker of a module that has one of its own."""
    return KafkaConnection(broker.bootstrap_servers)


def wait_until(what: str, holds: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Return the first true answer of ``holds``; fail naming what was waited for."""
    deadline = time.monotonic() + limit_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain for: {what}"
        time.sleep(0.02)
    return answer


def rows(*values: bytes, key: bytes | None = b"k") -> pa.RecordBatch:
    """Return a batch of values under one key."""
    return pa.record_batch({"key": pa.array([key] * len(values), pa.binary()), "value": pa.array(values, pa.binary())})


def fingerprint_of(*values: bytes) -> Fingerprint:
    """Return the fingerprint of ``rows(*values)``."""
    running = RunningFingerprint()
    running.add_batch(rows(*values))
    return running.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A topic and a prefix that no other test uses."""

    connection: KafkaConnection
    topic: str
    prefix: str

    def manager(self, timeout_ms: int = 60_000, **properties: str) -> KafkaResourceManager:
        """Return a manager that writes into the topic."""
        return KafkaResourceManager(
            self.connection,
            topic=self.topic,
            transaction_timeout_ms=timeout_ms,
            producer_properties=properties,
        )

    def stable_marker(self, slot: int = 0, limit_s: float = LIMIT_S) -> Marker | None:
        """Return the marker that this slot committed last; waits while a transaction of the slot is open."""
        return KafkaMarkers(self.connection, "transaction_decisions").stable(self.prefix, slot, limit_s)

    def begin(
        self,
        batch: int = 0,
        attempt: int = 1,
        slot: int = 0,
        checkpoint_id: str = "L",
        timeout_ms: int = 60_000,
        decided: Iterable[int] = (),
    ) -> KafkaOpenTransaction:
        """Begin a transaction of this prefix; ``decided``: attempts at this batch that the log knows of."""
        marker = Marker(batch=batch, attempt=attempt, checkpoint_id=checkpoint_id)
        attempt_there = SlotAttempt(prefix=self.prefix, slot=slot, marker=marker, decided=frozenset(decided))
        return self.manager(timeout_ms).begin(attempt_there)

    def prepare(
        self,
        *values: bytes,
        batch: int = 0,
        attempt: int = 1,
        slot: int = 0,
        checkpoint_id: str = "L",
        timeout_ms: int = 60_000,
    ) -> Handle:
        """Begin, write, prepare."""
        transaction = self.begin(batch, attempt, slot, checkpoint_id, timeout_ms)
        if values:
            transaction.write(rows(*values))
        return transaction.prepare(fingerprint_of(*values))

    def commit(self, handle: Handle, batch: int = 0, attempt: int = 1, checkpoint_id: str = "L") -> Any:
        """Return the outcome of one commit."""
        marker = Marker(batch=batch, attempt=attempt, checkpoint_id=checkpoint_id)
        return self.manager().commit([handle], [marker], LIMIT_S)[0]

    def view(self, id_: str) -> OpenTransactionView:
        """Return how the coordinator sees a transactional id."""
        return self.manager().describe([id_])[0]


def make_sink(connection: KafkaConnection, partitions: int = 2, **config: str) -> Sink:
    """Create a sink topic, and the decision log's topic if it is missing."""
    name = f"sink-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection).ensure_topic()
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(LIMIT_S)
    return Sink(connection=connection, topic=name, prefix=name)


def ids(views: Sequence[OpenTransactionView]) -> set[str]:
    """Return the transactional ids of views."""
    return {view.transaction for view in views}
