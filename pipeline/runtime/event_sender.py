"""Lifecycle events on their way to Kafka: sending never blocks and never fails the pipeline."""

from __future__ import annotations

import logging
import os
from typing import Any

from confluent_kafka import KafkaException, Producer

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.events import CONTENT_TYPE, EventType, LifecycleEvent, encode
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

_HEADERS = [("content-type", CONTENT_TYPE.encode())]
_producers: dict[tuple[int, KafkaConnection], Producer] = {}


def _producer(connection: KafkaConnection) -> Producer:
    # One per process: Spark reuses its Python workers, and forks them (a producer does not survive a fork).
    key = (os.getpid(), connection)
    if key not in _producers:
        _producers[key] = Producer(
            connection.for_librdkafka(
                **{"linger.ms": 5, "queue.buffering.max.messages": 10_000, "message.timeout.ms": 30_000, "log_level": 2}
            ),
            logger=log,
        )
    return _producers[key]


class EventSender:
    """Sends the events of one pipeline; an empty topic sends none. What cannot be queued is counted in ``dropped``."""

    def __init__(
        self, connection: KafkaConnection, topic: str, *, pipeline: str, checkpoint_id: str, attempt: int
    ) -> None:
        self._connection, self._topic = connection, topic
        self._pipeline, self._run = (
            pipeline,
            {"pipeline": pipeline, "checkpoint_id": checkpoint_id, "attempt": attempt},
        )
        self.dropped = 0

    def send(self, type_: EventType, subject: str, data: dict[str, Any]) -> None:
        """Queue one event, keyed by its subject."""
        if not self._topic:
            return
        event = LifecycleEvent(
            type=type_,
            source=f"/pipeline/{self._pipeline}",
            subject=subject,
            at_ms=now_ms(),
            data={**self._run, **data},
        )
        try:
            producer = _producer(self._connection)
            producer.produce(self._topic, encode(event), key=subject.encode(), headers=_HEADERS)
            producer.poll(0)
        except (BufferError, KafkaException) as error:
            self.dropped += 1
            log.warning("event %s of %s was dropped (%d so far): %s", type_.value, subject, self.dropped, error)

    def transaction(self, type_: EventType, handle: Handle, batch: int, /, **more: Any) -> None:
        """Queue an event about one transaction."""
        data = {
            "batch": batch,
            "slot": handle.slot,
            "transaction": handle.transaction,
            "producer_id": handle.producer_id,
            "producer_epoch": handle.producer_epoch,
            "resource_manager": handle.resource_manager,
        }
        self.send(type_, handle.key, data | more)

    def checkpoint(self, type_: EventType, batch: int, **more: Any) -> None:
        """Queue an event about one checkpoint."""
        self.send(type_, f"{self._pipeline}/{batch}", {"batch": batch} | more)

    def pipeline(self, type_: EventType, job: str, **more: Any) -> None:
        """Queue an event about the pipeline itself."""
        self.send(type_, self._pipeline, {"job": job} | more)

    def flush(self, limit_s: float) -> None:
        """Wait until what is queued was sent, at most ``limit_s``: for the last words of a process."""
        if self._topic:
            left = _producer(self._connection).flush(limit_s)
            if left:
                log.warning("%d lifecycle events were not sent in %.0f s", left, limit_s)
