"""State handles: where the bytes of a state lie. Those of keyed state are passed over.

Source: MetadataV2V3SerializerBase of flink-runtime, whose names for the kinds of handles are used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader

_DEEPEST_HANDLE = 8
"""Flink nests handles three deep: a changelog of key groups of a file."""


class HandleKind(IntEnum):
    """The kinds of handles of streams, of operator states and of keyed states."""

    NULL = 0
    BYTE_STREAM = 1
    FILE_STREAM = 2
    KEY_GROUPS = 3
    PARTITIONABLE_OPERATOR_STATE = 4
    INCREMENTAL_KEY_GROUPS = 5
    RELATIVE_STREAM = 6
    SAVEPOINT_KEY_GROUPS = 7
    CHANGELOG = 8
    CHANGELOG_BYTE_INCREMENT = 9
    CHANGELOG_FILE_INCREMENT = 10
    INCREMENTAL_KEY_GROUPS_V2 = 11
    KEY_GROUPS_V2 = 12
    CHANGELOG_FILE_INCREMENT_V2 = 13
    CHANGELOG_V2 = 14
    SEGMENT_FILE = 15
    EMPTY_SEGMENT_FILE = 16
    SEGMENT_PARTITIONABLE_OPERATOR_STATE = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Where the bytes of a state lie: ``size`` bytes from ``at`` on, in ``_metadata`` or in the file ``path``."""

    path: str | None
    """None: inline, in ``_metadata``."""
    is_relative: bool
    """``path`` is relative to the directory of ``_metadata``."""
    at: int
    size: int


class StateHandles:
    """Reads handles where ``reader`` stands. Its methods raise MalformedRecord."""

    def __init__(self, reader: BigEndianReader) -> None:
        self._reader = reader

    def stream(self, depth: int = 0) -> StateBytes | None:
        """Return where a state's bytes lie; None where there are none or where they are of keyed state."""
        reader = self._reader
        match kind := reader.int8("the kind of a state handle"):
            case HandleKind.NULL | HandleKind.EMPTY_SEGMENT_FILE:
                return None
            case HandleKind.BYTE_STREAM:
                reader.utf("a state handle's name")
                size = reader.int32("the size of an inline state")
                return StateBytes(path=None, is_relative=False, at=reader.skip(size, "an inline state"), size=size)
            case HandleKind.FILE_STREAM:
                size = reader.int64("the size of a state file")
                return StateBytes(path=reader.utf("the path of a state file"), is_relative=False, at=0, size=size)
            case HandleKind.RELATIVE_STREAM:
                path = reader.utf("the path of a state file")
                return StateBytes(path=path, is_relative=True, at=0, size=reader.int64("the size of a state file"))
            case HandleKind.SEGMENT_FILE:
                at, size = reader.int64("a segment's offset"), reader.int64("a segment's size")
                reader.skip(4, "a segment's scope")
                path = reader.utf("the path of a segment's file")
                reader.utf("a segment's id")
                return StateBytes(path=path, is_relative=False, at=at, size=size)
            case HandleKind.KEY_GROUPS:
                self._skip_key_groups(depth)
                return None
            case _:
                raise reader.error(f"a state handle has the kind {kind}, which is unknown", reader.at - 1)

    def _skip_key_groups(self, depth: int) -> None:
        reader = self._reader
        if depth > _DEEPEST_HANDLE:
            raise reader.error(f"state handles are nested more than {_DEEPEST_HANDLE} deep", reader.at)
        reader.skip(4, "the first key group")
        number = reader.count("the number of key groups", 8)
        reader.skip(8 * number, "the offsets of key groups")
        self.stream(depth + 1)

    def skip_keyed(self, depth: int = 0) -> None:
        """Pass over a keyed state handle."""
        reader = self._reader
        if depth > _DEEPEST_HANDLE:
            raise reader.error(f"state handles are nested more than {_DEEPEST_HANDLE} deep", reader.at)
        match kind := reader.int8("the kind of a keyed state handle"):
            case HandleKind.NULL:
                return
            case HandleKind.KEY_GROUPS | HandleKind.SAVEPOINT_KEY_GROUPS:
                self._skip_key_groups(depth)
                return
            case HandleKind.KEY_GROUPS_V2:
                self._skip_key_groups(depth)
            case HandleKind.INCREMENTAL_KEY_GROUPS:
                self._skip_incremental(8)
                return
            case HandleKind.INCREMENTAL_KEY_GROUPS_V2:
                self._skip_incremental(16)  # with the checkpointed size
            case HandleKind.CHANGELOG | HandleKind.CHANGELOG_V2:
                reader.skip(16, "the key groups and size of a changelog")
                for field in ("the number of materialized states", "the number of changelogs"):
                    for _ in range(reader.count(field, 1)):
                        self.skip_keyed(depth + 1)
                reader.skip(8 if kind == HandleKind.CHANGELOG else 16, "the ids of a changelog")
            case HandleKind.CHANGELOG_BYTE_INCREMENT:
                reader.skip(24, "the key groups and range of a changelog")
                for _ in range(reader.count("the number of changes", 8)):
                    reader.skip(4, "a change's key group")
                    reader.skip(reader.int32("the size of a change"), "a change")
            case HandleKind.CHANGELOG_FILE_INCREMENT | HandleKind.CHANGELOG_FILE_INCREMENT_V2:
                reader.skip(8, "the key groups of a changelog")
                for _ in range(reader.count("the number of a changelog's files", 9)):
                    reader.skip(8, "the offset in a changelog's file")
                    self.stream()
                reader.skip(16, "the sizes of a changelog")
                if kind == HandleKind.CHANGELOG_FILE_INCREMENT_V2:
                    reader.utf("the id of a state handle")
                    reader.utf("the storage of a changelog")
                    return
            case _:
                raise reader.error(f"a keyed state handle has the kind {kind}, which is unknown", reader.at - 1)
        reader.utf("the id of a state handle")

    def _skip_incremental(self, sizes: int) -> None:
        """Pass over the handle of an incremental keyed state, which has ``sizes`` bytes of key groups and size."""
        reader = self._reader
        reader.skip(8, "the checkpoint id of an incremental state")
        reader.utf("the id of a state backend")
        reader.skip(sizes, "the key groups and size of an incremental state")
        self.stream()
        for field in ("the number of shared files", "the number of private files"):
            for _ in range(reader.count(field, 3)):
                reader.utf("the local path of a file")
                self.stream()
