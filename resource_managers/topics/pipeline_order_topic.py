"""The topic of orders to pipelines' supervisors: written by the collector, read by supervisors."""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, Producer

from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.pipeline_orders import PipelineOrder, encode
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.topic_follower import TopicFollower

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


def reader(connection: KafkaConnection, topic: str) -> TopicFollower:
    """Return a reader of the topic from its beginning."""
    return TopicFollower(connection, topic, "indoubt-pipeline-orders")
