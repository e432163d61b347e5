"""The Produce request in one copy of its batches.

kafka-python would copy them twice, and a third time where a connection over TLS takes a part of what is left: it slices bytes,
where a memoryview costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kafka.protocol.producer import ProduceRequest

from resource_managers.kafka.batch_builder import Batch

NEWEST = 11
"""Version of Produce: with 12 the request adds its partition by itself, which only brokers of transaction.version 2 do."""
COMPACT = 9
"""From this version on lengths are varints (KIP-482); what is sent to brokers before it, kafka-python encodes."""
REPLICATION_LIMIT_MS = 15_000
_ALL_REPLICAS = -1
_NULL = _NO_TAGS = b"\0"


class ProduceBatches(ProduceRequest, init=False):  # type: ignore[misc,call-arg]
    """Batches of different partitions of one topic, of one producer; ``transactional_id`` is empty without a transaction."""

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
