"""A producer's own requests: take its id, send batches, and add partitions and marker to its transaction.

All but the batches are tried until their limit.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import Fenced, ResourceManagerError, Unreachable
from indoubt.lifecycle.identity import Marker
from indoubt.resource_managers.kafka.answers import AnswerKind, BrokerAnswer, answer_of, answer_of_code
from indoubt.resource_managers.kafka.batch_builder import Batch
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, MAX_TIMEOUT_SETTING, KafkaConnection
from indoubt.resource_managers.kafka.record_batch import Producer
from indoubt.resource_managers.kafka.wire import wire

RETRY = Backoff(first_s=0.005, max_s=0.2)
# What these were at transaction.version 0 and 1 does for 2 as well: the partitions are added in so many words.
INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSET = 5, 3, 3, 3
_WRONG_TIMEOUT = kafka_errors.InvalidTransactionTimeoutError.__name__
NEWEST = 11
"""Version of Produce: with 12 the request adds its partition by itself, which only brokers of transaction.version 2 do."""
COMPACT = 9
"""From this version on lengths are varints (KIP-482); what is sent to brokers before it, kafka-python encodes."""
REPLICATION_LIMIT_MS = 15_000
_ALL_REPLICAS = -1
_NULL = _NO_TAGS = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRequests:
    """Asks the coordinators for one transactional id; without one, any broker for a producer id."""

    connection: KafkaConnection
    transactional_id: str = ""
    timeout_ms: int = 0

    def take_id(self) -> Producer:
        """Take the id, shutting out whoever had it; return who that makes us. Raises Fenced, Unreachable, ResourceManagerError."""

        def ask() -> Any:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id or None,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                max_version=INIT_PRODUCER_ID,
            )
            if not self.transactional_id:
                (response,) = wire(self.connection).send([(None, request)])
                return response
            return wire(self.connection).to_coordinator(self.transactional_id, CoordinatorType.TRANSACTION, request)

        what = "it could not be taken" if self.transactional_id else "a producer id could not be had"
        response = self._tried(what, ask, answer_of)
        return Producer(
            producer_id=response.producer_id,
            producer_epoch=response.producer_epoch,
            is_transactional=bool(self.transactional_id),
        )

    def add_partitions(self, producer: Producer, topic: str, partitions: Sequence[int]) -> None:
        """Add partitions to the transaction, before the first batch to each. Raises as ``take_id``."""

        def read(response: Any) -> BrokerAnswer:
            if isinstance(response, BrokerAnswer):
                return response
            rows = [row for topic in response.results_by_topic_v3_and_below for row in topic.results_by_partition]
            answers = [answer_of_code(row.partition_error_code) for row in rows]
            # OPERATION_NOT_ATTEMPTED stands beside the one that says why.
            failed = [answer for answer in answers if not answer.is_done]
            telling = [answer for answer in failed if answer.name != kafka_errors.OperationNotAttemptedError.__name__]
            return (telling or failed or answers)[0]

        def ask() -> Any:
            topics = [
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions)),
            ]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=topics,
                max_version=ADD_PARTITIONS,
            )
            return wire(self.connection).to_coordinator(
                self.transactional_id, CoordinatorType.TRANSACTION, request, read
            )

        self._tried(f"topic {topic!r} could not be added to it", ask, read)

    def write_marker(self, producer: Producer, topic: str, group: str, marker: Marker) -> None:
        """Commit the marker as an offset of the transaction. Raises as ``take_id``."""

        def add() -> Any:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=group,
                max_version=ADD_OFFSETS,
            )
            return wire(self.connection).to_coordinator(self.transactional_id, CoordinatorType.TRANSACTION, request)

        def read(response: Any) -> BrokerAnswer:
            return answer_of(response if isinstance(response, BrokerAnswer) else response.topics[0].partitions[0])

        def commit() -> Any:
            topic_ = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
            offset = topic_.TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=marker.batch, committed_metadata=marker.metadata()
            )
            request = TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                topics=[topic_(name=topic, partitions=[offset])],
                max_version=COMMIT_OFFSET,
            )
            return wire(self.connection).to_coordinator(group, CoordinatorType.GROUP, request, read)

        self._tried("its marker could not be written", add, answer_of)
        self._tried("its marker could not be written", commit, read)

    def _tried(self, what: str, ask: Callable[[], Any], read: Callable[[Any], BrokerAnswer]) -> Any:
        """Return the first response that ``read`` calls done; what may pass is asked again until the limit."""
        deadline = time.monotonic() + CALL_LIMIT_S
        for pause_s in RETRY.pauses():
            response = ask()
            answer = read(response)
            if answer.is_done:
                return response
            if not answer.may_pass or time.monotonic() > deadline:
                raise self.failure(what, answer)
            time.sleep(pause_s)
        raise AssertionError("unreachable: pauses have no end")

    @property
    def prefix(self) -> str:
        """Return the transactional id that an error is about, as the error's text begins."""
        return f"{self.transactional_id}: " if self.transactional_id else ""

    def failure(self, what: str, answer: BrokerAnswer) -> ResourceManagerError:
        """Return the error to raise for an answer that ends the transaction."""
        if answer.kind is AnswerKind.FENCED:
            return Fenced(f"{self.prefix}a newer producer took this transactional id ({answer})")
        if answer.name == _WRONG_TIMEOUT:
            return ResourceManagerError(
                f"{self.prefix}transaction_timeout_ms is {self.timeout_ms}, above the broker's {MAX_TIMEOUT_SETTING}: "
                "lower it"
            )
        if answer.may_pass:
            return Unreachable(f"{self.prefix}{what} in {CALL_LIMIT_S:.0f} s: {answer}")
        return ResourceManagerError(f"{self.prefix}{what}: {answer}")


class ProduceBatches(ProduceRequest, init=False):  # type: ignore[misc,call-arg]
    """Batches of different partitions of one topic, of one producer; ``transactional_id`` is empty without a transaction.

    It is encoded in one copy. kafka-python would copy the batches twice, and a third time where a connection over TLS takes a
    part of what is left: it slices bytes, where a memoryview costs nothing.
    """

    def __init__(self, transactional_id: str, topic: str, batches: Sequence[Batch]) -> None:
        super().__init__(
            transactional_id=transactional_id or None,
            acks=_ALL_REPLICAS,
            timeout_ms=REPLICATION_LIMIT_MS,
            max_version=NEWEST,
        )
        self._topic, self._batches = topic, batches

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> Any:
        """Return the request as kafka-python's connections send it: with its header and its length."""
        if self.API_VERSION < COMPACT:
            topic = ProduceRequest.TopicProduceData
            rows = [topic.PartitionProduceData(index=b.partition, records=b.content) for b in self._batches]
            self.topic_data = [topic(name=self._topic, partition_data=rows)]
            return super().encode(version=version, header=header, framed=framed)
        parts = list(self._parts())
        return memoryview(b"".join([struct.pack(">i", sum(map(len, parts))), *parts]))

    def _parts(self) -> Iterator[Any]:
        start = [
            self.encode_header(flexible=True),
            _text(self.transactional_id) if self.transactional_id else _NULL,
            struct.pack(">hi", self.acks, self.timeout_ms),
            _length(1),
            _text(self._topic),
            _length(len(self._batches)),
        ]
        yield b"".join(start)
        for batch in self._batches:
            yield struct.pack(">i", batch.partition) + _length(batch.size)
            yield from batch.parts
            yield _NO_TAGS
        # Of the topic, and of the request.
        yield _NO_TAGS * 2


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _length(len(encoded)) + encoded


def _length(length: int) -> bytes:
    """Return a length as an unsigned varint: one more, since 0 means null."""
    left, found = length + 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
