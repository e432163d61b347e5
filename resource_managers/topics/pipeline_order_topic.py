"""The topic of orders to pipelines' supervisors: written by the collector, read by supervisors."""

from __future__ import annotations

import logging
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.pipeline_orders import PipelineOrder, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.stalled_partitions import StalledPartitions

CALL_LIMIT_S = 10.0
log = logging.getLogger(__name__)


def write_order(connection: KafkaConnection, topic: str, order: PipelineOrder) -> None:
    """Append an order with acks=all. Raises Unreachable; it may then have landed."""
    errors: list[KafkaError | None] = []
    properties = {"acks": "all", "message.timeout.ms": round(CALL_LIMIT_S * 1000), "log_level": 2}
    producer = Producer(connection.for_librdkafka(**properties), logger=log)
    producer.produce(topic, encode(order), key=order.run.prefix, on_delivery=lambda error, _: errors.append(error))
    deadline = time.monotonic() + 2 * CALL_LIMIT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    if not errors or errors[0] is not None:
        why = errors[0].str() if errors and errors[0] is not None else f"no answer in {2 * CALL_LIMIT_S:.0f} s"
        raise Unreachable(f"order {order.id} could not be written to {topic!r}: {why}")


class OrderReader:
    """Reads the topic from its beginning; a context manager."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        settings = {"group.id": "indoubt-pipeline-orders", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        settings["enable.partition.eof"] = True
        self._consumer = Consumer(connection.for_librdkafka(**settings, log_level=2), logger=log)
        self._topic = topic
        admin = AdminClient(connection.for_librdkafka(log_level=2), logger=log)
        self._stalled = StalledPartitions(admin, topic)
        self._read_to: dict[int, int] = {}

    def __enter__(self) -> OrderReader:
        try:
            found = self._consumer.list_topics(self._topic, timeout=CALL_LIMIT_S).topics[self._topic].partitions
        except KafkaException as error:
            self._consumer.close()
            raise Unreachable(f"topic {self._topic!r} cannot be read: {error.args[0].str()}") from None
        self._read_to = dict.fromkeys(found, 0)
        self._consumer.assign([TopicPartition(self._topic, number, 0) for number in found])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, limit_s: float) -> Message | None:
        """Return the next record within ``limit_s``. Raises Unreachable."""
        message = self._consumer.poll(limit_s)
        if message is None:
            if stalled := self._stalled.found(self._read_to):
                raise Unreachable(f"nothing of partition {stalled} of topic {self._topic!r} is read any more")
            return None
        is_end = (error := message.error()) is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not is_end:
            raise Unreachable(f"topic {self._topic!r} cannot be read: {error.str()}")
        self._read_to[message.partition()] = message.offset() + (0 if is_end else 1)
        return None if is_end else message
