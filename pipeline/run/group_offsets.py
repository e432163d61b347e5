"""Offsets of finished checkpoints, committed to a consumer group too, so that ordinary lag tools see the pipeline.

Nothing reads them back: Spark's own offset log says where a pipeline goes on.
"""

from __future__ import annotations

import json
import logging

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

LEFT_OUT = ("malformed", "too_long")
"""Observed metrics by which the jobs count rows that they leave out."""


class GroupOffsets(StreamingQueryListener):
    """Commits the end offsets of each batch to the group, without waiting; a failure is logged and stops nothing."""

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._consumer = Consumer(
            connection.for_librdkafka(**{"group.id": group, "enable.auto.commit": False, "log_level": 3}), logger=log
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit where this batch ended."""
        for source in event.progress.sources:
            if not source.description.startswith("Kafka"):
                continue
            try:
                offsets = json.loads(source.endOffset or "{}")
                positions = [
                    TopicPartition(topic, int(partition), int(offset))
                    for topic, partitions in offsets.items()
                    for partition, offset in partitions.items()
                ]
                if positions:
                    self._consumer.commit(offsets=positions, asynchronous=True)
            except (ValueError, AttributeError, KafkaException) as error:
                log.warning("group offsets of batch %s were not committed: %s", event.progress.batchId, error)
        for name, row in event.progress.observedMetrics.items():
            if name in LEFT_OUT and row["rows"]:
                log.warning("batch %s: %d rows %s, left out", event.progress.batchId, row["rows"], name)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
