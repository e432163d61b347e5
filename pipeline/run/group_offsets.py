"""Offsets of finished checkpoints, committed to a consumer group too, so that ordinary lag tools see the pipeline.

Nothing reads them back: Spark's own offset log says where a pipeline goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

LEFT_OUT = ("malformed", "too_long")
"""Observed metrics by which the jobs count rows that they leave out."""
ANSWER_LIMIT_S = 10.0
CLOSE_LIMIT_S = 5.0
RETRY_S = 0.5
_MOVING = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""Answers while the group's coordinator moves: they end within seconds."""


class GroupOffsets:
    """Commits the end offsets of each batch to the group, in a thread of its own; a failure is logged and stops nothing.

    By an admin client: a consumer's close waits for the answer to its last commit as long as no broker gives it.
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._group = group
        self._admin = AdminClient(connection.for_librdkafka(log_level=3), logger=log)
        self._changed = threading.Condition()
        self._newest: tuple[int, list[TopicPartition]] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._commit_newest, name=f"group-offsets-{group}", daemon=True)
        self._thread.start()

    def note(self, progress: Mapping[str, Any]) -> None:
        """Have it committed where this batch ended; only the newest batch is, where they come faster than answers.

        ``progress`` is what ``StreamingQueryProgress.json`` holds.
        """
        batch = progress["batchId"]
        for source in progress["sources"]:
            if not source["description"].startswith("Kafka"):
                continue
            try:
                positions = [
                    TopicPartition(topic, int(partition), int(offset))
                    for topic, partitions in (source["endOffset"] or {}).items()
                    for partition, offset in partitions.items()
                ]
            except (ValueError, AttributeError) as error:
                log.warning("group offsets of batch %s were not committed: %s", batch, error)
                continue
            if positions:
                with self._changed:
                    self._newest = (batch, positions)
                    self._changed.notify()
        for name, row in progress.get("observedMetrics", {}).items():
            if name in LEFT_OUT and row["rows"]:
                log.warning("batch %s: %d rows %s, left out", batch, row["rows"], name)

    def close(self) -> None:
        """Wait up to 5 s until the last offsets are committed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_LIMIT_S)
        if self._thread.is_alive():
            log.warning("the last group offsets may not be committed: no broker answered in %.0f s", CLOSE_LIMIT_S)

    def _commit_newest(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._closed)
                newest, self._newest = self._newest, None
            if newest is None:
                return
            batch, positions = newest
            try:
                if not self._commit(positions):
                    with self._changed:
                        # A newer batch's offsets take the place of these.
                        self._newest = self._newest or newest
                    time.sleep(RETRY_S)
            except KafkaException as error:
                log.warning("group offsets of batch %s were not committed: %s", batch, error)

    def _commit(self, positions: list[TopicPartition]) -> bool:
        """Commit; return False when it must be tried again. Raises KafkaException."""
        asked = [ConsumerGroupTopicPartitions(self._group, positions)]
        answer = self._admin.alter_consumer_group_offsets(asked, request_timeout=ANSWER_LIMIT_S)[self._group]
        answered = answer.result().topic_partitions
        refused = [position.error for position in answered if position.error is not None]
        if refused and all(error.code() in _MOVING for error in refused):
            return False
        if refused:
            raise KafkaException(refused[0])
        return True
