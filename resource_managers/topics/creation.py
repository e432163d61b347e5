"""Creates a topic of ours where it is missing."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lifecycle.errors import ResourceManagerError, Unreachable
from resource_managers.kafka.connection import KafkaConnection

RETENTION_MS = 7 * 24 * 3600 * 1000
CALL_LIMIT_S = 10.0
log = logging.getLogger(__name__)


def ensure_topic(connection: KafkaConnection, topic: str) -> None:
    """Create the topic if it is missing: one partition, kept for a week.

    Raises Unreachable, and ResourceManagerError saying what to do where it may not be made.
    """
    admin = AdminClient(connection.for_librdkafka(log_level=2), logger=log)
    try:
        there = admin.list_topics(timeout=CALL_LIMIT_S).topics
    except KafkaException as error:
        raise Unreachable(f"topics of {connection.bootstrap_servers} cannot be listed: {error.args[0].str()}") from None
    if topic in there:
        return
    new = NewTopic(topic, 1, -1, config={"retention.ms": str(RETENTION_MS)})
    try:
        admin.create_topics([new])[topic].result(CALL_LIMIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise ResourceManagerError(
                f"topic {topic!r} is missing and could not be made: {error.args[0].str()}; create it with one partition "
                f"(kafka-topics.sh --create --topic {topic} --partitions 1)"
            ) from None
