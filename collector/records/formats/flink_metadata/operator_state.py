"""The bytes of one subtask's operator states: elements at offsets, each an array of bytes behind its length, perhaps compressed.

Source: OperatorBackendSerializationProxy, DefaultOperatorStateBackendSnapshotStrategy, BytePrimitiveArraySerializer,
SnappyStreamCompressionDecorator of Flink; the framing format of Snappy. The offsets stand in ``_metadata``. Each element begins a
new chunk where states are compressed (``execution.checkpointing.snapshot-compression``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.lifecycle.errors import UnknownVersion

_VERSIONS = (5, 6)
"""Of OperatorBackendSerializationProxy: 5 from Flink 1.7 on, 6 with the mark of compression."""
_WITH_COMPRESSION = 6
_COMPRESSED, _PLAIN, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80
_CHECKSUM_BYTES = 4
_CHUNK_LIMIT = 65_536
"""Uncompressed bytes of a chunk at most (Snappy's framing format)."""
ELEMENT_BYTES_LIMIT = 2**24
"""Uncompressed bytes of a compressed element at most; a committable takes about 100."""


def read_elements(
    reader: BigEndianReader, offsets: Sequence[int], *, have_lengths: bool = True
) -> Iterator[BigEndianReader]:
    """Yield a reader for each element, in the order of ``offsets``, which count from where ``reader`` begins.

    Without lengths a reader ends where the next element begins, the last one's where the states end. Raises UnknownVersion,
    MalformedRecord: also where elements overlap, which Flink never writes, and where states without lengths are compressed.
    """
    begin = reader.at
    version = reader.int32("the version of the operator states")
    if version not in _VERSIONS:
        raise UnknownVersion(
            f"{reader.source}, byte {begin}: the version of the operator states is {version}; this program knows 5 and 6"
        )
    is_compressed = version >= _WITH_COMPRESSION and reader.int8("whether operator states are compressed") != 0
    if is_compressed and not have_lengths:
        raise reader.error("this state is compressed, which this program does not read", begin)
    for index, offset in enumerate(offsets):
        at = begin + offset
        if not reader.at <= at <= reader.end:
            raise reader.error(f"an element begins at byte {at}, outside {reader.at} to {reader.end}", reader.at)
        reader.at = at
        if not have_lengths:
            end = begin + offsets[index + 1] if index + 1 < len(offsets) else reader.end
            if end > reader.end:
                raise reader.error(f"an element ends at byte {end}, outside the states", at)
            yield reader.part(end - at, "an element")
        elif is_compressed:
            yield _decompressed(reader)
        else:
            yield reader.sized("an element")


def _decompressed(reader: BigEndianReader) -> BigEndianReader:
    """Return a reader of the element that begins with the chunk at this place, and pass over its chunks."""
    source, found = f"{reader.source}, decompressed from byte {reader.at} on", bytearray()
    size: int | None = None
    while size is None or len(found) < 4 + size:
        found += _chunk(reader)
        if size is None and len(found) >= 4:
            size = BigEndianReader(bytes(found[:4]), source).int32("the size of an element")
            if not 0 <= size <= ELEMENT_BYTES_LIMIT:
                raise reader.error(f"an element has {size} bytes, not 0 to {ELEMENT_BYTES_LIMIT}", reader.at)
    return BigEndianReader(bytes(found), source, 4, 4 + size)


def _chunk(reader: BigEndianReader) -> bytes:
    """Return the uncompressed bytes of the next chunk; none for a chunk that holds no data."""
    begin = reader.at
    kind = reader.int8("a chunk's kind")
    body = reader.part(int.from_bytes(reader.raw(3, "a chunk's size"), "little"), "a chunk")
    if kind >= _FIRST_SKIPPABLE:
        return b""
    if kind not in (_COMPRESSED, _PLAIN):
        raise reader.error(f"a chunk has the kind {kind}, which is unknown", begin)
    body.skip(_CHECKSUM_BYTES, "a chunk's checksum")  # Flink does not verify it either
    raw = body.rest
    if kind == _PLAIN:
        return raw
    size = _uncompressed_size(body)
    try:
        return bytes(pa.Codec("snappy").decompress(raw, size, asbytes=True))
    except (OSError, pa.ArrowException) as error:
        raise reader.error(f"a chunk cannot be decompressed: {error}", begin) from None


def _uncompressed_size(body: BigEndianReader) -> int:
    """Read the varint before compressed bytes."""
    begin, size = body.at, 0
    for shift in (0, 7, 14):
        byte = body.int8("a chunk's uncompressed size")
        size |= (byte & 0x7F) << shift
        if byte < 0x80 and size <= _CHUNK_LIMIT:
            return size
    raise body.error(f"a chunk has more than {_CHUNK_LIMIT} bytes uncompressed", begin)
