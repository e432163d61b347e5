"""Files of Avro: their blocks, decompressed; what is damaged, or grows too large, is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from indoubt.collector.records.formats import avro
from indoubt.collector.records.formats.avro import read_blocks
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion
from tests.unit.collector.records.avro_records import number

SYNC = bytes(range(16))


def text(data: bytes) -> bytes:
    return number(len(data)) + data


def file(*blocks: bytes, codec: bytes = b"zstandard", properties: bytes = b"") -> bytes:
    told = properties or number(2) + text(b"avro.schema") + text(b'"long"') + text(b"avro.codec") + text(codec)
    return b"Obj\1" + told + number(0) + SYNC + b"".join(number(1) + text(block) + SYNC for block in blocks)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize(
    ("data", "blocks"),
    [
        (file(), b""),
        (file(zstd(b"one"), zstd(b""), zstd(b"two")), b"onetwo"),
        (file(b"one", b"two", codec=b"null"), b"onetwo"),
        # Without a codec it is plain; properties may tell their size.
        (file(b"one", properties=number(1) + text(b"a") + text(b"b")), b"one"),
        (file(zstd(b"one"), properties=number(-1) + number(21) + text(b"avro.codec") + text(b"zstandard")), b"one"),
    ],
)
def test_the_blocks_of_a_file_are_decompressed(data: bytes, blocks: bytes) -> None:
    assert read_blocks(data, "f") == blocks


def test_each_truncation_but_behind_a_block_is_refused() -> None:
    whole, ends = file(zstd(b"one"), zstd(b"two")), {len(file()), len(file(zstd(b"one")))}
    for length in range(len(whole)):
        if length not in ends:
            with pytest.raises(MalformedRecord, match=r"^f, byte \d+: "):
                read_blocks(whole[:length], "f")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PAR1" + bytes(90), "byte 0: this is no file of Avro"),
        (file(b"one"), "f: a block cannot be decompressed"),
        (b"Obj\1" + number(1) + number(-9) + bytes(40), "the size of|has -9 bytes"),
        (b"Obj\1" + b"\xff" * 40, "more than 64 bits"),
    ],
)
def test_what_is_damaged_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        read_blocks(data, "f")


@pytest.mark.parametrize("codec", [b"snappy", b"deflate", b"\xff"])
def test_an_unknown_codec_is_said(codec: bytes) -> None:
    with pytest.raises(UnknownVersion, match=r"f is compressed by .*, which this program does not read"):
        read_blocks(file(b"", codec=codec), "f")


def test_a_block_that_grows_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = file(zstd(bytes(1_000)))
    monkeypatch.setattr(avro, "BLOCK_LIMIT", 1_000)
    assert read_blocks(data, "f") == bytes(1_000)
    monkeypatch.setattr(avro, "BLOCK_LIMIT", 999)
    with pytest.raises(MalformedRecord, match="f: a block has more than 999 bytes"):
        read_blocks(data, "f")
