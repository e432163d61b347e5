"""By which epoch of its producer an open transaction's first records were written, by the records themselves.

DescribeProducers tells the epoch of the last ones. Where the end marker of an earlier transaction is missing, its records
and a later one's lie in one open transaction; only the first batch tells.
"""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest

from indoubt.resource_managers.kafka.answers import answer_of

_HEADER = struct.Struct(">qiibIhiqqqh")
"""A record batch of version 2 up to its producer's epoch: base offset first, magic fourth, producer id and epoch last."""
_MAGIC = 2
_BY_TOPIC_NAME = 12
"""The last version of Fetch that takes topics by their names."""


def batch_request(partition: tuple[str, int], offset: int) -> Any:
    """Return a Fetch of the one batch that holds this offset, whatever its size."""
    topic = FetchRequest.FetchTopic
    wanted = topic.FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=1)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=[topic(topic=partition[0], partitions=[wanted])],
        forgotten_topics_data=[],
        max_version=_BY_TOPIC_NAME,
    )


def epoch_in(response: Any, offset: int, producer_id: int) -> int | None:
    """Return the epoch of the batch in a Fetch's response; None unless it begins at this offset and is this producer's.

    Compaction or retention may have taken the batch away: what follows is another one.
    """
    if not answer_of(response).is_done or not response.responses:
        return None
    row = response.responses[0].partitions[0]
    records = bytes(row.records or b"")
    if row.error_code or len(records) < _HEADER.size:
        return None
    header = _HEADER.unpack_from(records)
    is_it = (header[0], header[3], header[-2]) == (offset, _MAGIC, producer_id)
    return int(header[-1]) if is_it else None
