"""Transactions that a Flink job has flushed and not committed, on a real broker, and the checkpoint that lists them.

The checkpoint is a recorded one: the producer ids and epochs in it are replaced by those that they have on this broker.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from tests.integration.collector_process import LIMIT_S
from tests.integration.kafka_fixtures import Sink, make_sink
from tests.unit.collector.records.flink_metadata_recordings import coordinator, metadata_bytes

RECORDING = "2.3-incrementing"
NAME = "chk-3"
"""The recorded checkpoint's."""
JOB_ID_LENGTH = 32


@dataclass
class Prepared:
    """Transactions that a job of Flink has flushed and not committed: their ids are those of the recording."""

    ids: list[str]
    sink: Sink
    producers: list[Producer]
    metadata: bytes
    """A ``_metadata`` that lists them with the producers that they have on this broker."""


def prepare(connection: KafkaConnection, timeout_ms: int = 60_000) -> Prepared:
    """Write with the recorded ids and leave the transactions open."""
    sink, marker = make_sink(connection, partitions=1), uuid.uuid4().hex[:6].encode()
    recorded = {row["transactional_id"]: row for row in coordinator(RECORDING) if row["state"] == "ONGOING"}
    data = metadata_bytes(RECORDING).replace(b"orders", marker)
    ids, producers = [], []
    for id_, row in recorded.items():
        ids.append(id_.replace("orders", marker.decode()))
        settings = {"transactional.id": ids[-1], "transaction.timeout.ms": timeout_ms}
        producer = Producer(connection.for_librdkafka(**settings))
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce(sink.topic, b"of " + ids[-1].encode())
        assert producer.flush(LIMIT_S) == 0
        producers.append(producer)
        (now,) = KafkaResourceManager(connection).describe([ids[-1]])
        name = struct.pack(">H", len(id_)) + ids[-1].encode()
        before = struct.pack(">hq", row["producer_epoch"], row["producer_id"]) + name
        assert data.count(before) == 1
        data = data.replace(before, struct.pack(">hq", now.producer_epoch, now.producer_id) + name)
    return Prepared(ids=ids, sink=sink, producers=producers, metadata=data)


def write_checkpoint(checkpoints: Path, data: bytes, name: str = NAME) -> Path:
    """Put a checkpoint's ``_metadata`` where a job of Flink puts it, as Flink does: written beside and renamed.

    ``checkpoints`` of many jobs get it in a new one's; those of one job, in a directory of this name.
    """
    directory = (checkpoints if len(checkpoints.name) == JOB_ID_LENGTH else checkpoints / uuid.uuid4().hex) / name
    directory.mkdir(parents=True)
    (directory / "_draft").write_bytes(data)
    (directory / "_draft").rename(directory / "_metadata")
    return directory
