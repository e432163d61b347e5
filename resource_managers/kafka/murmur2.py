"""The partition of a key as Kafka's Java client and librdkafka (murmur2) choose it, for whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indoubt.resource_managers.fingerprint import words_of

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)

Words = npt.NDArray[np.uint32]


def partitions_of(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    """Return each key's partition among ``count``; that of a null means nothing. ``keys`` are binary."""
    found: npt.NDArray[np.int32] = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
    return found


def murmur2(keys: pa.Array) -> Words:
    """Return the hash of each key; that of a null means nothing. ``keys`` are binary."""
    _, offsets, data = keys.buffers()
    if len(keys) == 0:
        return np.zeros(0, np.uint32)
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if (lengths == lengths[0]).all():
        return _finished(_equal(octets, int(starts[0]), int(lengths[0]), len(keys)))
    # Longest first: the keys that have a word at some place are then the first so many, without an index.
    order = np.argsort(lengths.astype(np.uint16) if int(lengths.max()) < 1 << 16 else lengths, kind="stable")[::-1]
    ordered = _descending(octets, starts[order], lengths[order])
    hashed = np.empty(len(keys), np.uint32)
    hashed[order] = ordered
    return _finished(hashed)


def _equal(octets: Any, start: int, length: int, count: int) -> Words:
    hashed = np.full(count, _SEED ^ np.uint32(length), np.uint32)

    def column(place: int, kind: str) -> Any:
        return np.ndarray((count,), kind, octets.data, offset=start + place, strides=(length,))

    for place in range(0, length - length % 4, 4):
        _mix(hashed, column(place, "<u4"))
    if length % 4:
        for place in range(length % 4):
            hashed ^= column(length - length % 4 + place, "u1").astype(np.uint32) << np.uint32(8 * place)
        hashed *= _M
    return hashed


def _descending(octets: Any, starts: Any, lengths: Any) -> Words:
    """Return the hashes of keys of which none is longer than the one before."""
    hashed: Words = _SEED ^ lengths.astype(np.uint32)
    for whole, words in words_of(octets, starts, lengths, np.uint32):
        _mix(hashed[:whole], words[:whole])
        rest = hashed[whole : len(words)]
        rest ^= words[whole:]
        rest *= _M
    return hashed


def _mix(hashed: Words, words: Words) -> None:
    """Fold a word of each key into its hash, in place."""
    k = words * _M
    k ^= k >> _R
    k *= _M
    hashed *= _M
    hashed ^= k


def _finished(hashed: Words) -> Words:
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    return hashed
