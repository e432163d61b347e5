"""The state of a sink's committer: its commit requests, each around a committable that only the sink's own serializer reads.

Source: CommitterOperator, CommittableCollectorSerializer, SimpleVersionedSerialization of Flink. All but the committable itself is
written alike by every sink (SinkV2), so its requests are counted also where no decoder knows the committable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.errors import UnknownVersion

COMMITTER_STATE, WRITER_STATE = "streaming_committer_raw_states", "writer_raw_states"
"""The names of the operator states of committers and of writers."""
_COLLECTOR_MAGIC = 0xB91F252C
_COLLECTOR_VERSIONS, _CHECKPOINT_VERSIONS, _SUBTASK_VERSIONS, _REQUEST_VERSIONS = (2,), (0, 1), (0, 1, 2), (0,)


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


_COMMIT_STATES = frozenset(state.value for state in CommitState)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit that a sink announces. ``committable``: its bytes, written by version ``version`` of the sink's serializer."""

    checkpoint_id: int
    """2**63 - 1: written after the last record of a bounded input, before no checkpoint (CommittableMessage.EOI)."""
    state: CommitState
    version: int
    committable: BigEndianReader

    def is_to_be_committed(self, checkpoint_id: int) -> bool:
        """Say whether Flink commits it once this checkpoint is completed."""
        return self.state.is_pending and self.checkpoint_id <= checkpoint_id


def read_commit_requests(element: BigEndianReader) -> Iterator[CommitRequest]:
    """Yield the requests in one element of a committer's state. Raises UnknownVersion, MalformedRecord."""
    _, collector = versioned(element, "the committable collector", _COLLECTOR_VERSIONS)
    if collector.int32("the magic number") & 0xFFFFFFFF != _COLLECTOR_MAGIC:
        raise collector.error("this is no committable collector", collector.at - 4)
    for version, checkpoint in _versioned_list(collector, "a checkpoint's committables", _CHECKPOINT_VERSIONS):
        checkpoint_id = checkpoint.int64("a checkpoint's id")
        if version >= 1:
            checkpoint.skip(4, "the number of writers")
        yield from _of_checkpoint(checkpoint, checkpoint_id)
        checkpoint.ends("a checkpoint's committables")
    collector.ends("the committable collector")


def _of_checkpoint(checkpoint: BigEndianReader, checkpoint_id: int) -> Iterator[CommitRequest]:
    for version, writer in _versioned_list(checkpoint, "a writer's committables", _SUBTASK_VERSIONS):
        if version >= 1:
            writer.skip(4, "a writer's subtask")
        for _, request in _versioned_list(writer, "a commit request", _REQUEST_VERSIONS):
            written_by = request.int32("the version of a committable")
            committable = request.sized("a committable")
            request.skip(4, "the number of retries")
            state = request.int32("the state of a commit request")
            if state not in _COMMIT_STATES:
                raise request.error(f"a commit request has the state {state}, which is unknown", request.at - 4)
            request.ends("a commit request")
            yield CommitRequest(
                checkpoint_id=checkpoint_id, state=CommitState(state), version=written_by, committable=committable
            )
        # Received and failed; before version 2 also those that were handed on.
        writer.skip(8 if version >= 2 else 12, "the numbers of committables")
        writer.ends("a writer's committables")


def versioned(
    reader: BigEndianReader, field: str, known: tuple[int, ...], *, is_all: bool = True
) -> tuple[int, BigEndianReader]:
    """Return the version of what follows and a reader of it; ``is_all``: nothing may follow it.

    Raises UnknownVersion, MalformedRecord.
    """
    version = _version(reader, field, known)
    part = reader.sized(field)
    if is_all:
        reader.ends(field)
    return version, part


def require_version(version: int, reader: BigEndianReader, field: str, known: tuple[int, ...], before: int = 8) -> None:
    """Raise UnknownVersion unless this program knows the version of ``field``, which stands so many bytes before."""
    if version not in known:
        numbers, at = " and ".join(map(str, known)), reader.at - before
        raise UnknownVersion(
            f"{reader.source}, byte {at}: the version of {field} is {version}; this program knows {numbers}"
        )


def _versioned_list(
    reader: BigEndianReader, field: str, known: tuple[int, ...]
) -> Iterator[tuple[int, BigEndianReader]]:
    """Yield the version of all members of a list, and a reader of each."""
    version = _version(reader, field, known)
    for _ in range(reader.count(f"how often there is {field}", 4)):
        yield version, reader.sized(field)


def _version(reader: BigEndianReader, field: str, known: tuple[int, ...]) -> int:
    version = reader.int32(f"the version of {field}")
    require_version(version, reader, field, known, before=4)
    return version
