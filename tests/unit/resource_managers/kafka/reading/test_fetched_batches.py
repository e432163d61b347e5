"""The batches of an answer: which are whole, which are right, and which of them a read_committed reader gets."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import MalformedRecord
from indoubt.resource_managers.kafka.compression import CODECS
from indoubt.resource_managers.kafka.reading.fetched_batches import batches_of
from tests.unit.resource_managers.kafka.reading.made_batches import CONTROL, TRANSACTIONAL, batch, framed, marker, read

ROWS = [(b"k%d" % n, b"value %d" % n) for n in range(5)]


def row(name: str, base: int, producer_id: int, **more: int) -> bytes:
    """Return a batch of one row."""
    return batch([(None, name.encode())], base, producer_id=producer_id, **more)


def values(answer: bytes, *aborted: tuple[int, int]) -> list[str]:
    """Return the values that are read."""
    return [value.decode() for _, value in read(answer, aborted=aborted)]


@pytest.mark.parametrize("left", [0, 1, 16, 60, 61, 62, -1])
def test_a_last_batch_that_is_cut_off_is_left_for_the_next_answer(left):
    first, second = batch(ROWS, 7), batch(ROWS, 12)
    answer = memoryview(first + second[:left])
    (found,) = batches_of(answer)
    assert (found.base_offset, found.last_offset, found.records, found.end) == (7, 11, 5, len(first))
    assert read(bytes(answer)) == ROWS


def test_an_answer_without_a_whole_batch_has_none():
    assert batches_of(memoryview(b"")) == batches_of(memoryview(batch(ROWS)[:-1])) == []


@pytest.mark.parametrize("place", [20, 21, 40, 61, -1])
def test_a_batch_with_a_wrong_checksum_is_refused_by_its_offset(place):
    damaged = bytearray(batch(ROWS, 12_345))
    damaged[place] ^= 1
    with pytest.raises(MalformedRecord, match=r"at offset 12345 is damaged: its checksum is wrong"):
        batches_of(memoryview(batch(ROWS, 3) + damaged))


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_is_refused_and_says_what_reads_it(magic):
    old = bytearray(batch(ROWS, 9))
    old[16] = magic
    with pytest.raises(MalformedRecord, match=rf"offset 9 has format {magic}, .*Spark's own Kafka source"):
        batches_of(memoryview(bytes(old)))


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
@pytest.mark.parametrize("how", ["noise", "cut off"])
def test_what_cannot_be_decompressed_is_refused(codec, how):
    whole = CODECS[codec].compress(pa.py_buffer(bytes(range(256)) * 100)).to_pybytes()
    for damaged in [b"\xff" * 40] if how == "noise" else [whole[:-1], whole[: len(whole) // 2], whole[:18]]:
        with pytest.raises(MalformedRecord, match="offset 4 cannot be decompressed"):
            read(framed(b"", 3, 4, codec, compressed=damaged))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number):
    with pytest.raises(MalformedRecord, match=rf"offset 4 is compressed in a way that is not known \({number}\)"):
        read(batch(ROWS, 4, attributes=number))


def snappy_block(octets: bytes) -> bytes:
    return pa.compress(octets, codec="snappy").to_pybytes()


@pytest.mark.parametrize("count", [1, 5, 3_000])
def test_snappy_of_all_clients_is_read(count):
    rows = [(b"k", b"value %d" % n) for n in range(count)]
    records = batch(rows)[61:]
    # The Java client writes blocks of 32 KiB in a frame, librdkafka one block without a frame.
    step = max(1, min(32_768, len(records) // 3))
    blocks = [snappy_block(records[start : start + step]) for start in range(0, len(records), step)]
    frame = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)
    assert len(blocks) >= 3
    for compressed in (frame, snappy_block(records)):
        assert read(framed(b"", count, 0, "snappy", compressed=compressed)) == rows


@pytest.mark.parametrize("length", [-4, -1, 1_000])
def test_a_snappy_block_of_a_wrong_length_is_refused(length):
    frame = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, length) + snappy_block(b"x" * 40)
    with pytest.raises(MalformedRecord, match="cannot be decompressed"):
        read(framed(b"", 1, 0, "snappy", compressed=frame))


def test_only_the_aborted_one_of_two_interleaved_transactions_is_hidden():
    answer = row("a0", 0, 1) + row("b0", 1, 2) + row("a1", 2, 1) + row("b1", 3, 2)
    answer += marker(4, 1, commit=False) + marker(5, 2, commit=True)
    assert values(answer, (1, 0)) == ["b0", "b1"]
    assert values(answer, (2, 1)) == ["a0", "a1"]
    assert values(answer, (1, 0), (2, 1)) == values(answer, (2, 1), (1, 0)) == []
    assert values(answer) == ["a0", "b0", "a1", "b1"]


def test_a_producer_that_aborts_and_then_commits_has_what_it_committed():
    answer = row("lost", 0, 1) + marker(1, 1, commit=False) + row("kept", 2, 1) + marker(3, 1, commit=True)
    answer += row("lost too", 4, 1) + marker(5, 1, commit=False) + row("kept too", 6, 1) + marker(7, 1, commit=True)
    assert values(answer, (1, 0), (1, 4)) == ["kept", "kept too"]


def test_a_producer_that_commits_and_then_aborts_keeps_what_it_committed():
    answer = row("kept", 0, 1) + marker(1, 1, commit=True) + row("lost", 2, 1) + marker(3, 1, commit=False)
    assert values(answer, (1, 2)) == ["kept"]


def test_a_transaction_that_began_before_the_answer_is_hidden():
    answer = row("lost", 100, 1) + row("other", 101, 2) + marker(102, 1, commit=False) + row("kept", 103, 1)
    assert values(answer, (1, 3)) == ["other", "kept"]


def test_a_transaction_that_begins_inside_a_batch_is_hidden_from_it_on():
    answer = batch(ROWS, 0, producer_id=1) + marker(5, 1, commit=False) + row("kept", 6, 1)
    assert values(answer, (1, 2)) == ["kept"]


def test_the_end_of_another_transaction_ends_none():
    answer = row("lost", 0, 1) + row("b", 1, 2) + marker(2, 2, commit=False) + row("lost too", 3, 1)
    assert values(answer, (1, 0), (2, 1)) == []


def test_only_an_abort_ends_what_is_aborted():
    assert values(row("lost", 0, 1) + marker(1, 1, commit=True) + row("lost too", 2, 1), (1, 0)) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_compaction_emptied_keeps_its_codec(codec):
    emptied = framed(b"", 0, 1, codec, last=9, compressed=b"")
    assert values(row("a", 0, 1) + emptied + row("b", 10, 1)) == ["a", "b"]


def test_rows_without_a_transaction_are_read_whoever_aborts():
    answer = row("lost", 0, 1) + row("plain", 1, 1, attributes=0) + row("plain too", 2, -1, attributes=0)
    assert values(answer, (1, 0)) == ["plain", "plain too"]


def test_markers_are_no_rows():
    assert values(marker(0, 1, commit=True) + marker(1, 2, commit=False)) == []


def test_batches_that_compaction_emptied_have_no_rows_and_end_nothing():
    emptied = framed(b"", 0, 1, last=9, producer_id=1)
    end = framed(b"", 0, 10, last=10, producer_id=1, attributes=TRANSACTIONAL | CONTROL)
    answer = row("lost", 0, 1) + emptied + end
    assert values(answer + row("lost too", 11, 1), (1, 0)) == []
    assert values(answer, (1, 0)) == []
    assert values(answer) == ["lost"]
    assert batches_of(memoryview(answer))[-1].last_offset == 10


@pytest.mark.parametrize("codec", CODECS)
def test_aborted_rows_among_compressed_ones_are_hidden(codec):
    answer = row("a", 0, 1, codec=codec) + row("lost", 1, 2, codec=codec) + row("b", 2, 1, codec=codec)
    assert values(answer + marker(3, 2, commit=False), (2, 1)) == ["a", "b"]
