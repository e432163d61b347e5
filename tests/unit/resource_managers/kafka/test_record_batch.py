"""Record batches of our own, decoded by kafka-python; hashes compared with Kafka's algorithm, byte by byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka.batch_builder import BatchBuilder
from indoubt.resource_managers.kafka.compression import CODECS, codec_named
from indoubt.resource_managers.kafka.murmur2 import murmur2
from indoubt.resource_managers.kafka.record_batch import (
    MOST_RECORDS,
    EqualRows,
    Producer,
    encode_records,
    frame_batch,
)
from indoubt.resource_managers.kafka.sink_input import ProducerProperties
from indoubt.resource_managers.record_parts import encode_headers

PRODUCER = Producer(producer_id=2**40, producer_epoch=7)
content = st.none() | st.binary(max_size=300) | st.integers(0, 40_000).map(lambda size: b"x" * size)
short = st.none() | st.binary(max_size=20) | st.integers(0, 900).map(lambda size: b"x" * size)


def properties(batch_bytes: int, record_bytes: int, codec: str = "none") -> ProducerProperties:
    return ProducerProperties(batch_bytes=batch_bytes, record_bytes=record_bytes, codec=CODECS[codec])


def decoded(batch: bytes):
    records = MemoryRecords(batch)
    found = records.next_batch()
    assert not records.has_next()
    assert found.validate_crc()
    return found


@given(rows=st.lists(st.tuples(content, content), min_size=1, max_size=40), keyed=st.booleans())
@settings(deadline=None)
def test_an_independent_decoder_reads_what_was_encoded(rows, keyed):
    keys, values = zip(*rows, strict=True)
    key = pa.array(keys, pa.binary()) if keyed else None
    deltas = np.arange(len(rows), dtype=np.int32)
    encoded = encode_records(key, pa.array(values, pa.binary()), deltas)
    batch = frame_batch(
        [encoded.buffers()[2]],
        len(rows),
        producer=PRODUCER,
        sequence=2**31 - 1,
        timestamp_ms=1_700_000_000_000,
        codec=CODECS["none"],
    )
    found = decoded(b"".join(batch))
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (2**40, 7, 2**31 - 1)
    assert found.is_transactional
    records = list(found)
    assert [record.value for record in records] == list(values)
    assert [record.key for record in records] == (list(keys) if keyed else [None] * len(keys))
    assert [record.offset for record in records] == list(range(len(rows)))
    assert {record.timestamp for record in records} == {1_700_000_000_000}
    assert all(not record.headers for record in records)


names = st.text(max_size=8)
lists = st.none() | st.lists(
    st.fixed_dictionaries({"key": names, "value": st.none() | st.binary(max_size=90)}), max_size=4
)


@given(
    rows=st.lists(st.tuples(lists, content), min_size=1, max_size=20), skipped=st.integers(0, 2), keyed=st.booleans()
)
@settings(deadline=None)
def test_headers_are_read_as_they_were(rows, skipped, keyed):
    headers, values = zip(*rows, strict=True)
    column = pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    value = pa.array(values, pa.binary())
    builder = BatchBuilder("topic", {0: 1}, PRODUCER, properties(1_000_000, 1_000_000))
    given_rows = pa.record_batch({"headers": column, "value": value, **({"key": value} if keyed else {})})[skipped:]
    made = [*builder.add(given_rows), *builder.finish()]
    found = [record for batch in made for record in decoded(batch.content)]
    assert [record.value for record in found] == list(values[skipped:])
    expected = [[(header["key"], header["value"]) for header in own or ()] for own in headers[skipped:]]
    assert [list(record.headers) for record in found] == expected


def test_a_column_headers_of_another_type_is_left_to_other_sinks():
    builder = BatchBuilder("topic", {0: 1}, PRODUCER, properties(1_000_000, 1_000_000))
    rows = pa.record_batch({"value": pa.array([b"a"]), "headers": pa.array([3])})
    (batch,) = [*builder.add(rows), *builder.finish()]
    (record,) = decoded(batch.content)
    assert (record.value, list(record.headers)) == (b"a", [])


@pytest.mark.parametrize("headers", [[{"key": None, "value": b"a"}], [None]], ids=["null key", "null header"])
def test_a_header_without_a_key_is_refused(headers):
    column = pa.array([headers], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    with pytest.raises(SettingsError, match="header without a key"):
        encode_headers(column)


@given(
    batches=st.lists(st.lists(st.tuples(short, short), min_size=1, max_size=15), min_size=1, max_size=4),
    limit=st.integers(200, 4_000),
    partitions=st.integers(1, 5),
)
@settings(deadline=None, max_examples=40)
def test_every_row_is_in_one_batch_in_order_and_no_batch_is_too_large(batches, limit, partitions):
    builder = BatchBuilder("topic", dict.fromkeys(range(partitions), 1), PRODUCER, properties(limit, 1_000_000))
    made = []
    for rows in batches:
        keys, values = zip(*rows, strict=True)
        made += builder.add(
            pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        )
    made += builder.finish()
    found = []
    for partition in range(partitions):
        own = [batch for batch in made if batch.partition == partition]
        assert [batch.number for batch in own] == list(range(len(own)))
        sequence = 0
        for batch in own:
            assert len(batch.content) <= limit or batch.count == 1
            records = decoded(batch.content)
            assert records.base_sequence == sequence
            sequence += batch.count
            records = list(records)
            assert len(records) == batch.count
            found += [(partition, record.key, record.value) for record in records]
    given_rows = [row for rows in batches for row in rows]
    assert sorted(map(repr, ((key, value) for _, key, value in found))) == sorted(map(repr, given_rows))
    for wanted in {key for key, _ in given_rows if key is not None}:
        assert len({partition for partition, key, _ in found if key == wanted}) == 1
        assert [value for _, key, value in found if key == wanted] == [
            value for key, value in given_rows if key == wanted
        ]


@given(
    count=st.integers(1, 40),
    place=st.sampled_from([0, 30, 63, 64, 100, 8_180, 8_192, MOST_RECORDS - 40]),
    sizes=st.tuples(st.integers(0, 200), st.integers(0, 9_000)),
    keyed=st.booleans(),
    skipped=st.integers(0, 2),
)
@settings(deadline=None)
def test_rows_of_equal_sizes_are_encoded_like_all_others(count, place, sizes, keyed, skipped):
    rows = range(count + 3)
    key, value = (pa.array([bytes([row]) * size for row in rows], pa.binary())[skipped:] for size in sizes)
    key = key if keyed else None
    first, last = 1, 1 + count - skipped if count > skipped else 2
    own = EqualRows.of(key, value).encode(first, last, place)
    part = slice(first, last)
    deltas = np.arange(place, place + last - first, dtype=np.int32)
    columns = (None if key is None else key[part], value[part], deltas)
    # With headers of their own, the rows are encoded as if their sizes differed.
    any_sizes = encode_records(*columns, pa.array([b"\0"] * len(deltas), pa.binary()))
    cached = encode_records(*columns)
    assert own.tobytes() == any_sizes.buffers()[2].to_pybytes() == cached.buffers()[2].to_pybytes()


@pytest.mark.parametrize("values", [[b"a", None], [b"a", b""], [b"", b"a", b"aa"], [None, None]], ids=str)
def test_rows_with_a_null_or_of_two_sizes_are_not_equal(values):
    ones = pa.array([b"a"] * len(values))
    column = pa.array(values, pa.binary())
    assert EqualRows.of(None, column) is EqualRows.of(ones, column) is EqualRows.of(column, ones) is None


@given(
    batches=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    sizes=st.tuples(st.integers(4, 9), st.integers(0, 60)),
    limit=st.integers(200, 20_000),
    partitions=st.integers(1, 3),
    codec=st.sampled_from(["none", "gzip"]),
)
@settings(deadline=None, max_examples=40)
def test_batches_of_equal_rows_have_every_row_in_order(batches, sizes, limit, partitions, codec):
    builder = BatchBuilder("topic", dict.fromkeys(range(partitions), 1), PRODUCER, properties(limit, 1_000_000, codec))
    expected, made = [], []
    for count in batches:
        numbers = range(len(expected), len(expected) + count)
        keys = [b"%04d" % number + b"k" * (sizes[0] - 4) for number in numbers]
        values = [bytes([number % 256]) * sizes[1] for number in numbers]
        made += builder.add(pa.record_batch({"key": pa.array(keys), "value": pa.array(values, pa.binary())}))
        expected += zip(keys, values, strict=True)
    made += builder.finish()
    assert all(batch.size == len(batch.content) for batch in made)
    found = [(batch.partition, record.key, record.value) for batch in made for record in decoded(batch.content)]
    assert sorted((key, value) for _, key, value in found) == expected
    for partition in range(partitions):
        own = [key for place, key, _ in found if place == partition]
        assert own == sorted(own)


def test_no_batch_has_more_records_than_places_are_kept_for():
    builder = BatchBuilder("topic", {0: 1}, PRODUCER, properties(2_000_000, 2_000_000))
    count = 2 * MOST_RECORDS + 5
    values = [b"%05d" % number for number in range(count)]
    # One of another size: all are encoded as any sizes are; then all as equal ones.
    made = [*builder.add(pa.record_batch({"value": pa.array([b"first", *values[1:], b""])}))]
    made += [*builder.add(pa.record_batch({"value": pa.array(values)})), *builder.finish()]
    assert [batch.count for batch in made] == [MOST_RECORDS] * 4 + [11]
    found = [record.value for batch in made for record in decoded(batch.content)]
    assert found == [b"first", *values[1:], b"", *values]


@pytest.mark.parametrize(("producer_id", "sequences"), [(7, [0, 1]), (-1, [-1, -1])], ids=["with id", "without id"])
def test_batches_outside_a_transaction_are_marked_so(producer_id, sequences):
    producer = Producer(producer_id=producer_id, producer_epoch=min(producer_id, 0), is_transactional=False)
    builder = BatchBuilder("topic", {0: 1}, producer, properties(100, 1_000))
    made = [*builder.add(pa.record_batch({"value": pa.array([b"x" * 90] * 2)})), *builder.finish()]
    found = [decoded(batch.content) for batch in made]
    assert [(batch.base_sequence, batch.is_transactional) for batch in found] == [(one, False) for one in sequences]


def hashed(data: bytes) -> int:
    """Return murmur2 as Kafka's documentation of the default partitioner has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for start in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    rest = data[len(data) // 4 * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@given(keys=st.lists(st.binary(max_size=70), max_size=30), skipped=st.integers(0, 3))
@settings(deadline=None)
def test_a_column_of_keys_is_hashed_as_each_key_is(keys, skipped):
    column = pa.array(keys, pa.binary())[skipped:]
    assert [int(number) for number in murmur2(column)] == [hashed(key) for key in keys[skipped:]]


def test_hashes_are_those_of_kafkas_own_tests():
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = murmur2(pa.array(list(known), pa.binary())).view(np.int32)
    assert [int(number) for number in found] == list(known.values())


def test_an_unknown_codec_is_refused_by_name():
    with pytest.raises(SettingsError, match="brotli"):
        codec_named("brotli")
