"""Fingerprints: row count and an order-independent 64-bit hash over all columns, vectorised over Arrow buffers.

Each row's hash depends on its values alone (null, empty and the border between columns are distinct); the sum of all
modulo 2**64 does not depend on order, batch borders or slicing. Not cryptographic: it tells replays of one query apart,
not forgeries.

Rows of ``key`` and ``value`` alone, the most common and the most, have a way of their own; in any other rows the columns'
names count and their order does not, and numbers, times and the like are hashed as the text that Arrow writes for them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import Fingerprint
from indoubt.resource_managers.record_parts import are_headers, encode_headers

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x7F4A7C15F39CC060)
_SHIFT_31, _SHIFT_32 = np.uint64(31), np.uint64(32)
_RECORD = frozenset({"key", "value"})
CHUNK_ROWS = 8192
"""Rows hashed at a time: their hashes stay in the cache."""
LONG_ROW_BYTES = 4096
"""Longer values are hashed one by one by BLAKE2b: word by word they would cost a pass of numpy each 8 bytes."""

Words = np.ndarray[Any, np.dtype[np.uint64]]
Kind = TypeVar("Kind", np.uint32, np.uint64)


class RunningFingerprint:
    """Adds up the fingerprint of rows as they pass."""

    def __init__(self) -> None:
        self._rows = 0
        self._sum = 0

    def add_batch(self, rows: pa.RecordBatch) -> None:
        """Add rows of any columns that Arrow can write as text. Raises SettingsError naming one that it cannot."""
        schema = rows.schema
        if "value" in schema.names and all(f.name in _RECORD and _is_bytes(f.type) for f in schema):
            self.add(rows.column("key") if "key" in schema.names else None, rows.column("value"))
        elif rows.num_rows:
            hashes = np.zeros(rows.num_rows, np.uint64)
            with np.errstate(over="ignore"):
                for field, column in zip(schema, rows.columns, strict=True):
                    # Added up, so that the order of columns does not matter; mixed before, so that their names do.
                    hashes += _mixed(_hash_column(_as_bytes(field.name, column)) ^ _name_hash(field.name))
                self._add(hashes)

    def add(self, key: pa.Array | None, value: pa.Array) -> None:
        """Add rows; arrays of binary or string (large or not), of equal length; no key column = all keys null."""
        count = len(value)
        if count == 0:
            return
        hashes = _hash_column(value)
        keys = _NULL if key is None or key.null_count == count else _hash_column(key)
        with np.errstate(over="ignore"):
            hashes ^= keys * _MULTIPLIER + (keys >> _SHIFT_31)
            self._add(hashes)

    def _add(self, hashes: Words) -> None:
        self._rows += len(hashes)
        self._sum = (self._sum + int(_mixed(hashes).sum(dtype=np.uint64))) & 0xFFFF_FFFF_FFFF_FFFF

    @property
    def value(self) -> Fingerprint:
        """Return the fingerprint of everything added so far."""
        return Fingerprint(rows=self._rows, hash=self._sum)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    )


def _as_bytes(name: str, column: pa.Array) -> pa.Array:
    if _is_bytes(column.type):
        return column
    if are_headers(column.type):
        return encode_headers(column)
    try:
        # Binary of a fixed length need not be text.
        fixed = pa.types.is_fixed_size_binary(column.type)
        return pc.cast(column, pa.large_binary() if fixed else pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise SettingsError(
            f"column {name!r} is {column.type}: cast it to a string, a number, a time or binary before the sink"
        ) from None


@functools.cache
def _name_hash(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def _binary_view(column: pa.Array) -> tuple[Any, Any, pa.Buffer | None]:
    """Return (start offsets, lengths, data buffer) of a binary or string array, as int64 arrays; null rows have length 0.

    Raises SettingsError for any other type.
    """
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        width: type[np.signedinteger[Any]] = np.int32
    elif pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        width = np.int64
    else:
        raise SettingsError(f"key and value must be string or binary, not {kind}: cast them before the sink")
    _, offsets_buffer, data = column.buffers()
    if offsets_buffer is None or len(column) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), data
    offsets = np.frombuffer(offsets_buffer, width, len(column) + 1, column.offset * np.dtype(width).itemsize)
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    if column.null_count:
        lengths[np.asarray(column.is_null())] = 0
    return starts, lengths, data


def _hash_column(column: pa.Array) -> Words:
    starts, lengths, data = _binary_view(column)
    with np.errstate(over="ignore"):
        hashes: Words = (lengths.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
        if data is not None and data.size:
            octets = np.frombuffer(data, np.uint8)
            for first in range(0, len(lengths), CHUNK_ROWS):
                chunk = slice(first, first + CHUNK_ROWS)
                _add_words(hashes[chunk], starts[chunk], lengths[chunk], octets)
        if column.null_count:
            hashes[np.asarray(column.is_null())] = _NULL
    return hashes


def _add_words(hashes: Words, starts: Any, lengths: Any, octets: Any) -> None:
    """Fold each row's bytes into its hash, 8 at a time: word j of all rows that have one in one pass."""
    longest = int(lengths.max())
    if longest > LONG_ROW_BYTES:
        for row in np.flatnonzero(lengths > LONG_ROW_BYTES):
            piece = octets[starts[row] : starts[row] + lengths[row]]
            digest = hashlib.blake2b(piece.tobytes(), digest_size=8).digest()
            hashes[row] ^= np.uint64(int.from_bytes(digest, "little"))
        lengths = np.where(lengths > LONG_ROW_BYTES, 0, lengths)
        longest = int(lengths.max())
    # Rows of one length lie one behind the other, unless nulls or long rows stand between them.
    if int(lengths.min()) == longest >= 8 and int(starts[-1] - starts[0]) == longest * (len(starts) - 1):
        _fold_equal(hashes, int(starts[0]), longest, octets)
        return
    # Longest first: the rows that have a word at some place are then the first so many, without an index.
    order = np.argsort(lengths.astype(np.uint16), kind="stable")[::-1]
    ordered = hashes[order]
    for _, words in words_of(octets, starts[order], lengths[order], np.uint64):
        _fold(ordered[: len(words)], words)
    hashes[order] = ordered


def _fold_equal(hashes: Words, start: int, length: int, octets: Any) -> None:
    def column(place: int) -> Words:
        return np.ndarray((len(hashes),), "<u8", octets.data, offset=start + place, strides=(length,))

    for position in range(0, length - length % 8, 8):
        _fold(hashes, column(position))
    if length % 8:
        # The last eight bytes, without those that were folded before.
        _fold(hashes, column(length - 8) >> np.uint64(64 - length % 8 * 8))


def _fold(hashes: Words, words: Words) -> None:
    hashes ^= words
    hashes *= _MULTIPLIER
    hashes ^= hashes >> _SHIFT_32


def _mixed(hashes: Words) -> Words:
    """Return the hashes with every bit depending on every bit (the finaliser of SplitMix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _MIX_1
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _MIX_2
    return hashes ^ (hashes >> _SHIFT_31)


def words_of(octets: Any, starts: Any, lengths: Any, kind: type[Kind]) -> Iterator[tuple[int, Any]]:
    """Yield the next little-endian word of every row that has one, with how many of these are whole; overwrite it as you like.

    No row is longer than the one before. So the words are those of the first rows, and those that are not whole come last:
    the last bytes of their rows, with zeros above them.
    """
    if len(lengths) == 0 or lengths[0] <= 0:
        return
    size = np.dtype(kind).itemsize
    bits = 8 * size
    first, end = int(starts.min()), int((starts + lengths).max())
    # Aligned words are taken four times as fast as those at any place, so each word is put together of two.
    aligned = np.zeros((end - first) // size + 2, kind)
    aligned.view(np.uint8)[: end - first] = octets[first:end]
    places = (starts - first).astype(np.int64)
    shifts = (places % size * 8).astype(kind)
    rests = kind(bits - 1) - shifts
    places //= size
    low = aligned.take(places)
    positions = np.arange(0, int(lengths[0]), size)
    # So many rows go on beyond each place; the last of them have no whole word there.
    counts = len(lengths) - np.searchsorted(lengths[::-1], [positions, positions + size - 1], side="right")
    left = (lengths % size * 8).astype(kind)
    masks = (kind(1) << left) - kind(1)
    one = kind(1)
    for count, whole in counts.T.tolist():
        at = places[:count]
        at += 1
        high = aligned.take(at)
        # In two steps: a shift by all bits is none.
        words = high << one
        words <<= rests[:count]
        low = low[:count]
        low >>= shifts[:count]
        words |= low
        if count > whole:
            words[whole:] &= masks[whole:count]
        yield whole, words
        low = high
