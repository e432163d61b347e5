"""Observes ``__transaction_state``: every state change of every transaction on the cluster, without instrumentation."""

from __future__ import annotations

import threading

from confluent_kafka import Message

from collector.current_state import CurrentState
from collector.observations import BrokerRecord, IdExpired, Observation
from collector.observers.topic_observer import TopicObserver
from collector.observers.topic_reader import ReadDenied
from collector.store import Store
from collector.transaction_state_records import decode_key, decode_value
from resource_managers.kafka_connection import KafkaConnection

TOPIC = "__transaction_state"


class TransactionLog(TopicObserver):
    """The coordinator's own log, all partitions. ``denied`` is set once it may not be read."""

    name = "transaction log"

    def __init__(self, current: CurrentState, store: Store, connection: KafkaConnection, retry_most_ms: int) -> None:
        super().__init__(current, store, connection, TOPIC, retry_most_ms)
        self.denied = threading.Event()

    def decode(self, message: Message) -> Observation:
        """Return the state of a transactional id, or that it expired. Raises UnknownVersion, MalformedRecord."""
        transaction, value = decode_key(message.key()), message.value()
        if value is None:
            return IdExpired(transaction=transaction)
        state = decode_value(value)
        return BrokerRecord(
            transaction=transaction,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            status=state.status,
            start_ms=state.start_ms if state.start_ms >= 0 else None,
            update_ms=state.update_ms,
            timeout_ms=state.timeout_ms,
            partitions=state.partitions,
            client_version=state.client_version,
            source=self.topic,
        )

    def failed(self, error: Exception) -> None:
        """Tell that polling must stand in where the log may not be read."""
        if isinstance(error, ReadDenied):
            self.denied.set()

    def looked(self) -> None:
        """Note a good look: polling need not stand in (any more)."""
        self.denied.clear()
        super().looked()
