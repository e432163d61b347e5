"""How the records of a batch are compressed, and read again whoever compressed them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa

from indoubt.lifecycle.errors import SettingsError

_LZ4_BLOCK_BYTES = 64 << 10
_LZ4_HEAD = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks of at most 64 KiB and no checksums, and the checksum of these two bytes."""
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEAD = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
"""Frame of snappy-java, which Kafka's own clients write and read."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How the records of a batch are compressed: Kafka's name and number."""

    name: str
    number: int

    def compress(self, records: pa.Buffer) -> pa.Buffer:
        """Return the records as Kafka's consumers of this codec read them."""
        if self.name == "none":
            return records
        if self.name == "lz4":
            return _lz4_frame(records)
        compressed = pa.compress(records, codec=self.name)
        if self.name == "snappy":
            return pa.py_buffer(b"".join([_SNAPPY_HEAD, struct.pack(">i", len(compressed)), compressed]))
        return compressed

    def decompress(self, records: pa.Buffer) -> pa.Buffer:
        """Return the records that any of Kafka's producers compressed. Raises OSError where they are damaged."""
        if self.name == "none":
            return records
        if self.name == "snappy":
            return _snappy_blocks(records)
        return pa.CompressedInputStream(pa.BufferReader(records), self.name).read_buffer()


CODECS = {
    name: Codec(name, number) for name, number in {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}.items()
}


def codec_named(name: str) -> Codec:
    """Return the codec of this name. Raises SettingsError."""
    if name not in CODECS:
        raise SettingsError(f"compression.type is {name!r}; it takes {', '.join(CODECS)}")
    return CODECS[name]


def _lz4_frame(records: pa.Buffer) -> pa.Buffer:
    """Return a frame of independent blocks: Kafka's Java reader refuses the dependent ones that Arrow's own frames have."""
    parts = [_LZ4_HEAD]
    for start in range(0, len(records), _LZ4_BLOCK_BYTES):
        block = records.slice(start, min(_LZ4_BLOCK_BYTES, len(records) - start))
        compressed = pa.compress(block, codec="lz4_raw")
        if len(compressed) < len(block):
            parts += [struct.pack("<I", len(compressed)), compressed]
        else:
            parts += [struct.pack("<I", len(block) | 1 << 31), block]
    parts.append(struct.pack("<I", 0))
    return pa.py_buffer(b"".join(parts))


def _snappy_blocks(records: pa.Buffer) -> pa.Buffer:
    """Return what snappy's blocks hold: one alone, as some clients write it, or several in the frame of snappy-java."""
    octets = bytes(records)
    if not octets.startswith(_SNAPPY_MAGIC):
        return _snappy_block(octets)
    parts, place = [], len(_SNAPPY_HEAD)
    while place < len(octets):
        length = int.from_bytes(octets[place : place + 4], "big")
        place += 4
        if place + length > len(octets):
            raise OSError("a block is cut off")
        parts.append(_snappy_block(octets[place : place + length]))
        place += length
    return pa.py_buffer(b"".join(parts))


def _snappy_block(block: bytes) -> pa.Buffer:
    # A block begins with its size once it is decompressed, 7 bits a byte.
    size = 0
    for place, octet in enumerate(block[:5]):
        size |= (octet & 0x7F) << 7 * place
        if octet < 0x80:
            break
    return pa.decompress(block, decompressed_size=size, codec="snappy")
