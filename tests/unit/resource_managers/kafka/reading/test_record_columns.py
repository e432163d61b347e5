"""Records of batches as columns, beside the rows that were encoded."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.reading import record_columns
from indoubt.resource_managers.kafka.reading.record_columns import FEW
from indoubt.resource_managers.record_parts import encode_headers
from tests.unit.resource_managers.kafka.reading.made_batches import Row, batch, framed, read, record, varint

MANY = 9_000
"""So many that the last ones' places in the batch take one byte more than those before: from 8,192 on, three."""


def numbered(count: int, value_bytes: int = 8, key_bytes: int = 6) -> list[Row]:
    """Return rows of equal sizes, each of which differs."""
    return [(b"%0*d" % (key_bytes, n), b"%0*d" % (value_bytes, n)) for n in range(count)]


def uneven(count: int) -> list[Row]:
    """Return rows whose sizes change all the time, with nulls and empties."""
    keys = [None, b"", b"k", b"key" * 40]
    return [(keys[n % 4], None if n % 7 == 3 else b"%d" % n * (n % 30)) for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 63, 65, FEW, FEW + 1, MANY])
def test_rows_of_equal_sizes_come_back(count):
    assert read(batch(numbered(count))) == numbered(count)


@pytest.mark.parametrize("value_bytes", [0, 1, 40, 63, 64, 70, 5_000])
@pytest.mark.parametrize("key", [None, b"", b"k" * 100])
def test_keys_and_values_of_any_size_come_back(value_bytes, key):
    rows = [(key, bytes([n % 256]) * value_bytes) for n in range(FEW + 50)]
    assert read(batch(rows)) == rows


@pytest.mark.parametrize("size", [8_150, 8_191, 8_192, 70_000, 1_100_000])
def test_large_rows_come_back(size):
    rows = [(b"k", b"small"), *[(b"k", bytes([n]) * (size + n)) for n in range(3)], (b"x" * size, b"v"), (None, None)]
    assert read(batch(rows)) == rows


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("row", [(None, b"abc"), (b"abc", None), (None, None), (b"", b"")], ids=str)
def test_nulls_and_empties_come_back(count, row):
    assert read(batch([row] * count)) == [row] * count


@pytest.mark.parametrize("count", [1, 5, FEW + 1, MANY])
def test_rows_of_many_sizes_come_back(count):
    assert read(batch(uneven(count))) == uneven(count)


def test_a_null_among_rows_of_one_length_is_null():
    # A record of a null value and a longer key is as long as the others.
    rows = numbered(1_000)
    rows[700] = (b"x" * 14, None)
    rows[800] = (None, b"y" * 14)
    assert read(batch(rows)) == rows


def test_runs_of_different_lengths_come_back_in_order():
    rows = [*numbered(700), *uneven(3), *numbered(900, value_bytes=30), *uneven(600), *numbered(2_000, key_bytes=4)]
    assert read(batch(rows)) == rows


@pytest.mark.parametrize("count", [20, 2_000])
def test_headers_are_skipped(count):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[{"key": "trace", "value": b"%d" % n}] * (n % 3) for n in range(count)]
    alike = [[{"key": "trace", "value": b"12345"}]] * count
    for own in (headers, alike):
        assert read(batch(numbered(count), headers=encode_headers(pa.array(own, kind)))) == numbered(count)


@pytest.mark.parametrize("rows", [numbered(3), numbered(MANY), uneven(3), uneven(2_000)], ids=len)
@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_come_back(codec, rows):
    answer = batch(rows, 10, codec) + batch(rows[:2], 10 + len(rows), "none") + batch(rows, 12 + len(rows), codec)
    assert read(answer) == [*rows, *rows[:2], *rows]


def test_many_tiny_batches_come_back_as_one():
    rows = uneven(3_000)
    answer = b"".join(batch([row], base) for base, row in enumerate(rows))
    assert read(answer) == rows


def test_times_that_take_more_bytes_within_a_run_do_not_shift_the_values():
    # Of equal length as a whole: what the time takes more, the value has less.
    times = [0] * 300 + [10_000] * 300 + [0] * 300
    rows = [(b"key", b"v" * (50 - len(varint(time_ms)))) for time_ms in times]
    records = [
        record(key, value, 64 + n % 900, time_ms)
        for n, ((key, value), time_ms) in enumerate(zip(rows, times, strict=True))
    ]
    assert len({len(one) for one in records[:600]}) == 1
    assert read(framed(b"".join(records), len(records))) == rows


def test_records_that_only_their_times_tell_from_those_of_the_same_layout_come_back():
    # In those with a longer time all lies one byte later. Where the others have the sizes of key and value (the bytes 6 and
    # 40), these have the same bytes: the second one of their offset, and the last one of their key.
    deltas = range(100, 100 + FEW + 100)
    later = [384 <= delta < 448 for delta in deltas]
    rows = [(b"ke(", b"v" * (19 if late else 20)) for late in later]
    records = [record(*row, delta, 100 if late else 0) for row, delta, late in zip(rows, deltas, later, strict=True)]
    assert any(later)
    assert {(len(one), one[5], one[9]) for one in records} == {(31, 6, 40)}
    assert read(framed(b"".join(records), len(records))) == rows


@pytest.mark.parametrize("time_ms", [-1, 2**31, 2**45])
def test_times_of_any_size_are_skipped(time_ms):
    for count in (3, 1_000):
        records = [record(b"k", b"%03d" % n, n, time_ms) for n in range(count)]
        assert read(framed(b"".join(records), count)) == [(b"k", b"%03d" % n) for n in range(count)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("rows", [numbered(900), uneven(900)], ids=["equal", "uneven"])
@pytest.mark.parametrize(("start", "end"), [(0, 700), (100, 101), (550, 5_000), (99, 1_000), (450, 450), (650, 649)])
def test_a_range_may_begin_and_end_inside_a_batch(start, end, rows, codec):
    answer = batch(rows[:400], 100, codec) + batch(rows[400:], 500, codec)
    expected = [row for offset, row in enumerate(rows, 100) if start <= offset < end]
    assert read(answer, start, end) == expected


@pytest.mark.parametrize("rows", [numbered(4), numbered(600)], ids=len)
def test_offsets_that_compaction_took_are_skipped(rows):
    # Every second offset is there; the batch keeps its first and last one.
    records = b"".join(record(*row, delta=2 * n + 1) for n, row in enumerate(rows))
    answer = framed(records, len(rows), 10, last=10 + 2 * len(rows) + 5) + batch([(b"next", b"one")], 5_000)
    assert read(answer) == [*rows, (b"next", b"one")]
    assert read(answer, 13, 17) == rows[1:3]
    assert read(answer, 12, 13) == []


@pytest.mark.parametrize("count", [3, FEW + 50])
@pytest.mark.parametrize("change", [-1, 1], ids=["one byte less", "one byte more"])
def test_records_that_do_not_fill_their_batch_are_refused(count, change):
    records = batch(numbered(count))[61:]
    records = records + b"x" if change > 0 else records[:-1]
    for answer in (framed(records, count, 77), framed(records, count, 77) + batch(numbered(2), 900)):
        with pytest.raises(MalformedRecord, match="at offset 77 is damaged: its records do not fill it"):
            read(answer)


@pytest.mark.parametrize("count", [3, FEW + 50])
@pytest.mark.parametrize("said", [-1, 1], ids=["one record less", "one record more"])
def test_a_wrong_number_of_records_is_refused(count, said):
    with pytest.raises(MalformedRecord, match="damaged"):
        read(framed(batch(numbered(count))[61:], count + said) + batch(numbered(2), 900))


@pytest.mark.parametrize("size", [11, 12, 40, 10**4, 2**31, 2**40])
@pytest.mark.parametrize("place", ["first", "last", "all"])
@pytest.mark.parametrize("count", [4, 1_000])
def test_a_value_that_goes_beyond_its_record_is_refused(count, place, size):
    wrong = {"first": {0}, "last": {count - 1}, "all": set(range(count))}[place]
    records = [record(b"key", b"0123456789", size=size if n in wrong else None) for n in range(count)]
    for codec in ("none", "zstd"):
        with pytest.raises(MalformedRecord, match="damaged"):
            read(framed(b"".join(records), count, 0, codec))


columns = st.none() | st.binary(max_size=200)
rows_of_any_size = st.lists(st.tuples(columns, columns), min_size=1, max_size=12)
rows_of_one_size = st.builds(lambda row, count: [row] * count, st.tuples(columns, columns), st.integers(1, 40))
batches_of_rows = st.lists(rows_of_any_size | rows_of_one_size, min_size=1, max_size=4).map(
    lambda parts: list(itertools.chain(*parts))
)


@given(
    batches=st.lists(
        st.tuples(batches_of_rows, st.sampled_from(list(CODECS)), st.integers(0, 5)), min_size=1, max_size=5
    ),
    few=st.sampled_from([1, 3, FEW]),
    bounds=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    whole=st.booleans(),
)
@example(batches=[([(b"k", b"v")] * 9, "none", 0)], few=1, bounds=(0, 0), whole=True)
@settings(deadline=None)
def test_whatever_was_encoded_is_read_back(batches, few, bounds, whole):
    answer, offset, rows = b"", 0, {}
    for own, codec, gap in batches:
        offset += gap
        answer += batch(own, offset, codec)
        rows |= dict(enumerate(own, offset))
        offset += len(own)
    start, end = (0, offset) if whole else sorted(bounds)
    with patch.object(record_columns, "FEW", few):
        assert read(answer, start, end) == [row for place, row in rows.items() if start <= place < end]
