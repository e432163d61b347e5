"""What KAFKA-20734 leaves behind, made by hand: rows and offsets that reach a partition past the coordinator.

The coordinator does not know of them, so the end of their transaction passes them by. Takes brokers with ``SETTINGS``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.producer.transaction import EndTxnRequest, TxnOffsetCommitRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from indoubt.collector.observe.transaction_state_log import record_of
from indoubt.collector.records.formats.transaction_state import decode_key, decode_value
from indoubt.collector.records.observations import Observed, Position
from indoubt.lifecycle.identity import Handle, Marker, TransactionalId, marker_group
from indoubt.resource_managers.kafka.answers import BrokerAnswer, answer_of
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.descriptions import TransactionDescription
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, OpenProducer
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.kafka_fixtures import LIMIT_S, wait_until

SETTINGS = {
    # Any producer's rows are taken, whatever its coordinator knows of them.
    "transaction.partition.verification.enable": "false",
    # A partition forgets an epoch that has ended there, and takes rows of it again.
    "producer.id.expiration.ms": "200",
    "producer.id.expiration.check.interval.ms": "50",
}
IMPLICIT = 12
"""The version of Produce that adds its partition to the transaction, as clients of transaction.version 2 do."""
PLAIN = 11
DECISIONS = "transaction_decisions"
NEW_TOPIC = (3, 5, 6)
"""Error codes of a leader that does not know of its partition yet: unknown topic or partition, no leader, not the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A producer's identity under a transactional id."""

    connection: KafkaConnection
    id: str
    producer_id: int
    epoch: int

    @classmethod
    def of(cls, connection: KafkaConnection, handle: Handle) -> Writer:
        """Return the writer of a handle's transaction."""
        assert handle.producer_id is not None
        assert handle.producer_epoch is not None
        return cls(
            connection=connection, id=handle.transaction, producer_id=handle.producer_id, epoch=handle.producer_epoch
        )

    @classmethod
    def now(cls, connection: KafkaConnection, id_: str) -> Writer:
        """Return who has an id now."""
        described = _described(connection, id_)
        return cls(connection=connection, id=id_, producer_id=described.producer_id, epoch=described.producer_epoch)

    def produce(self, topic: str, partition: int, value: bytes, version: int = PLAIN) -> None:
        """Write one row, once the partition has forgotten what this producer has ended there."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=1,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            batch_size=1 << 16,
        )
        builder.append(0, int(time.time() * 1000), b"k", value, [])
        records = bytes(builder.build())
        topic_ = ProduceRequest.TopicProduceData
        part = topic_.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[topic_(name=topic, partition_data=[part])],
            min_version=version,
            max_version=version,
        )

        layout = wait_until(f"{topic} has leaders", lambda: _led(KafkaPartitions(self.connection, ""), topic))
        leader = layout.leaders[topic, partition]
        wait_until(
            f"{topic}-{partition} has forgotten the last rows of producer {self.producer_id}",
            lambda: not self._is_remembered(leader, topic, partition),
        )

        def is_written() -> bool:
            (answer,) = wire(self.connection).send([(leader, request)])
            assert not isinstance(answer, BrokerAnswer), answer
            code = answer.responses[0].partition_responses[0].error_code
            assert code == 0 or code in NEW_TOPIC, code
            return code == 0

        # A leader that was elected a moment ago may not know of it yet.
        wait_until(f"a row is written to {topic}-{partition}", is_written)

    def _is_remembered(self, leader: int, topic: str, partition: int) -> bool:
        """Say whether the partition would take this producer's first row for one that it has."""
        asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        (answer,) = wire(self.connection).send([(leader, DescribeProducersRequest(topics=[asked]))])
        assert not isinstance(answer, BrokerAnswer), answer
        rows = answer.topics[0].partitions[0].active_producers
        return any(row.producer_id == self.producer_id and row.current_txn_start_offset < 0 for row in rows)

    def commit_offset(self, marker: Marker) -> None:
        """Write a slot's marker, in this transaction."""
        parsed = TransactionalId.parse(self.id)
        assert parsed is not None
        topic_ = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        offset = topic_.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=marker.batch, committed_metadata=marker.metadata()
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=marker_group(parsed.prefix, parsed.slot),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic_(name=DECISIONS, partitions=[offset])],
            max_version=4,
        )
        group = marker_group(parsed.prefix, parsed.slot)
        (answer,) = wire(self.connection)._to_coordinators(
            [group], CoordinatorType.GROUP, lambda key: key, lambda _: request
        )
        assert not isinstance(answer, BrokerAnswer), answer
        assert answer.topics[0].partitions[0].error_code == 0

    def end(self, *, commit: bool, version: int | None = None) -> None:
        """End the transaction and wait until its coordinator is done; ``version`` of EndTxn: else as the cluster asks for."""
        if version is None:
            (answer,) = wire(self.connection).end_transactions([(self.id, self.producer_id, self.epoch)], commit=commit)
        else:
            request = EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
                min_version=version,
                max_version=version,
            )
            (response,) = wire(self.connection)._to_coordinators(
                [self.id], CoordinatorType.TRANSACTION, lambda key: key, lambda _: request
            )
            answer = answer_of(response)
        assert answer.is_done, answer
        state = "CompleteCommit" if commit else "CompleteAbort"
        wait_until(f"{self.id} is {state}", lambda: self.described().state == state)

    def described(self) -> TransactionDescription:
        """Return what the coordinator says of the id."""
        return _described(self.connection, self.id)

    def open_on(self, topic: str) -> list[OpenProducer]:
        """Return what this producer id has open on the topic's partitions."""
        partitions = KafkaPartitions(self.connection, "")
        layout = wait_until(f"{topic} has leaders", lambda: _led(partitions, topic))
        answers = partitions.open_producers(layout.leaders.keys(), layout)
        return [one for some in answers.found.values() for one in some if one.producer_id == self.producer_id]


def _described(connection: KafkaConnection, id_: str) -> TransactionDescription:
    described = wire(connection).describe_transactions([id_])[id_]
    assert isinstance(described, TransactionDescription), described
    return described


def _led(partitions: KafkaPartitions, topic: str) -> Any:
    layout = partitions.layout([topic])
    return layout if layout.leaders and not layout.leaderless else None


def transaction_log(connection: KafkaConnection) -> Iterator[Observed]:
    """Yield every state in the coordinator's log, as its observer hands them over."""
    topic = "__transaction_state"
    consumer = Consumer(connection.for_librdkafka(**{"group.id": "raw", "enable.partition.eof": True}))
    partitions = consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    ends = 0
    while ends < len(partitions):
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"{topic} was not read to its end in {LIMIT_S:.0f} s"
        if message.error() is not None:
            ends += 1
        elif message.value() is not None:
            record = record_of(decode_key(message.key()), decode_value(message.value()), topic)
            position = Position(source=topic, partition=message.partition(), offset=message.offset())
            yield Observed(position=position, observation=record)
    consumer.close()
