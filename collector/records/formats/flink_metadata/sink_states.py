"""What Flink's sink operators and the Kafka connector keep in their operator states: committables and the writers' transactions.

Source: CommitterOperator, CommittableCollectorSerializer, StatefulSinkWriterStateHandler, SimpleVersionedSerialization of Flink;
KafkaCommittableSerializer, KafkaWriterStateSerializer of flink-connector-kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.jdbc_sink_states import (
    WRITER_VERSION,
    FlinkBranch,
    is_jdbc_committable,
    read_jdbc_writer_state,
)
from indoubt.collector.records.formats.flink_metadata.metadata_file import FlinkOperator
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

COMMITTER_STATE, WRITER_STATE = "streaming_committer_raw_states", "writer_raw_states"
"""The names of the operator states, of which each element is written by one of the serializers below."""
_COLLECTOR_MAGIC = 0xB91F252C
_COLLECTOR_VERSIONS, _CHECKPOINT_VERSIONS, _SUBTASK_VERSIONS, _REQUEST_VERSIONS = (2,), (0, 1), (0, 1, 2), (0,)
_COMMITTABLE_VERSIONS, _WRITER_VERSIONS = (1,), (1, 2)


class CommitState(Enum):
    """How far the commit of a committable was when the checkpoint was taken, by its number (CommitRequestState)."""

    RECEIVED = 0
    RETRY = 1
    FAILED = 2
    COMMITTED = 3

    @property
    def is_pending(self) -> bool:
        """True while Flink still has to commit it: at the checkpoint's completion and after each restore from it."""
        return self in (CommitState.RECEIVED, CommitState.RETRY)


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
    """Of the writer; None in checkpoints of Flink up to 1.20.0 and 1.19.1."""
    checkpoint_id: int
    """2**63 - 1: written after the last record of a bounded input, before no checkpoint (CommittableMessage.EOI)."""
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


def read_committables(element: BigEndianReader, operator: FlinkOperator) -> Iterator[FlinkCommittable]:
    """Yield the committables in one element of the committer's state. Raises UnknownVersion, MalformedRecord."""
    _, collector = _versioned(element, "the committable collector", _COLLECTOR_VERSIONS)
    if collector.int32("the magic number") & 0xFFFFFFFF != _COLLECTOR_MAGIC:
        raise collector.error("this is no committable collector", collector.at - 4)
    for version, checkpoint in _versioned_list(collector, "a checkpoint's committables", _CHECKPOINT_VERSIONS):
        checkpoint_id = checkpoint.int64("a checkpoint's id")
        if version >= 1:
            checkpoint.skip(4, "the number of writers")
        yield from _of_checkpoint(checkpoint, operator, checkpoint_id)
        checkpoint.ends("a checkpoint's committables")
    collector.ends("the committable collector")


def _of_checkpoint(
    checkpoint: BigEndianReader, operator: FlinkOperator, checkpoint_id: int
) -> Iterator[FlinkCommittable]:
    for version, writer in _versioned_list(checkpoint, "a writer's committables", _SUBTASK_VERSIONS):
        subtask = writer.int32("a writer's subtask") if version >= 1 else None
        for _, request in _versioned_list(writer, "a commit request", _REQUEST_VERSIONS):
            _, committable = _versioned(request, "a committable", _COMMITTABLE_VERSIONS, is_all=False)
            if is_jdbc_committable(committable):
                continue
            epoch = committable.int16("the producer epoch")
            producer_id = committable.int64("the producer id")
            transactional_id = committable.utf("the transactional id")
            committable.ends("a committable")
            if epoch < 0 or producer_id < 0 or not transactional_id:
                raise committable.error("this is no committable of the Kafka connector", committable.at)
            request.skip(4, "the number of retries")
            state = request.int32("the state of a commit request")
            if state not in _COMMIT_STATES:
                raise request.error(f"a commit request has the state {state}, which is unknown", request.at - 4)
            request.ends("a commit request")
            yield FlinkCommittable(
                operator=operator,
                subtask=subtask,
                checkpoint_id=checkpoint_id,
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                state=CommitState(state),
            )
        # Received and failed; before version 2 also those that were handed on.
        writer.skip(8 if version >= 2 else 12, "the numbers of committables")
        writer.ends("a writer's committables")


def read_branches(element: BigEndianReader, operator: FlinkOperator) -> list[FlinkBranch] | None:
    """Return what one element of the writer's state lists as prepared when it is JdbcSink's, else None."""
    state = BigEndianReader(element.data, element.source, element.at, element.end)
    try:
        _, part = _versioned(state, "the writer's state", (WRITER_VERSION,))
        return list(read_jdbc_writer_state(part, operator))
    except MalformedRecord:
        return None


def read_writer_state(element: BigEndianReader, operator: FlinkOperator) -> FlinkWriterState:
    """Return one element of the writer's state. Raises UnknownVersion, MalformedRecord."""
    version, state = _versioned(element, "the writer's state", _WRITER_VERSIONS)
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


_COMMIT_STATES = frozenset(state.value for state in CommitState)
_OWNERSHIPS = frozenset(ownership.value for ownership in TransactionOwnership)


def _versioned(
    reader: BigEndianReader, field: str, known: tuple[int, ...], *, is_all: bool = True
) -> tuple[int, BigEndianReader]:
    """Return the version of what follows and a reader of it; ``is_all``: nothing may follow it."""
    version = _version(reader, field, known)
    part = reader.part(reader.int32(f"the size of {field}"), field)
    if is_all:
        reader.ends(field)
    return version, part


def _versioned_list(
    reader: BigEndianReader, field: str, known: tuple[int, ...]
) -> Iterator[tuple[int, BigEndianReader]]:
    """Yield the version of all members of a list, and a reader of each."""
    version = _version(reader, field, known)
    for _ in range(reader.count(f"how often there is {field}", 4)):
        yield version, reader.part(reader.int32(f"the size of {field}"), field)


def _version(reader: BigEndianReader, field: str, known: tuple[int, ...]) -> int:
    version = reader.int32(f"the version of {field}")
    if version not in known:
        numbers = " and ".join(map(str, known))
        raise UnknownVersion(
            f"{reader.source}, byte {reader.at - 4}: the version of {field} is {version}; this program knows {numbers}"
        )
    return version
