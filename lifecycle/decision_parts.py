"""Records of the decision log that are too large for one: split into parts, and put together again by whoever reads them.

Parts count together, at the offset of the last of them, and only when they stand within ``PARTS_SPAN`` offsets. Offsets are the
same for every reader, clocks are not.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from uuid import uuid4

from indoubt.lifecycle.decisions import DecisionRecord, LogRecord, Part, decode, encode
from indoubt.lifecycle.errors import MalformedRecord

PARTS_SPAN = 10_000
"""Offsets from the first part of a record to its last at most: what a writer that died left unfinished is forgotten then."""
_ENVELOPE_BYTES = 1_000
"""What a part has besides its data, at most: a prefix has 80 letters."""


def encode_within(record: DecisionRecord, max_bytes: int) -> list[bytes]:
    """Return the record as it stands in the log, in parts where it is larger than ``max_bytes`` (at least 2,000)."""
    whole = encode(record)
    if len(whole) <= max_bytes:
        return [whole]
    # Base64 makes 4 bytes of 3.
    step = (max_bytes - _ENVELOPE_BYTES) // 4 * 3
    pieces = [whole[at : at + step] for at in range(0, len(whole), step)]
    id_ = uuid4().hex
    return [
        encode(
            Part(
                prefix=record.prefix,
                id=id_,
                index=index,
                count=len(pieces),
                data=base64.b64encode(piece).decode(),
                at_ms=record.at_ms,
            )
        )
        for index, piece in enumerate(pieces)
    ]


@dataclass(slots=True)
class _PartSet:
    first: int
    count: int
    pieces: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class RecordAssembly:
    """Reads the log's values in their order and returns whole records, each at the offset at which it counts."""

    _pending: dict[str, _PartSet] = field(default_factory=dict)

    def read(self, offset: int, value: bytes | None) -> DecisionRecord | None:
        """Return the record that this value is, or that is whole with it; None for a part while others are missing.

        Raises UnknownVersion and MalformedRecord as ``decode`` does, also for what was put together.
        """
        self._expire(offset)
        record: LogRecord = decode(value)
        if not isinstance(record, Part):
            return record
        pending = self._pending.setdefault(record.id, _PartSet(first=offset, count=record.count))
        if record.count != pending.count:
            raise MalformedRecord(f"part of record {record.id} says {record.count} parts, not {pending.count}")
        try:
            pending.pieces.setdefault(record.index, base64.b64decode(record.data, validate=True))
        except ValueError as error:
            raise MalformedRecord(f"part of record {record.id}: {error}") from None
        if len(pending.pieces) < pending.count:
            return None
        del self._pending[record.id]
        whole = decode(b"".join(pending.pieces[index] for index in range(pending.count)))
        if isinstance(whole, Part):
            raise MalformedRecord(f"record {record.id} is a part made of parts")
        return whole

    def begin(self, next_offset: int) -> int:
        """Return where a reader must start so that it has all parts that may still count at ``next_offset`` or behind."""
        self._expire(next_offset)
        return min((pending.first for pending in self._pending.values()), default=next_offset)

    def _expire(self, offset: int) -> None:
        for id_, pending in list(self._pending.items()):
            if offset - pending.first > PARTS_SPAN:
                del self._pending[id_]
