"""The kind of a Flink checkpoint in its serialized properties: what is legal and unknown, and what is damaged."""

from __future__ import annotations

import struct

import pytest

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.checkpoint_properties import read_kind
from indoubt.collector.records.formats.flink_records import FlinkKind
from indoubt.lifecycle.errors import MalformedRecord

HEAD = b"\xac\xed\0\5"
NULL, END = b"\x70", b"\x78"
PACKAGE = "org.apache.flink.runtime.checkpoint."


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def string(text: str) -> bytes:
    return b"\x74" + utf(text)


def reference(number: int) -> bytes:
    return b"\x71" + struct.pack(">i", 0x7E0000 + number)


def java_class(name: str, *fields: bytes, flags: int = 2, parent: bytes = NULL) -> bytes:
    head = b"\x72" + utf(name) + struct.pack(">qBh", 1, flags, len(fields))
    return head + b"".join(fields) + END + parent


def object_field(name: str) -> bytes:
    return b"L" + utf(name) + string("Ljava/lang/Object;")


def properties(kind: bytes, *fields: bytes, flags: int = 2, parent: bytes = NULL) -> bytes:
    """Return properties whose only field, but for these, is the checkpoint's type."""
    type_ = object_field("checkpointType")
    own = java_class(PACKAGE + "CheckpointProperties", *fields, type_, flags=flags, parent=parent)
    return HEAD + b"\x73" + own + bytes(len(fields)) + kind


def savepoint(action: bytes) -> bytes:
    return b"\x73" + java_class(PACKAGE + "SavepointType", object_field("postCheckpointAction")) + action


def enum(constant: str) -> bytes:
    return b"\x7e" + java_class("Action", flags=0x12) + string(constant)


CHECKPOINT = b"\x73" + java_class(PACKAGE + "CheckpointType")


def kind_of(data: bytes) -> FlinkKind | None:
    return read_kind(BigEndianReader(data, "_metadata"))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (properties(CHECKPOINT), FlinkKind.CHECKPOINT),
        (properties(CHECKPOINT, b"Z" + utf("forced")), FlinkKind.CHECKPOINT),
        (properties(savepoint(enum("NONE"))), FlinkKind.SAVEPOINT),
        (properties(savepoint(enum("SUSPEND"))), FlinkKind.SYNC_SAVEPOINT),
        (properties(savepoint(enum("TERMINATE"))), FlinkKind.SYNC_SAVEPOINT),
    ],
)
def test_each_kind(data: bytes, kind: FlinkKind) -> None:
    assert kind_of(data) is kind


@pytest.mark.parametrize(
    "data",
    [
        HEAD + NULL,
        HEAD + string("checkpoint"),
        HEAD + b"\x77\1\0",  # bytes that an object wrote itself
        HEAD + b"\x73\x7d" + struct.pack(">i", 0),  # a proxy
        properties(CHECKPOINT, flags=3),  # a class with writeObject
        properties(NULL),
        properties(reference(2)),
        properties(b"\x73" + java_class(PACKAGE + "LaterType")),
        properties(savepoint(enum("LATER"))),
        properties(savepoint(NULL)),
    ],
)
def test_what_is_legal_and_unknown_is_no_error(data: bytes) -> None:
    assert kind_of(data) is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xac\xee\0\5" + NULL, "byte 0: the properties are no serialized Java object"),
        (b"\xac\xed\0\6" + NULL, "byte 2: the properties have the stream version 6, not 5"),
        (properties(CHECKPOINT) + b"\0", "the file has 1 bytes too many"),
        (properties(reference(4)), "a reference to value 4 of 3"),
        (properties(reference(-1)), "a reference to value -1 of 3"),
        (properties(b"\x73" + NULL), "an object has no class"),
        (properties(b"\x73" + reference(1)), "a reference to a class refers to something else"),
        (properties(b"\x7e" + java_class("Action", flags=0x12) + NULL), "a name is no string"),
        (properties(CHECKPOINT, parent=reference(0)), "a class has more than 16 ancestors"),
        (HEAD + b"\x73" * 2 + bytes(70_000), "more than 65536"),
    ],
)
def test_damage_is_named(data: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        kind_of(data)


def test_objects_and_classes_nested_without_end_are_refused() -> None:
    first = b"\x73" + java_class("A", object_field("a"))
    with pytest.raises(MalformedRecord, match="the properties are nested more than 16 deep"):
        kind_of(HEAD + first + (b"\x73" + reference(0)) * 1000)
    with pytest.raises(MalformedRecord, match="classes are nested more than 16 deep"):
        kind_of(HEAD + b"\x73" + java_class("A")[:-1] * 1000)
