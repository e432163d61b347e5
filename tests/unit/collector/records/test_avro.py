"""Records of Avro in Iceberg's own form: its values, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from indoubt.collector.records.formats.avro import AvroRecord, read_avro_record
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.errors import MalformedRecord
from tests.unit.collector.records.avro_records import fields, number, record, text


def values(schema: Any, data: bytes) -> AvroRecord:
    return read_avro_record(BigEndianReader(record(schema, data), "a state"))


PARTITION = {"type": "record", "name": "partition", "fields": [{"name": "bound", "type": ["null", "bytes"]}]}
DEEP: Any = "int"
for _ in range(20):
    DEEP = {"type": "record", "name": "deep", "fields": [{"name": "in", "type": DEEP}]}


@pytest.mark.parametrize(
    ("type_", "data", "found"),
    [
        ("long", number(-(2**63)), -(2**63)),
        ("int", number(-3), -3),
        ("string", text("Größe"), "Größe"),
        ("boolean", b"\1", b"\1"),
        ("double", bytes(8), bytes(8)),
        ({"type": "fixed", "name": "id", "size": 2}, b"ab", b"ab"),
        ({"type": "long", "logicalType": "timestamp-micros"}, number(7), 7),
        ({"type": "array", "items": "int"}, b"".join(map(number, (2, 1, 2, -1, 1, 3, 0))), [1, 2, 3]),
        (["null", {"type": "array", "items": PARTITION}], b"\2\2\2\4ab\0", [{"bound": b"ab"}]),
    ],
)  # fmt: skip
def test_values_of_avro(type_: Any, data: bytes, found: Any) -> None:
    assert values(fields((1, type_)), data) == {1: found}


def test_a_named_type_is_used_again() -> None:
    twice = fields((1, PARTITION), (2, "partition"))
    assert values(twice, b"\0" + number(1) + number(1) + b"a") == {1: {"bound": None}, 2: {"bound": b"a"}}


@pytest.mark.parametrize(
    ("schema", "data", "error"),
    [
        ("{", b"", "a schema is no JSON"),
        ("[" * 60_000, b"", "a schema is no JSON"),
        ('"int"', number(1), "a schema is of no record"),
        (fields((1, "map")), b"", "has the type map, which is not known"),
        (fields((1, {"type": "record", "name": "x"})), b"", "a schema's record has no fields"),
        (fields((1, {"type": "fixed", "name": "x"})), b"", "bytes without a size"),
        (fields((1, {"type": "fixed", "name": "x", "size": -1})), b"", "bytes has -1 bytes"),
        (fields((1, ["null"])), number(1), "a value has type 1 of 1"),
        (fields((1, ["null"])), number(-1), "a value has type -1 of 1"),
        (fields((1, "long")), b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (fields((1, "long")), b"\xff" * 11, "more than 64 bits"),
        (fields((1, "long")), b"\xff", "a number has 1 bytes, and 0 are left"),
        (fields((1, "string")), number(2) + b"\xff\xff", "a text is not UTF-8"),
        (fields((1, "bytes")), number(3) + b"ab", "bytes has 3 bytes, and 2 are left"),
        (fields((1, "bytes")), number(-1), "bytes has -1 bytes"),
        (fields((1, {"type": "array", "items": "null"})), number(2**40), "more values than there can be"),
        (fields((1, "manifest")), b"", "more values than there can be"),
        (DEEP, number(1), "more values than there can be"),
    ],
)
def test_what_is_no_record_of_avro_is_refused(schema: Any, data: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        values(schema, data)
