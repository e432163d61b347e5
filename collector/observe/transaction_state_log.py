"""Observes ``__transaction_state``: every state change of every transaction on the cluster, without instrumentation."""

from __future__ import annotations

import threading
from dataclasses import fields
from functools import partial

from confluent_kafka import Message

from indoubt.collector.history.store import Store
from indoubt.collector.observe.topic_reader import ReadDenied, Records
from indoubt.collector.observe.topic_source import HandOver, RecordTopic
from indoubt.collector.records.broker_record_batch import records_of
from indoubt.collector.records.formats.transaction_state import (
    LAST_EPOCH,
    TransactionStateValue,
    decode_key,
    decode_value,
)
from indoubt.collector.records.formats.transaction_state_batch import StateDecoder
from indoubt.collector.records.observations import BrokerRecord, IdExpired, Observation
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.kafka.connection import KafkaConnection

TOPIC = "__transaction_state"
_IN_BOTH = {field.name for field in fields(BrokerRecord)} & {field.name for field in fields(TransactionStateValue)}
_AS_IT_STANDS = tuple(_IN_BOTH - {"producer_id", "producer_epoch", "start_ms"})
COLUMNS_FROM = 50
"""Records at once from which columns pay: below, decoding one by one is faster."""


class TransactionLog(RecordTopic):
    """The coordinator's own log, all partitions. ``denied`` is set once it may not be read."""

    kind = ObserverKind.TRANSACTION_LOG

    def __init__(self, current: CurrentState, store: Store, connection: KafkaConnection) -> None:
        super().__init__(current, store, connection, TOPIC)
        self.denied = threading.Event()
        self._decoder = StateDecoder()

    def decode(self, message: Message) -> Observation:
        """Return the state of a transactional id, or that it expired. Raises UnknownVersion, MalformedRecord."""
        transaction, value = decode_key(message.key()), message.value()
        if value is None:
            return IdExpired(transaction=transaction)
        return record_of(transaction, decode_value(value), self.topic)

    def decoded(self, records: Records) -> HandOver:
        """Decode records in columns where there are many, and the odd ones among them one by one."""
        messages = records.messages
        if len(messages) < COLUMNS_FROM:
            return super().decoded(records)
        states, ordinary = self._decoder.decode([m.key() for m in messages], [m.value() for m in messages])
        found = records_of(self.source, records.partition[ordinary], records.offset[ordinary], states)
        others = [self.observed(messages[number]) for number in (~ordinary).nonzero()[0].tolist()]
        return partial(self.current.observe_records, found, others, self.offsets(records))

    @property
    def absence(self) -> str:
        """Say what a missing log means: the broker makes it with the first transactional id."""
        return "" if self.has_read else "no transaction was ever made on this cluster"

    def made_anew(self) -> None:
        """Forget what was open in the log before this one: this coordinator does not know of it."""
        self.current.forget_open_transactions()

    def failed(self, error: Exception) -> None:
        """Note that polling must stand in where the log may not be read."""
        if isinstance(error, ReadDenied):
            self.denied.set()

    def polled(self) -> None:
        """Note a successful poll: polling need not stand in (any more)."""
        self.denied.clear()
        super().polled()


def record_of(transaction: str, state: TransactionStateValue, source: str) -> BrokerRecord:
    """Return one state of the log as the record of the transaction that it belongs to."""
    # Once its epochs are used up a producer id is changed with the very record that ends the transaction.
    rotated = state.rotated
    return BrokerRecord(
        transaction=transaction,
        source=source,
        producer_id=state.previous_producer_id if rotated else state.producer_id,
        producer_epoch=LAST_EPOCH if rotated else state.producer_epoch,
        start_ms=state.start_ms if state.start_ms >= 0 else None,
        **{name: getattr(state, name) for name in _AS_IT_STANDS},
    )
