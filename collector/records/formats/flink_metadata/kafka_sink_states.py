"""What Flink's KafkaSink keeps: its committables, and which transactional ids its writers use.

Source: KafkaCommittableSerializer, KafkaWriterStateSerializer of flink-connector-kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import (
    CommitRequest,
    CommitState,
    require_version,
    versioned,
)
from indoubt.collector.records.formats.flink_metadata.metadata_file import FlinkOperator

_COMMITTABLE_VERSIONS, _WRITER_VERSIONS = (1,), (1, 2)


class TransactionOwnership(Enum):
    """How subtasks share the transactional ids, by its number (TransactionOwnership); it follows from the naming strategy."""

    IMPLICIT_BY_SUBTASK_ID = 0
    """TransactionNamingStrategy.INCREMENTING: a new id for each checkpoint."""
    EXPLICIT_BY_WRITER_STATE = 1
    """TransactionNamingStrategy.POOLING: ids are used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCommittable:
    """One prepared Kafka transaction, which Flink commits once the checkpoint ``checkpoint_id`` or a later one is completed."""

    operator: FlinkOperator
    """The sink's committer."""
    subtask: int | None
    """Of the writer (CommitRequest)."""
    checkpoint_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: CommitState


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecommittedTransaction:
    """A transactional id that its writer will not use before the checkpoint's transactions are committed."""

    transactional_id: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkWriterState:
    """What one Kafka writer keeps. Connectors before 4.0 keep only the prefix: the other fields are None or empty then."""

    operator: FlinkOperator
    transactional_id_prefix: str
    owned_subtask: int | None
    """The subtask whose transactional ids this writer owns."""
    total_owned_subtasks: int | None
    ownership: TransactionOwnership | None
    precommitted: tuple[PrecommittedTransaction, ...]


def read_kafka_committable(request: CommitRequest, operator: FlinkOperator) -> FlinkCommittable:
    """Return the committable of a request. Raises UnknownVersion, MalformedRecord."""
    committable = request.committable
    require_version(request.version, committable, "a committable", _COMMITTABLE_VERSIONS)
    epoch = committable.int16("the producer epoch")
    producer_id = committable.int64("the producer id")
    transactional_id = committable.utf("the transactional id")
    committable.ends("a committable")
    if epoch < 0 or producer_id < 0 or not transactional_id:
        raise committable.error("this is no committable of the Kafka connector", committable.at)
    return FlinkCommittable(
        operator=operator,
        subtask=request.subtask,
        checkpoint_id=request.checkpoint_id,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        state=request.state,
    )


def read_writer_state(element: BigEndianReader, operator: FlinkOperator) -> FlinkWriterState:
    """Return one element of the writer's state. Raises UnknownVersion, MalformedRecord."""
    version, state = versioned(element, "the writer's state", _WRITER_VERSIONS)
    prefix = state.utf("the transactional id prefix")
    owned_subtask = total_owned_subtasks = ownership = None
    precommitted: list[PrecommittedTransaction] = []
    if version >= 2:
        owned_subtask = state.int32("the owned subtask")
        total_owned_subtasks = state.int32("the number of owned subtasks")
        number = state.int32("the ownership")
        if number not in _OWNERSHIPS:
            raise state.error(f"the ownership is {number}, which is unknown", state.at - 4)
        ownership = TransactionOwnership(number)
        for _ in range(state.count("the number of prepared transactions", 10)):
            transactional_id = state.utf("a transactional id")
            checkpoint_id = state.int64("a checkpoint's id")
            precommitted.append(PrecommittedTransaction(transactional_id=transactional_id, checkpoint_id=checkpoint_id))
    state.ends("the writer's state")
    return FlinkWriterState(
        operator=operator,
        transactional_id_prefix=prefix,
        owned_subtask=owned_subtask,
        total_owned_subtasks=total_owned_subtasks,
        ownership=ownership,
        precommitted=tuple(precommitted),
    )


_OWNERSHIPS = frozenset(ownership.value for ownership in TransactionOwnership)
