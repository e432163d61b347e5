"""What Flink's KafkaSink keeps: its committables, and which transactional ids its writers use.

Source: KafkaCommittableSerializer, KafkaWriterStateSerializer of flink-connector-kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitRequest, require_version, versioned
from indoubt.collector.records.formats.flink_records import Committable

_COMMITTABLE_VERSIONS, _WRITER_VERSIONS = (1,), (1, 2)
_IS_POOLED = {0: False, 1: True}
"""Of IMPLICIT_BY_SUBTASK_ID and EXPLICIT_BY_WRITER_STATE (TransactionOwnership), which follow from the naming strategy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkWriterState:
    """What one Kafka writer keeps; ``is_pooled``: its ids are used again (TransactionNamingStrategy.POOLING)."""

    transactional_id_prefix: str
    is_pooled: bool


def read_kafka_committable(request: CommitRequest) -> Committable:
    """Return the committable of a request. Raises UnknownVersion, MalformedRecord."""
    committable = request.committable
    require_version(request.version, committable, "a committable", _COMMITTABLE_VERSIONS)
    epoch = committable.int16("the producer epoch")
    producer_id = committable.int64("the producer id")
    transactional_id = committable.utf("the transactional id")
    committable.ends("a committable")
    if epoch < 0 or producer_id < 0 or not transactional_id:
        raise committable.error("this is no committable of the Kafka connector", committable.at)
    return Committable(transactional_id, producer_id, epoch)


def read_writer_state(element: BigEndianReader) -> FlinkWriterState:
    """Return one element of the writer's state. Raises UnknownVersion, MalformedRecord."""
    version, state = versioned(element, "the writer's state", _WRITER_VERSIONS)
    prefix, is_pooled = state.utf("the transactional id prefix"), False
    if version >= 2:
        state.skip(8, "the owned subtask, and the number of these")
        ownership = state.int32("the ownership")
        if ownership not in _IS_POOLED:
            raise state.error(f"the ownership is {ownership}, which is unknown", state.at - 4)
        is_pooled = _IS_POOLED[ownership]
        for _ in range(state.count("the number of prepared transactions", 10)):
            state.utf("a transactional id")
            state.skip(8, "a checkpoint's id")
    state.ends("the writer's state")
    return FlinkWriterState(transactional_id_prefix=prefix, is_pooled=is_pooled)
