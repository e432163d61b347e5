"""Reads what Java's DataOutputStream wrote, and little-endian numbers among it; never beyond the end of the bytes."""

from __future__ import annotations

import struct

from indoubt.lifecycle.errors import MalformedRecord

_INT16, _UINT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">H"), struct.Struct(">i"), struct.Struct(">q")
_LITTLE_INT32, _LITTLE_INT64 = struct.Struct("<i"), struct.Struct("<q")


class BigEndianReader:
    """A position in bytes, from ``at`` up to ``end``.

    Each method raises MalformedRecord, which names ``source``, the field and the offset in ``data`` where it begins. No method
    allocates more than ``data`` holds.
    """

    def __init__(self, data: bytes, source: str, at: int = 0, end: int | None = None) -> None:
        self.data, self.source, self.at = data, source, at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Number of bytes up to the end."""
        return self.end - self.at

    def int8(self, field: str) -> int:
        """Return one unsigned byte."""
        return self.data[self.skip(1, field)]

    def int16(self, field: str) -> int:
        """Return a signed number of 2 bytes."""
        return int(_INT16.unpack_from(self.data, self.skip(2, field))[0])

    def int32(self, field: str) -> int:
        """Return a signed number of 4 bytes."""
        return int(_INT32.unpack_from(self.data, self.skip(4, field))[0])

    def int64(self, field: str) -> int:
        """Return a signed number of 8 bytes."""
        return int(_INT64.unpack_from(self.data, self.skip(8, field))[0])

    def little_int32(self, field: str) -> int:
        """Return a signed number of 4 bytes, the lowest first."""
        return int(_LITTLE_INT32.unpack_from(self.data, self.skip(4, field))[0])

    def little_int64(self, field: str) -> int:
        """Return a signed number of 8 bytes, the lowest first."""
        return int(_LITTLE_INT64.unpack_from(self.data, self.skip(8, field))[0])

    def raw(self, size: int, field: str) -> bytes:
        """Return ``size`` bytes."""
        at = self.skip(size, field)
        return self.data[at : self.at]

    @property
    def rest(self) -> bytes:
        """Return the bytes up to the end, and pass over none."""
        return self.data[self.at : self.end]

    def text(self, size: int) -> str:
        """Return a text in UTF-8 of ``size`` bytes."""
        raw = self.raw(size, "a text")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error("a text is not UTF-8", self.at - size) from None

    def utf(self, field: str) -> str:
        """Return a string in modified UTF-8 behind its length of 2 bytes (DataOutput.writeUTF)."""
        (length,) = _UINT16.unpack_from(self.data, self.skip(2, field))
        at = self.at
        raw = self.raw(length, field)
        if raw.isascii():
            return raw.decode()
        try:
            # Modified UTF-8 has NUL as two bytes, and characters beyond U+FFFF as two surrogates of three bytes each.
            text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
        except UnicodeDecodeError:
            raise self.error(f"{field} is not modified UTF-8", at) from None

    def skip(self, size: int, field: str) -> int:
        """Pass over ``size`` bytes and return the offset where they begin."""
        at = self.at
        if size < 0 or size > self.end - at:
            raise self.error(f"{field} has {size} bytes, and {self.end - at} are left", at)
        self.at = at + size
        return at

    def count(self, field: str, least_bytes: int) -> int:
        """Return how many elements follow (int32), of which each takes ``least_bytes`` or more."""
        count = self.int32(field)
        if count < 0 or count * least_bytes > self.left:
            raise self.error(f"{field} is {count}, and {self.left} bytes are left", self.at - 4)
        return count

    def again(self) -> BigEndianReader:
        """Return another reader of what is left."""
        return BigEndianReader(self.data, self.source, self.at, self.end)

    def sized(self, field: str) -> BigEndianReader:
        """Pass over as many bytes as the number before them (int32) says, and return a reader of them."""
        return self.part(self.int32(f"the size of {field}"), field)

    def part(self, size: int, field: str) -> BigEndianReader:
        """Pass over ``size`` bytes and return a reader of them; its offsets are those of ``data``."""
        at = self.skip(size, field)
        return BigEndianReader(self.data, self.source, at, at + size)

    def ends(self, field: str) -> None:
        """Raise unless every byte was read."""
        if self.left:
            raise self.error(f"{field} has {self.left} bytes too many", self.at)

    def error(self, text: str, at: int) -> MalformedRecord:
        """Return the error that says this of the byte at the offset ``at``."""
        return MalformedRecord(f"{self.source}, byte {at}: {text}")
