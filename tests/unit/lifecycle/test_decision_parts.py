"""Records that are too large for one: split, put together again, and never counted while a part is missing."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from indoubt.lifecycle.decision_parts import PARTS_SPAN, RecordAssembly, encode_within
from indoubt.lifecycle.decisions import Part, decode, encode
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.lifecycle.decision_records import decision, run
from tests.unit.lifecycle.test_identity import HANDLE

LARGE = decision(0, handles=tuple(replace(HANDLE, transaction=f"é-{slot}-0", slot=slot) for slot in range(100)))
MAX_BYTES = 4_000


def read(assembly, values, begin=0):
    """Return (offset, record) of what is whole, of values from this offset on."""
    found = [(offset, assembly.read(offset, value)) for offset, value in enumerate(values, begin)]
    return [(offset, record) for offset, record in found if record is not None]


def test_a_whole_record_counts_where_it_stands():
    assert RecordAssembly().read(0, encode(run())) == run()


def test_a_part_with_a_letter_too_many_is_malformed():
    data = base64.b64encode(encode(run())).decode()
    whole = Part(prefix="p", id="i", index=0, count=1, data=data, at_ms=1)
    assert RecordAssembly().read(0, encode(whole)) == run()
    with pytest.raises(MalformedRecord, match="part of record i"):
        RecordAssembly().read(0, encode(replace(whole, data=f"!{data}")))


def test_a_record_that_fits_is_not_split():
    assert encode_within(LARGE, 1_000_000) == [encode(LARGE)]
    assert encode_within(LARGE, len(encode(LARGE))) == [encode(LARGE)]


def test_parts_are_small_enough_and_whole_at_the_last():
    parts = encode_within(LARGE, MAX_BYTES)
    assert len(parts) > 5
    assert max(map(len, parts)) <= MAX_BYTES
    assert read(RecordAssembly(), parts) == [(len(parts) - 1, LARGE)]


def test_parts_of_several_writers_may_lie_between_each_other():
    one, two = encode_within(LARGE, MAX_BYTES), encode_within(replace(LARGE, who="two"), MAX_BYTES)
    mixed = [value for pair in zip(one, two, strict=True) for value in (*pair, encode(run()))]
    whole = [(offset, record) for offset, record in read(RecordAssembly(), mixed) if record != run()]
    assert whole == [(len(mixed) - 3, LARGE), (len(mixed) - 2, replace(LARGE, who="two"))]


def test_a_record_counts_once_and_never_while_a_part_is_missing():
    parts = encode_within(LARGE, MAX_BYTES)
    for missing in range(len(parts)):
        assert read(RecordAssembly(), parts[:missing] + parts[missing + 1 :]) == []
    repeated = [value for value in parts for _ in range(2)]
    assert [record for _, record in read(RecordAssembly(), repeated)] == [LARGE]


@pytest.mark.parametrize(("between", "counts"), [(0, True), (1, False)])
def test_parts_too_far_from_each_other_never_count(between, counts):
    *parts, last = encode_within(LARGE, MAX_BYTES)
    assembly = RecordAssembly()
    assert read(assembly, parts, begin=7) == []
    assert (assembly.read(7 + PARTS_SPAN + between, last) == LARGE) is counts


def test_every_reader_forgets_after_the_same_span():
    assert PARTS_SPAN == 10_000, "readers of two spans would not agree on what counts"


def test_a_reader_begins_before_the_parts_that_may_still_count():
    parts, other = encode_within(LARGE, MAX_BYTES), encode_within(LARGE, MAX_BYTES)
    assembly = RecordAssembly()
    assert assembly.begin(5) == 5
    assembly.read(5, parts[0])
    assembly.read(6, other[0])
    assert assembly.begin(9) == 5
    assembly = RecordAssembly()
    read(assembly, parts[:-1], begin=5)
    assert assembly.begin(5 + len(parts)) == 5
    assert assembly.begin(5 + PARTS_SPAN) == 5
    assert assembly.begin(6 + PARTS_SPAN) == 6 + PARTS_SPAN


@pytest.mark.parametrize(
    ("parts", "error", "said"),
    [
        ([Part(prefix="p", id="i", index=0, count=1, data="é", at_ms=1)], MalformedRecord, "part of record i"),
        ([Part(prefix="p", id="i", index=0, count=1, data="abc", at_ms=1)], MalformedRecord, "part of record i"),
        ([Part(prefix="p", id="i", index=0, count=1, data="eA==", at_ms=1)], MalformedRecord, "not JSON"),
        (
            [Part(prefix="p", id="i", index=0, count=count, data="eA==", at_ms=1) for count in (2, 3)],
            MalformedRecord,
            "says 3 parts, not 2",
        ),
    ],
)
def test_parts_that_make_no_record_are_malformed(parts, error, said):
    with pytest.raises(error, match=said):
        read(RecordAssembly(), map(encode, parts))


def test_parts_of_a_newer_programs_record_are_named_as_such(monkeypatch):
    newer = json.dumps({"version": 2, "data": "x" * 9000}).encode()
    monkeypatch.setattr(
        "indoubt.lifecycle.decision_parts.encode", lambda record: newer if record is LARGE else encode(record)
    )
    with pytest.raises(UnknownVersion):
        read(RecordAssembly(), encode_within(LARGE, MAX_BYTES))


def test_parts_in_parts_are_refused(monkeypatch):
    inner = encode_within(LARGE, MAX_BYTES)[0]
    assert isinstance(decode(inner), Part)
    monkeypatch.setattr(
        "indoubt.lifecycle.decision_parts.encode", lambda record: inner if record is LARGE else encode(record)
    )
    with pytest.raises(MalformedRecord, match="part made of parts"):
        read(RecordAssembly(), encode_within(LARGE, 2_000))
