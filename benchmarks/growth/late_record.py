"""A record that hides others and that no coordinator knows of: only a look at its partition finds it.

Brokers before 3.6, and later ones with LATE_RECORDS, let a late record of an ended transaction in (KIP-890).
"""

from __future__ import annotations

import time

from kafka.protocol.producer import ProduceRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import Partition
from indoubt.resource_managers.kafka.wire import wire

LATE_RECORDS = {"transaction.partition.verification.enable": "false"}
LIMIT_MS = 20_000
BATCH_BYTES = 1_000
PAUSE_S = 0.05
NOT_YET = {3, 6}
"""Unknown partition, not its leader: a broker answers so until it has taken up a partition that was just made."""


def write_late_record(connection: KafkaConnection, partition: Partition, leader: int) -> None:
    """Write one transactional record of a producer id that has no transactional id.

    Raises RuntimeError: the broker refuses it, for LIMIT_MS if the partition was just made.
    """
    producer_id, epoch = _producer_id(connection)
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        batch_size=BATCH_BYTES,
    )
    batch.append(0, time.time_ns() // 1_000_000, None, b"late", [])
    topic = ProduceRequest.TopicProduceData
    data = topic.PartitionProduceData(index=partition[1], records=bytes(batch.build()))
    request = ProduceRequest(
        transactional_id="late",
        acks=-1,
        timeout_ms=LIMIT_MS,
        topic_data=[topic(name=partition[0], partition_data=[data])],
        max_version=11,
    )
    deadline = time.monotonic() + LIMIT_MS / 1000
    while (error := _sent(connection, leader, request)) in NOT_YET and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    if error != 0:
        raise RuntimeError(f"the broker refused the late record of {partition[0]}-{partition[1]} with error {error}")


def _sent(connection: KafkaConnection, leader: int, request: ProduceRequest) -> int:
    """Send the request to the leader and return the error code of its one partition."""
    (answer,) = wire(connection).send([(leader, request)])
    return int(answer.responses[0].partition_responses[0].error_code)


def _producer_id(connection: KafkaConnection) -> tuple[int, int]:
    """Return a new producer id and its epoch. Raises TimeoutError: a broker that has just started gives none at first."""
    asked = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1, max_version=4
    )
    deadline = time.monotonic() + LIMIT_MS / 1000
    while True:
        (given,) = wire(connection).send([(None, asked)])
        if given.error_code == 0:
            return given.producer_id, given.producer_epoch
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker gave no producer id in {LIMIT_MS} ms: error {given.error_code}")
        time.sleep(PAUSE_S)
