"""The structure of ``_metadata``: operators, their subtasks, and where the bytes of their operator states lie.

Source: Checkpoints, MetadataV2V3SerializerBase, MetadataV3Serializer to MetadataV7Serializer, ChannelStateHandleSerializerV1 and V2
of flink-runtime. Version 3 is written by Flink 1.11 and later, 4 from 1.15 on (with properties), 5 and 6 by Flink 2 (with names;
with merged channel states), 7 by versions after 2.3. Keyed states, channel states, the states of coordinators and of the master are
passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_properties import read_kind
from indoubt.collector.records.formats.flink_metadata.state_handles import HandleKind, StateBytes, StateHandles
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.lifecycle.errors import UnknownVersion

VERSIONS = range(3, 8)
_WITH_PROPERTIES, _WITH_NAMES, _WITH_MERGED_CHANNELS, _WITH_REFERENCE = 4, 5, 6, 7
_MAGIC, _MASTER_STATE_MAGIC = 0x4960672D, 0xC96B1696
_LEAST_OPERATOR_BYTES, _LEAST_CHANNEL_BYTES = 29, 18
_MODES = 3
"""SPLIT_DISTRIBUTE, UNION, BROADCAST (OperatorStateHandle.Mode)."""
_OPERATORS_OF_SINKS = (": Committer", ": Writer", "-IcebergFilesCommitter")
"""What Flink, or Iceberg's FlinkSink, puts behind a sink's name."""
_PAIMON_COMMITTER = "Global Committer : "
"""What Paimon's sink puts before its table's name."""
ELEMENT_LIMIT = 100_000
"""Elements of the wanted states in one file at most: a sink has two in each of its subtasks, of which there are at most 32,768."""


class _Channel(IntEnum):
    """The kinds of channel states from version 6 on, by the names that ChannelStateHandleSerializerV2 gives them."""

    INPUT_CHANNEL = 1
    RESULT_SUBPARTITION = 2
    MERGED_INPUT_CHANNEL = 3
    MERGED_RESULT_SUBPARTITION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkOperator:
    """One operator of the job. ``name`` is empty where it was not set, and before version 5."""

    operator_id: str
    """32 hex digits, as Flink prints an OperatorID."""
    name: str

    @property
    def sink(self) -> str:
        """Return what the job calls the sink that it is part of."""
        for suffix in _OPERATORS_OF_SINKS:
            if self.name.endswith(suffix):
                return self.name.removesuffix(suffix)
        return self.name.removeprefix(_PAIMON_COMMITTER) or f"operator {self.operator_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStates:
    """The wanted operator states of one subtask: the offsets of each state's elements in ``content``."""

    offsets: dict[str, tuple[int, ...]]
    content: StateBytes | None
    """None: there are no bytes, so no state should have elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtask:
    """What one subtask of an operator holds. Channel states are the records and committables on the way (unaligned checkpoints)."""

    operator: FlinkOperator
    states: OperatorStates
    input_channel_states: int
    output_channel_states: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """The whole file. ``kind`` None: the version has no properties, or they are of a kind that is unknown."""

    checkpoint_id: int
    kind: FlinkKind | None
    subtasks: tuple[Subtask, ...]
    """Those that have a wanted state."""


def read_structure(data: bytes, wanted: frozenset[str]) -> MetadataFile:
    """Return the structure of a ``_metadata`` file, with the operator states that are ``wanted``, by name.

    Raises UnknownVersion, MalformedRecord that names the offset.
    """
    reader = BigEndianReader(data, "_metadata")
    if reader.int32("the magic number") != _MAGIC:
        raise reader.error("this is no checkpoint metadata of Flink", 0)
    version = reader.int32("the version")
    if version not in VERSIONS:
        known = f"{VERSIONS[0]} to {VERSIONS[-1]}"
        raise UnknownVersion(f"_metadata, byte 4: the version is {version}; this program knows {known}")
    checkpoint_id = reader.int64("the checkpoint id")
    if checkpoint_id < 0:
        raise reader.error(f"the checkpoint id is {checkpoint_id}", reader.at - 8)
    for _ in range(reader.count("the number of master states", 8)):
        if reader.int32("a master state's magic number") & 0xFFFFFFFF != _MASTER_STATE_MAGIC:
            raise reader.error("this is no master state", reader.at - 4)
        reader.skip(reader.int32("a master state's size"), "a master state")
    structure = _Structure(reader, version, wanted)
    subtasks: list[Subtask] = []
    for _ in range(reader.count("the number of operators", _LEAST_OPERATOR_BYTES)):
        subtasks.extend(structure.subtasks(structure.operator()))
    kind = read_kind(reader) if version >= _WITH_PROPERTIES else None
    if version < _WITH_PROPERTIES:
        reader.ends("the file")
    return MetadataFile(checkpoint_id=checkpoint_id, kind=kind, subtasks=tuple(subtasks))


class _Structure:
    """Reads operators and handles, in the order in which they are written."""

    def __init__(self, reader: BigEndianReader, version: int, wanted: frozenset[str]) -> None:
        self._reader, self._version, self._wanted = reader, version, wanted
        self._handles = StateHandles(reader)
        self._elements_left = ELEMENT_LIMIT

    def operator(self) -> FlinkOperator:
        """Return the next operator."""
        reader, name = self._reader, ""
        if self._version >= _WITH_NAMES:
            name, _ = reader.utf("an operator's name"), reader.utf("an operator's uid")
        operator = FlinkOperator(operator_id=reader.raw(16, "an operator's id").hex(), name=name)
        reader.skip(8, "an operator's parallelism and its maximum")
        self._handles.stream()  # the coordinator's state
        return operator

    def subtasks(self, operator: FlinkOperator) -> Iterator[Subtask]:
        """Yield its subtasks that have a wanted state."""
        reader = self._reader
        number = reader.int32("the number of subtasks")
        if number > reader.left // 4:
            raise reader.error(f"the number of subtasks is {number}, and {reader.left} bytes are left", reader.at - 4)
        for _ in range(number):  # negative: every subtask is finished
            index = reader.int32("a subtask's index")
            if index >= 0 and (subtask := self._subtask(operator)):  # negative: this subtask is finished
                yield subtask

    def _subtask(self, operator: FlinkOperator) -> Subtask | None:
        reader = self._reader
        managed = self._operator_states() if reader.int32("whether there is operator state") else None
        if reader.int32("whether there is raw operator state"):
            self._operator_states()
        for _ in range(2):  # managed and raw
            self._handles.skip_keyed()
        inputs, outputs = self._channel_states(), self._channel_states()
        if self._version >= _WITH_REFERENCE and reader.int8("whether there is a reference to a checkpoint") == 1:
            reader.skip(8, "the reference to a checkpoint")
        if managed is None:
            return None
        return Subtask(
            operator=operator,
            states=managed,
            input_channel_states=inputs,
            output_channel_states=outputs,
        )

    def _operator_states(self) -> OperatorStates | None:
        """Return the wanted operator states; None where there are none."""
        reader = self._reader
        kind = reader.int8("the kind of an operator state handle")
        if kind == HandleKind.NULL:
            return None
        if kind not in (HandleKind.PARTITIONABLE_OPERATOR_STATE, HandleKind.SEGMENT_PARTITIONABLE_OPERATOR_STATE):
            raise reader.error(f"an operator state handle has the kind {kind}, which is unknown", reader.at - 1)
        offsets: dict[str, tuple[int, ...]] = {}
        for _ in range(reader.count("the number of operator states", 7)):
            name = reader.utf("an operator state's name")
            if (mode := reader.int8("an operator state's mode")) >= _MODES:
                raise reader.error(f"an operator state has the mode {mode}, which is unknown", reader.at - 1)
            number = reader.count("the number of an operator state's elements", 8)
            if name in self._wanted:
                offsets[name] = self._offsets(number)
            else:
                reader.skip(8 * number, "the offsets of elements")
        if kind == HandleKind.SEGMENT_PARTITIONABLE_OPERATOR_STATE:
            reader.utf("the directory of the task's files")
            reader.utf("the directory of shared files")
            reader.skip(1, "whether the handle is empty")
        content = self._handles.stream()
        return OperatorStates(offsets=offsets, content=content) if offsets else None

    def _offsets(self, number: int) -> tuple[int, ...]:
        self._elements_left -= max(1, number)
        if self._elements_left < 0:
            raise self._reader.error(f"the sinks' states have more than {ELEMENT_LIMIT} elements", self._reader.at)
        return tuple(self._reader.int64("an element's offset") for _ in range(number))

    def _channel_states(self) -> int:
        """Pass over the handles of input or output channels and return how many there are."""
        reader = self._reader
        number = reader.count("the number of channel states", _LEAST_CHANNEL_BYTES)
        for _ in range(number):
            kind: int = _Channel.INPUT_CHANNEL
            if self._version >= _WITH_MERGED_CHANNELS:
                kind = reader.int8("the kind of a channel state")
            match kind:
                case _Channel.INPUT_CHANNEL | _Channel.RESULT_SUBPARTITION:
                    reader.skip(12, "the indexes of a channel")
                    reader.skip(8 * reader.count("the number of a channel's offsets", 8), "the offsets of a channel")
                    reader.skip(8, "the size of a channel state")
                    self._handles.stream()
                case _Channel.MERGED_INPUT_CHANNEL | _Channel.MERGED_RESULT_SUBPARTITION:
                    reader.skip(12, "the index and size of channel states")
                    self._handles.stream()
                    reader.skip(reader.int32("the size of the offsets of channels"), "the offsets of channels")
                case _:
                    raise reader.error(f"a channel state has the kind {kind}, which is unknown", reader.at - 1)
        return number
