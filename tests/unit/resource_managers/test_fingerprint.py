"""Fingerprints depend on the rows alone: not on order, batches, slicing or Arrow's type; and tell rows apart."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import Fingerprint
from indoubt.resource_managers.fingerprint import LONG_ROW_BYTES, RunningFingerprint, words_of

LENGTHS = [0, 1, 3, 7, 8, 9, 15, 16, 17, 100, LONG_ROW_BYTES - 1, LONG_ROW_BYTES, LONG_ROW_BYTES + 1, 9_000]


def fingerprint(values, keys=None, batches=1, type_=None) -> Fingerprint:
    running = RunningFingerprint()
    step = max(1, -(-len(values) // batches))
    for start in range(0, len(values), step):
        key = pa.array(keys[start : start + step], type_ or pa.binary()) if keys is not None else None
        running.add(key, pa.array(values[start : start + step], type_ or pa.binary()))
    return running.value


@pytest.fixture(scope="module")
def many():
    chance = random.Random(7)
    values = [None if chance.random() < 0.1 else chance.randbytes(chance.choice(LENGTHS)) for _ in range(2_000)]
    keys = [None if chance.random() < 0.3 else chance.randbytes(chance.randrange(20)) for _ in values]
    return values, keys


def test_order_and_batches_do_not_matter(many):
    values, keys = many
    expected = fingerprint(values, keys)
    assert expected.rows == len(values)
    order = list(range(len(values)))
    random.Random(8).shuffle(order)
    shuffled = fingerprint([values[i] for i in order], [keys[i] for i in order], batches=9)
    assert shuffled == expected
    assert fingerprint(values, keys, batches=len(values)) == expected


def test_slices_and_large_types_do_not_matter(many):
    values, keys = many
    expected = fingerprint(values, keys)
    assert fingerprint(values, keys, type_=pa.large_binary()) == expected
    padded = pa.array([b"before", *values, b"after"], pa.binary())
    padded_keys = pa.array([b"before", *keys, None], pa.binary())
    running = RunningFingerprint()
    running.add(padded_keys.slice(1, len(values)), padded.slice(1, len(values)))
    assert running.value == expected


def test_text_and_its_bytes_are_the_same():
    texts = ["", "a", "zwölf Boxkämpfer", "x" * 5_000]
    as_bytes = fingerprint([text.encode() for text in texts])
    assert fingerprint(texts, type_=pa.string()) == fingerprint(texts, type_=pa.large_string()) == as_bytes


def test_a_row_does_not_depend_on_its_neighbours():
    values = [b"a" * length for length in LENGTHS]
    mask = (1 << 64) - 1
    assert fingerprint(values).hash == sum(fingerprint([value]).hash for value in values) & mask


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([b"a"], [b"b"]), ([b"b"], [b"a"])),
        (([b"bc"], [b"a"]), ([b"c"], [b"ab"])),
        (([b"ab"], [None]), ([b"ab"], [b""])),
        (([None], [b"a"]), ([b""], [b"a"])),
        (([None], [b""]), ([b""], [None])),
        (([b"a\0"], [None]), ([b"a"], [None])),
        (([b"\0"], [None]), ([b"\0\0"], [None])),
        (([b""], [None]), ([b"\0"], [None])),
        (([b"a", b"a"], [None, None]), ([b"b", b"b"], [None, None])),
        (([b"a", b"b"], [b"1", b"2"]), ([b"a", b"b"], [b"2", b"1"])),
        (([b"12345678a"], [None]), ([b"a12345678"], [None])),
        (([b"x" * 5_000 + b"1"], [None]), ([b"x" * 5_000 + b"2"], [None])),
    ],
)
def test_different_rows_differ(one, other):
    assert fingerprint(*one) != fingerprint(*other)


def test_equal_rows_do_not_cancel_each_other():
    assert fingerprint([b"a", b"a"]) != fingerprint([b"b", b"b"])
    assert fingerprint([b"a"] * 4).hash != 0


def test_no_key_column_is_a_column_of_null_keys():
    assert fingerprint([b"a", b"b"]) == fingerprint([b"a", b"b"], [None, None])


def test_single_bit_flips_and_counters_do_not_collide():
    seen = {fingerprint([value]).hash for value in (bytes([1 << bit]) + bytes(15) for bit in range(8))}
    seen |= {fingerprint([bytes(n) + b"\x01" + bytes(15 - n)]).hash for n in range(1, 16)}
    assert len(seen) == 8 + 15
    counters = pa.array([b"%012d" % n for n in range(100_000)])
    hashes = set()
    for start in range(0, 100_000, 1_000):
        running = RunningFingerprint()
        running.add(None, counters.slice(start, 1_000))
        hashes.add(running.value.hash)
    assert len(hashes) == 100


def test_nothing_added_is_the_empty_fingerprint():
    running = RunningFingerprint()
    running.add(None, pa.array([], pa.binary()))
    assert running.value == Fingerprint(rows=0, hash=0)


def test_batch_with_and_without_a_key_column():
    running = RunningFingerprint()
    running.add_batch(pa.record_batch({"value": pa.array([b"a"])}))
    running.add_batch(pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"a"])}))
    assert running.value.rows == 2


def of_columns(**columns: pa.Array) -> Fingerprint:
    running = RunningFingerprint()
    running.add_batch(pa.record_batch(columns))
    return running.value


WORDS = {"word": pa.array(["a", "b", None]), "count": pa.array([1, None, 3])}


def test_other_columns_count_by_name_whatever_their_order():
    expected = of_columns(**WORDS)
    assert expected.rows == 3
    assert of_columns(count=WORDS["count"], word=WORDS["word"]) == expected
    assert of_columns(count=WORDS["word"], word=WORDS["count"]) != expected
    assert of_columns(word=WORDS["word"], total=WORDS["count"]) != expected
    assert of_columns(word=WORDS["word"]) != expected


def test_other_columns_are_kept_apart_row_by_row():
    expected = of_columns(**WORDS)
    assert of_columns(word=pa.array(["b", "a", None]), count=WORDS["count"]) != expected
    assert of_columns(word=pa.array(["a", "b", ""]), count=WORDS["count"]) != expected
    assert of_columns(word=pa.array(["a", "b", None]), count=pa.array([1, 0, 3])) != expected
    assert of_columns(word=pa.array(["b", "a", None]), count=pa.array([None, 1, 3])) == expected


def test_order_batches_and_slices_do_not_matter_for_other_columns():
    rows = pa.record_batch(WORDS)
    running = RunningFingerprint()
    for index in (2, 0, 1):
        running.add_batch(rows.slice(index, 1))
    running.add_batch(rows.slice(0, 0))
    assert running.value == of_columns(**WORDS)


def test_record_columns_count_like_others_when_others_are_there():
    record = {"key": pa.array(["k"]), "value": pa.array(["v"])}
    swapped = {"key": pa.array(["v"]), "value": pa.array(["k"])}
    assert of_columns(**record, count=pa.array([1])) != of_columns(**swapped, count=pa.array([1]))
    assert of_columns(**record, count=pa.array([1])) != of_columns(**record, count=pa.array([2]))


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
TYPES = [
    (pa.bool_(), True, False),
    (pa.int32(), -5, 5),
    (pa.float64(), 1.5, 1.25),
    (pa.decimal128(10, 2), Decimal("1.20"), Decimal("1.21")),
    (pa.date32(), MOMENT.date(), MOMENT.date() + timedelta(days=1)),
    (pa.timestamp("us", tz="UTC"), MOMENT, MOMENT + timedelta(microseconds=1)),
    (pa.binary(2), b"\xff\xfe", b"\xff\xff"),
    (pa.dictionary(pa.int32(), pa.string()), "a", "b"),
]


@pytest.mark.parametrize(("kind", "one", "other"), TYPES, ids=[str(kind) for kind, _, _ in TYPES])
def test_every_type_of_a_table_is_hashed(kind, one, other):
    assert of_columns(x=pa.array([one], kind)) == of_columns(x=pa.array([one], kind))
    assert len({of_columns(x=pa.array([value], kind)) for value in (one, other, None)}) == 3


def test_a_type_without_a_text_is_refused_by_name():
    with pytest.raises(SettingsError, match="column 'x' is list"):
        of_columns(x=pa.array([[1]]))


def test_fingerprints_of_other_columns_are_pinned_for_replays():
    assert str(of_columns(**WORDS)) == "3:8f4cd29079cc4003"


def test_numbers_are_refused_by_type():
    with pytest.raises(SettingsError, match="int64"):
        RunningFingerprint().add(None, pa.array([1]))


def test_value_is_pinned_so_that_a_new_release_can_replay_an_old_batch():
    values = [b"", None, b"0123456789", b"x" * 4_097]
    assert str(fingerprint(values, [None, b"", b"k", b"12345678"])) == "4:2fbed4dc605f9968"


def test_headers_count_as_the_rows_other_columns_do():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

    def of(*headers):
        running = RunningFingerprint()
        running.add_batch(
            pa.record_batch({"value": pa.array([b"a"] * len(headers)), "headers": pa.array(headers, kind)})
        )
        return running.value

    one, other = [{"key": "a", "value": b"1"}], [{"key": "a", "value": b"2"}]
    assert of(one, other, None) == of(None, one, other)
    assert len({of(one), of(other), of(one + other), of(None), of([{"key": "a1", "value": b""}])}) == 5


@pytest.mark.parametrize("kind", [np.uint32, np.uint64], ids=["4 bytes", "8 bytes"])
@given(rows=st.lists(st.binary(max_size=40), max_size=20), before=st.binary(max_size=9))
@settings(deadline=None)
def test_each_row_has_its_words_and_then_its_last_bytes(kind, rows, before):
    size = np.dtype(kind).itemsize
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    lengths = np.array([len(rows[row]) for row in order], np.int64)
    starts = np.array([len(before) + sum(map(len, rows[:row])) for row in order], np.int64)
    found: list[list[int]] = [[] for _ in rows]
    for whole, words in words_of(np.frombuffer(before + b"".join(rows), np.uint8), starts, lengths, kind):
        step = max(map(len, found), default=0)
        assert whole == sum(length >= (step + 1) * size for length in lengths)
        for row, word in zip(found, words.tolist(), strict=False):
            row.append(word)
    for row, words in zip(order, found, strict=True):
        pieces = [rows[row][place : place + size] for place in range(0, len(rows[row]), size)]
        assert words == [int.from_bytes(piece, "little") for piece in pieces]
