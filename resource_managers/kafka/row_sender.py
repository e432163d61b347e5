"""Rows to a topic by requests of our own: Arrow columns become Kafka's record batches, and no library sees a single record."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow as pa

from indoubt.lifecycle.errors import MissingTopic, ResourceManagerError, Unreachable
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.resource_managers.kafka.batch_builder import BatchBuilder
from indoubt.resource_managers.kafka.batch_delivery import BatchDelivery
from indoubt.resource_managers.kafka.connection import TOPIC_LIMIT_S, KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.producer_requests import ProducerRequests
from indoubt.resource_managers.kafka.record_batch import Producer
from indoubt.resource_managers.kafka.sink_input import ProducerProperties

NOBODY = Producer(producer_id=-1, producer_epoch=-1, is_transactional=False)


def find_leaders(connection: KafkaConnection, topic: str) -> Mapping[int, int]:
    """Return the broker that leads each partition of the topic; below 0: none does. Raises MissingTopic, Unreachable."""
    deadline = time.monotonic() + TOPIC_LIMIT_S
    while True:
        error: ResourceManagerError
        try:
            layout = KafkaPartitions(connection, "").layout([topic])
            found = {partition: node for (_, partition), node in layout.leaders.items()}
            found |= {partition: -1 for _, partition in layout.leaderless}
            if found:
                return found
            error = MissingTopic(f"topic {topic!r} does not exist: create it, or name another sink")
        except Unreachable as late:
            # One late answer of a busy broker does not fail the task.
            error = late
        if time.monotonic() > deadline:
            raise error
        time.sleep(0.05)


class RowSender:
    """The rows of one producer, in a transaction or without one."""

    def __init__(
        self,
        requests: ProducerRequests,
        topic: str,
        producer: Producer,
        leaders: Mapping[int, int],
        properties: ProducerProperties,
    ) -> None:
        self._builder = BatchBuilder(topic, leaders, producer, properties)
        self._delivery = BatchDelivery(requests, topic, producer, leaders)

    @property
    def rows(self) -> int:
        """Return the rows written so far."""
        return self._builder.rows

    @property
    def bytes(self) -> int:
        """Return the bytes of keys and values written so far."""
        return self._builder.bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Send what is complete with these rows, and keep the rest.

        Raises RecordTooLarge, Fenced, MissingTopic, Unreachable, SettingsError, ResourceManagerError.
        """
        for batch in self._builder.add(rows):
            self._delivery.give(batch)

    def flush(self) -> None:
        """Send everything and wait until all of it is acknowledged. Raises as ``write``."""
        for batch in self._builder.finish():
            self._delivery.give(batch)
        self._delivery.flush()

    def drop(self, limit_s: float) -> None:
        """Send nothing more, and wait for the answers to what is on its way."""
        self._delivery.drop(limit_s)


class KafkaPlainWriter(RowSender):
    """Writes without a transaction: at_least_once waits until every row is stored, none sends each batch once.

    Raises MissingTopic, Unreachable, ResourceManagerError.
    """

    def __init__(
        self, connection: KafkaConnection, topic: str, properties: ProducerProperties, guarantee: DeliveryGuarantee
    ) -> None:
        requests = ProducerRequests(connection=connection)
        leaders = find_leaders(connection, topic)
        producer = NOBODY if guarantee is DeliveryGuarantee.NONE else requests.take_id()
        super().__init__(requests, topic, producer, leaders, properties)

    def finish(self) -> None:
        """Wait until every batch is answered. Raises as ``write``; with none only MissingTopic, Unreachable."""
        self.flush()

    def abort(self) -> None:
        """Send nothing more."""
        self.drop(0.0)
