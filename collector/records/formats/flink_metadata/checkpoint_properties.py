"""The kind of a checkpoint: CheckpointProperties of flink-runtime, written by Java's serialization at the end of ``_metadata``.

Source: Java Object Serialization Specification, section 6.4, of which Flink's classes use a part: objects without writeObject,
strings, enumerations, references. Other elements are legal and not understood: then the kind is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_records import FlinkKind

_STREAM_MAGIC, _STREAM_VERSION = 0xACED, 5
_FIRST_HANDLE = 0x7E0000
_SERIALIZABLE, _IS_ENUM = 0x02, 0x10
_SIZES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}
_DEEPEST = 16
_MOST_BYTES = 65_536
"""Flink 2.3 writes about 700."""
_PACKAGE = "org.apache.flink.runtime.checkpoint."


class _Type(IntEnum):
    """What begins a value or a class (java.io.ObjectStreamConstants, TC_*)."""

    NULL = 0x70
    REFERENCE = 0x71
    CLASS = 0x72
    OBJECT = 0x73
    STRING = 0x74
    END_OF_ANNOTATIONS = 0x78
    ENUM = 0x7E


class _NotUnderstood(Exception):
    """A legal element that this reader does not know."""


@dataclass(slots=True)
class _JavaClass:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    """Type code and name, in the order written."""
    parent: _JavaClass | None = None


@dataclass(slots=True)
class _JavaObject:
    type: _JavaClass
    values: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _JavaEnum:
    type: _JavaClass
    constant: str


def read_kind(reader: BigEndianReader) -> FlinkKind | None:
    """Read the properties up to the end and return the kind; None when it is unknown.

    CHECKPOINT stands for unaligned checkpoints too: the properties do not distinguish them. Raises MalformedRecord.
    """
    if reader.left > _MOST_BYTES:
        raise reader.error(f"the properties have {reader.left} bytes, more than {_MOST_BYTES}", reader.at)
    if reader.int16("the properties' magic number") & 0xFFFF != _STREAM_MAGIC:
        raise reader.error("the properties are no serialized Java object", reader.at - 2)
    if (version := reader.int16("the properties' stream version")) != _STREAM_VERSION:
        raise reader.error(f"the properties have the stream version {version}, not {_STREAM_VERSION}", reader.at - 2)
    try:
        properties = _JavaReader(reader).value()
    except _NotUnderstood:
        return None
    reader.ends("the file")
    return _kind(properties)


def _kind(properties: object) -> FlinkKind | None:
    kind = properties.values.get("checkpointType") if isinstance(properties, _JavaObject) else None
    if not isinstance(kind, _JavaObject):
        return None
    if kind.type.name == _PACKAGE + "CheckpointType":
        return FlinkKind.CHECKPOINT
    action = kind.values.get("postCheckpointAction")
    if kind.type.name != _PACKAGE + "SavepointType" or not isinstance(action, _JavaEnum):
        return None
    return {
        "NONE": FlinkKind.SAVEPOINT,
        "SUSPEND": FlinkKind.SYNC_SAVEPOINT,
        "TERMINATE": FlinkKind.SYNC_SAVEPOINT,
    }.get(action.constant)


class _JavaReader:
    """Reads values and keeps those that a later one may refer to."""

    def __init__(self, reader: BigEndianReader) -> None:
        self._reader, self._kept = reader, list[object]()

    def value(self, depth: int = 0) -> object:
        """Return the next value: an object, an enumeration's constant, text, or None."""
        reader = self._reader
        if depth > _DEEPEST:
            raise reader.error(f"the properties are nested more than {_DEEPEST} deep", reader.at)
        match reader.int8("a value's type"):
            case _Type.NULL:
                return None
            case _Type.REFERENCE:
                return self._referred()
            case _Type.OBJECT:
                return self._object(depth)
            case _Type.STRING:
                text = reader.utf("a string")
                self._kept.append(text)
                return text
            case _Type.ENUM:
                found = _JavaEnum(type=self._class(depth), constant="")
                self._kept.append(found)
                found.constant = self._text(depth)
                return found
            case _:
                raise _NotUnderstood

    def _object(self, depth: int) -> _JavaObject:
        found = _JavaObject(type=self._class(depth))
        self._kept.append(found)
        hierarchy: list[_JavaClass] = []
        type_: _JavaClass | None = found.type
        while type_ is not None:
            hierarchy.append(type_)
            type_ = type_.parent
            if len(hierarchy) > _DEEPEST:
                raise self._reader.error(f"a class has more than {_DEEPEST} ancestors", self._reader.at)
        for type_ in reversed(hierarchy):
            if type_.flags != _SERIALIZABLE:
                raise _NotUnderstood
            for code, name in type_.fields:
                if code in _SIZES:
                    self._reader.skip(_SIZES[code], f"the field {name}")
                else:
                    found.values[name] = self.value(depth + 1)
        return found

    def _class(self, depth: int) -> _JavaClass:
        found = self._class_or_none(depth)
        if found is None:
            raise self._reader.error("an object has no class", self._reader.at - 1)
        return found

    def _class_or_none(self, depth: int) -> _JavaClass | None:
        reader = self._reader
        if depth > _DEEPEST:
            raise reader.error(f"classes are nested more than {_DEEPEST} deep", reader.at)
        match reader.int8("a class's type"):
            case _Type.NULL:
                return None
            case _Type.REFERENCE:
                referred = self._referred()
                if not isinstance(referred, _JavaClass):
                    raise reader.error("a reference to a class refers to something else", reader.at - 4)
                return referred
            case _Type.CLASS:
                pass
            case _:
                raise _NotUnderstood
        found = _JavaClass(name=reader.utf("a class's name"))
        reader.skip(8, "a class's serial version")
        self._kept.append(found)
        found.flags = reader.int8("a class's flags") & ~_IS_ENUM
        for _ in range(reader.int16("the number of a class's fields")):
            code = chr(reader.int8("a field's type"))
            name = reader.utf("a field's name")
            if code not in _SIZES:
                self._text(depth)
            found.fields.append((code, name))
        if reader.int8("the end of a class's annotations") != _Type.END_OF_ANNOTATIONS:
            raise _NotUnderstood
        found.parent = self._class_or_none(depth + 1)
        return found

    def _text(self, depth: int) -> str:
        at = self._reader.at
        text = self.value(depth + 1)
        if not isinstance(text, str):
            raise self._reader.error("a name is no string", at)
        return text

    def _referred(self) -> object:
        number = self._reader.int32("a reference") - _FIRST_HANDLE
        if not 0 <= number < len(self._kept):
            raise self._reader.error(f"a reference to value {number} of {len(self._kept)}", self._reader.at - 4)
        return self._kept[number]
