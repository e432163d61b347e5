"""A pipeline as far as the broker and its logs can tell: runs, prepared transactions, decisions, events; no Spark."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import Producer

from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from indoubt.lifecycle.events import EventType, LifecycleEvent, encode
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.protocol import SlotAttempt
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S
from tests.integration.kafka_fixtures import Sink, fingerprint_of, make_sink, rows
from tests.integration.pipeline_process import read_committed

TIMEOUT_MS = 60_000


class ReportedPipeline:
    """One pipeline with a sink and a prefix of its own; it tells the given topic of what it prepares."""

    def __init__(
        self,
        connection: KafkaConnection,
        lifecycle_topic: str,
        timeout_ms: int = TIMEOUT_MS,
        decision_topic: str = "transaction_decisions",
    ) -> None:
        self.sink: Sink = make_sink(connection)
        self.log = DecisionLog(connection, decision_topic)
        self.checkpoint_id = uuid.uuid4().hex
        self._topic, self._timeout_ms = lifecycle_topic, timeout_ms
        self._events = Producer(connection.for_librdkafka())
        self.attempt = self.start_run()

    @property
    def prefix(self) -> str:
        """Return the prefix of its transactional ids."""
        return self.sink.prefix

    def start_run(self) -> int:
        """Begin a run in the decision log; return its offset."""
        run = RunStarted(prefix=self.prefix, checkpoint_id=self.checkpoint_id, run=uuid.uuid4().hex[:6], at_ms=now_ms())
        return self.log.start_run(run)

    def prepare(self, *values: bytes, slot: int = 0, batch: int = 0, reported_batch: int | None = None) -> Handle:
        """Return a prepared handle that the lifecycle topic was told of, as of ``reported_batch`` if that is another."""
        marker = Marker(batch=batch, attempt=self.attempt, checkpoint_id=self.checkpoint_id)
        manager = self.sink.manager(self._timeout_ms)
        transaction = manager.begin(SlotAttempt(prefix=self.prefix, slot=slot, marker=marker))
        transaction.write(rows(*values))
        handle = transaction.prepare(fingerprint_of(*values))
        told = batch if reported_batch is None else reported_batch
        data = {"batch": told, "slot": slot, "transaction": handle.transaction, "handle": handle.to_json()}
        self.tell(EventType.TRANSACTION_PREPARED, handle.key, **data, resource_manager="kafka")
        return handle

    def decide(self, *handles: Handle, batch: int = 0) -> int:
        """Decide to commit these; return the decision's offset."""
        batch_attempt = BatchAttempt(checkpoint_id=self.checkpoint_id, batch=batch, attempt=self.attempt)
        decision = Decision(
            prefix=self.prefix,
            batch_attempt=batch_attempt,
            ruling=Ruling.COMMIT,
            handles=handles,
            who="run",
            at_ms=now_ms(),
        )
        return self.log.decide(decision)

    def tell(self, type_: EventType, subject: str, **data: object) -> None:
        """Send one lifecycle event."""
        base = {"pipeline": self.prefix, "checkpoint_id": self.checkpoint_id, "attempt": self.attempt}
        event = LifecycleEvent(
            type=type_, source=f"/pipeline/{self.prefix}", subject=subject, at_ms=now_ms(), data=base | data
        )
        self._events.produce(self._topic, encode(event))
        assert self._events.flush(LIMIT_S) == 0

    def visible(self) -> list[bytes]:
        """Return every row that a read_committed reader sees, each as often as it sees it, sorted."""
        return sorted(read_committed(self.sink.connection, self.sink.topic).elements())


def now_ms() -> int:
    """Return epoch milliseconds."""
    return time.time_ns() // 1_000_000
