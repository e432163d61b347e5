"""What a completed checkpoint or savepoint of Flink commits, read from its file ``_metadata``: transactions, branches and files.

A state of more than ``execution.checkpointing.data-inline-threshold`` bytes (20 kB) lies in a file beside ``_metadata``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeVar

import pyarrow as pa

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import COMMITTER_STATE, WRITER_STATE
from indoubt.collector.records.formats.flink_metadata.file_sink_states import FlinkBucket, read_bucket
from indoubt.collector.records.formats.flink_metadata.iceberg_sink_states import (
    FILES_STATE,
    JOB_STATE,
    joined,
    read_files_committer,
)
from indoubt.collector.records.formats.flink_metadata.jdbc_sink_states import FUNCTION_STATE, read_function_state
from indoubt.collector.records.formats.flink_metadata.kafka_sink_states import FlinkWriterState, read_writer_state
from indoubt.collector.records.formats.flink_metadata.metadata_file import (
    FlinkOperator,
    OperatorStates,
    Subtask,
    read_structure,
)
from indoubt.collector.records.formats.flink_metadata.operator_state import read_elements
from indoubt.collector.records.formats.flink_metadata.paimon_sink_states import USER_STATE, read_paimon_committer
from indoubt.collector.records.formats.flink_metadata.sink_states import (
    ReadRequest,
    SinkKind,
    read_branches,
    read_requests,
)
from indoubt.collector.records.formats.flink_metadata.state_handles import StateBytes
from indoubt.collector.records.formats.flink_records import Committable, FlinkKind
from indoubt.collector.records.formats.pending_files import IcebergCommit, PendingFile
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.mysql.xa_xid import XaXid

T = TypeVar("T")
OpenState = Callable[[str], BinaryIO]
"""Opens a state file for reading at any place. Takes a path relative to the directory of ``_metadata``, or an absolute path or
URI, a local one as ``file:/…`` (file merging writes these). It comes from the file: the caller decides which of them it opens.
Raises OSError, ValueError, ArrowException."""
STATE_FILE_LIMIT = 2**24
"""Bytes read from state files for one checkpoint at most; a committable takes about 100."""
METADATA_LIMIT = 2**26
"""Bytes of ``_metadata`` at most. So many took 3 s of CPU to read where they were handles of files, 20 s at worst."""
TRANSACTION_LIMIT = 200_000
"""Committables and prepared transactions of one checkpoint at most."""
ON_THE_WAY = "committables may be on the way from the writer to the committer"
SAME_XIDS = "the job has several JdbcSink, which make the same xids: theirs cannot be told apart"
INPUT_CHANNELS, OUTPUT_CHANNELS = "input channels", "output channels"


_WANTED = frozenset({COMMITTER_STATE, WRITER_STATE, FUNCTION_STATE, FILES_STATE, JOB_STATE, USER_STATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadState:
    """A state of a sink that could not be read, and why: its committables are not known."""

    state: str
    """The operator state's name, or INPUT_CHANNELS or OUTPUT_CHANNELS: committables on the way, before Flink 1.20.1 and 1.19.2."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedCommits:
    """How many commits one sink announces with this checkpoint; also of a sink whose committables no decoder knows."""

    operator: FlinkOperator
    """The sink's committer; of JDBC sinks, which commit by themselves, its writer."""
    kind: SinkKind
    commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCheckpointMetadata:
    """What ``_metadata`` says of transactions, operator by operator and subtask by subtask in the order of the file.

    What it lists Flink commits once it is completed, and again after each restore from it (CommitterOperator). A SAVEPOINT's is
    not committed at its own completion, but at that of the next checkpoint, or after a restore from it.
    """

    checkpoint_id: int
    kind: FlinkKind | None
    """CHECKPOINT also when it is unaligned. None: format version 3, or a kind that is unknown."""
    committables: tuple[Committable, ...]
    """Complete only if ``unread`` has no committer's state and no channels."""
    writer_states: tuple[FlinkWriterState, ...]
    unread: tuple[UnreadState, ...]
    """Sinks of other systems are here too: their states have the same names."""
    branches: tuple[XaXid, ...] = ()
    """What the JDBC sinks have prepared."""
    files: tuple[PendingFile, ...] = ()
    """What the sinks of files and tables have written whole: what is to be made visible at its completion."""
    buckets: tuple[FlinkBucket, ...] = ()
    """Where the file sinks' writers write, and what they go on with."""
    announced: tuple[AnnouncedCommits, ...] = ()
    """By sink, in the order of the file; without sinks whose committer's state could not be read at all."""


def read_checkpoint_metadata(data: bytes, open_state: OpenState) -> FlinkCheckpointMetadata:
    """Return what the bytes of ``_metadata``, at most METADATA_LIMIT, and the state files beside it say.

    Raises UnknownVersion for a format version other than 3 to 7, and MalformedRecord, with the offset, where the file's structure
    is damaged. What is wrong with one operator state is in ``unread`` instead.
    """
    if len(data) > METADATA_LIMIT:
        raise MalformedRecord(f"_metadata has more than {METADATA_LIMIT} bytes, which is more than this program reads")
    file = read_structure(data, _WANTED)
    states = _SinkStates(data, open_state, file.checkpoint_id)
    for subtask in file.subtasks:
        states.read(subtask)
    states.leave_out_what_cannot_be_told_apart()
    return FlinkCheckpointMetadata(
        checkpoint_id=file.checkpoint_id,
        kind=file.kind,
        committables=tuple(states.committables),
        writer_states=tuple(states.writer_states),
        branches=states.branches,
        files=joined(states.files),
        buckets=tuple(states.buckets),
        announced=states.announced,
        unread=tuple(states.unread),
    )


class _SinkStates:
    """Collects what the sinks' subtasks hold."""

    def __init__(self, data: bytes, open_state: OpenState, checkpoint_id: int) -> None:
        self._data, self._open_state, self._bytes_left = data, open_state, STATE_FILE_LIMIT
        self._checkpoint_id = checkpoint_id
        self._transactions_left = TRANSACTION_LIMIT
        self.committables: list[Committable] = []
        self.files: list[PendingFile] = []
        self.buckets: list[FlinkBucket] = []
        self._counted: Counter[tuple[FlinkOperator, SinkKind]] = Counter()
        self._commits: set[str] = set()
        self.writer_states: list[FlinkWriterState] = []
        self._of_functions: dict[FlinkOperator, list[XaXid]] = {}
        self._of_sinks: dict[FlinkOperator, list[XaXid]] = {}
        self.unread: list[UnreadState] = []

    @property
    def branches(self) -> tuple[XaXid, ...]:
        """Return what the JDBC sinks have prepared."""
        return tuple(xid for of in (self._of_functions, self._of_sinks) for xids in of.values() for xid in xids)

    @property
    def announced(self) -> tuple[AnnouncedCommits, ...]:
        """Return how many commits each sink announces."""
        counted = self._counted.copy()
        for of in (self._of_functions, self._of_sinks):
            counted.update({(operator, SinkKind.JDBC): len(xids) for operator, xids in of.items() if xids})
        return tuple(
            AnnouncedCommits(operator=operator, kind=kind, commits=commits)
            for (operator, kind), commits in counted.items()
        )

    def read(self, subtask: Subtask) -> None:
        """Add what one subtask holds."""
        states = subtask.states
        for name, offsets in states.offsets.items():
            try:
                if name == FILES_STATE:
                    self._read_files_committer(subtask.operator, states)
                elif name == COMMITTER_STATE and USER_STATE in states.offsets:
                    self._read_paimon_committer(subtask.operator, states)
                elif name not in (JOB_STATE, USER_STATE):
                    self._read_state(subtask.operator, name, offsets, states.content)
            except MalformedRecord as error:
                self.unread.append(UnreadState(state=name, reason=str(error)))
        if COMMITTER_STATE in states.offsets and subtask.input_channel_states:
            self.unread.append(UnreadState(state=INPUT_CHANNELS, reason=ON_THE_WAY))
        if WRITER_STATE in states.offsets and subtask.output_channel_states:
            self.unread.append(UnreadState(state=OUTPUT_CHANNELS, reason=ON_THE_WAY))

    def leave_out_what_cannot_be_told_apart(self) -> None:
        """Count what several of the newer JDBC sinks have prepared as not read: in one job they make the same xids."""
        if len(self._of_sinks) < 2 or not any(self._of_sinks.values()):
            return
        self.unread += [UnreadState(state=WRITER_STATE, reason=SAME_XIDS) for _ in self._of_sinks]
        self._of_sinks.clear()

    def _read_state(
        self, operator: FlinkOperator, name: str, offsets: Sequence[int], content: StateBytes | None
    ) -> None:
        """Add all elements of a state, or none of them."""
        if not offsets:
            return
        elements = read_elements(self._opened(content), offsets, have_lengths=name != FUNCTION_STATE)
        if name == FUNCTION_STATE:
            found = self._within_limit(xid for element in elements for xid in read_function_state(element))
            self._of_functions.setdefault(operator, []).extend(found)
        elif name == COMMITTER_STATE:
            requests = (request for element in elements for request in read_requests(element))
            self._add_requests(operator, self._within_limit(requests))
        else:
            self._read_writers(operator, elements)

    def _read_files_committer(self, operator: FlinkOperator, states: OperatorStates) -> None:
        """Add what Iceberg's FlinkSink announces, or none of it."""
        if not states.offsets[FILES_STATE]:
            return
        jobs, pending = self._elements(states, {JOB_STATE: False, FILES_STATE: False})
        self._add_files(operator, SinkKind.ICEBERG, read_files_committer(jobs, pending, operator.operator_id))

    def _read_paimon_committer(self, operator: FlinkOperator, states: OperatorStates) -> None:
        """Add what Paimon's sink announces, or none of it: what is not understood is counted."""
        if not states.offsets[COMMITTER_STATE]:
            return
        self._counted[operator, SinkKind.PAIMON] = len(states.offsets[COMMITTER_STATE])
        users, pending = self._elements(states, {USER_STATE: False, COMMITTER_STATE: True})
        self._add_files(operator, SinkKind.PAIMON, read_paimon_committer(users, pending, self._checkpoint_id))

    def _elements(self, states: OperatorStates, names: Mapping[str, bool]) -> list[Iterator[BigEndianReader]]:
        """Return the elements of several states of a subtask; ``names``: of each, whether its elements have lengths."""
        opened = self._opened(states.content)
        return [
            read_elements(opened.again(), states.offsets.get(name, ()), have_lengths=have_lengths)
            for name, have_lengths in names.items()
        ]

    def _add_files(self, operator: FlinkOperator, kind: SinkKind, files: Iterable[PendingFile]) -> None:
        """Add and count all that a sink announces, or none of it."""
        found = self._within_limit(files)
        if found:
            self._counted[operator, kind] = len(found)
        else:
            self._counted.pop((operator, kind), None)
        self.files += (replace(file, sink=operator.sink) for file in found)

    def _add_requests(self, operator: FlinkOperator, requests: Sequence[ReadRequest]) -> None:
        """Count all requests of a committer, and add what they commit. Raises MalformedRecord where one was not understood."""
        for each in requests:
            is_counted = each.request.is_to_be_committed(self._checkpoint_id) and (each.found or each.why)
            if is_counted and not self._is_known_commit(each):
                self._counted[operator, each.kind] += 1
        if why := next((each.why for each in requests if each.why is not None), None):
            raise why
        for each in requests:
            if each.found is None or not each.request.is_to_be_committed(self._checkpoint_id):
                continue
            if isinstance(each.found, PendingFile):
                self.files.append(replace(each.found, sink=operator.sink))
            else:
                self.committables.append(each.found)

    def _is_known_commit(self, each: ReadRequest) -> bool:
        """Say whether an earlier request announces the same commit to an Iceberg table (joined)."""
        if not isinstance(each.found, PendingFile) or not isinstance(each.found.commit, IcebergCommit):
            return False
        is_known = each.found.target in self._commits
        self._commits.add(each.found.target)
        return is_known

    def _read_writers(self, operator: FlinkOperator, elements: Iterator[BigEndianReader]) -> None:
        """Add what writers keep, of the Kafka sink or of the JDBC sink."""
        writers: list[FlinkWriterState] = []
        branches: list[XaXid] | None = None
        for element in elements:
            if (bucket := read_bucket(element)) is not None:
                self.buckets += self._within_limit([bucket])
            elif (found := read_branches(element)) is not None:
                branches = (branches or []) + self._within_limit(found)
            else:
                writers += self._within_limit([read_writer_state(element)])
        self.writer_states += writers
        if branches is not None:
            self._of_sinks.setdefault(operator, []).extend(branches)

    def _within_limit(self, found: Iterable[T]) -> list[T]:
        kept = []
        for state in found:
            self._transactions_left -= 1
            if self._transactions_left < 0:
                raise MalformedRecord(f"the checkpoint has more than {TRANSACTION_LIMIT} transactions")
            kept.append(state)
        return kept

    def _opened(self, content: StateBytes | None) -> BigEndianReader:
        """Return a reader of the operator states. Raises MalformedRecord, also when they cannot be opened."""
        if content is None:
            raise MalformedRecord("_metadata lists its elements and no bytes")
        if content.path is None:
            return BigEndianReader(self._data, "_metadata", content.at, content.at + content.size)
        path, size = content.path, content.size
        if content.is_relative and (not path or ".." in path.split("/") or path.startswith("/") or ":" in path):
            raise MalformedRecord(f"the relative path {path!r} is none of a file in the checkpoint's directory")
        if min(content.at, size) < 0:
            raise MalformedRecord(f"{path}: {size} bytes from byte {content.at} on")
        if size > self._bytes_left:
            raise MalformedRecord(f"{path} has {size} bytes; {self._bytes_left} of {STATE_FILE_LIMIT} are left")
        self._bytes_left -= size
        try:
            with self._open_state(path) as stream:
                if content.at:
                    stream.seek(content.at)
                data = stream.read(size)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise MalformedRecord(f"{path} cannot be read: {error}") from error
        if len(data) != size:
            raise MalformedRecord(f"{path} has {len(data)} bytes from byte {content.at} on, not {size}")
        return BigEndianReader(data, path)
