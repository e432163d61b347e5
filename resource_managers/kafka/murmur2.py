"""The partition of a key as Kafka's Java client and librdkafka (murmur2) choose it, for whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


def partitions_of(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    """Return each key's partition among ``count``; that of a null means nothing. ``keys`` are binary."""
    found: npt.NDArray[np.int32] = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
    return found


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the hash of each key; that of a null means nothing. ``keys`` are binary."""
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    hashed = _SEED ^ lengths.astype(np.uint32)
    # Four bytes at any address are one number: the same bytes are looked at as four columns of them.
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    words = lengths // 4
    most = int(words.max(initial=0))
    if len(keys) and (lengths == lengths[0]).all():
        table = content[starts[0] : starts[0] + len(keys) * int(lengths[0])].reshape(len(keys), int(lengths[0]))
        for word in range(most):
            hashed = _mixed(hashed, np.ascontiguousarray(table[:, 4 * word : 4 * word + 4]).view("<u4").reshape(-1))
    else:
        longer = np.arange(len(keys))
        for word in range(most):
            longer = longer[words[longer] > word]
            hashed[longer] = _mixed(hashed[longer], _little_endian(content, starts[longer] + 4 * word))
    rest = lengths % 4
    tails = starts + 4 * words
    for place in (2, 1, 0):
        having = np.flatnonzero(rest > place)
        hashed[having] ^= content[tails[having] + place].astype(np.uint32) << np.uint32(8 * place)
    having = np.flatnonzero(rest > 0)
    hashed[having] *= _M
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    return hashed


def _mixed(hashed: npt.NDArray[np.uint32], k: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    k = k * _M
    k ^= k >> _R
    k *= _M
    k ^= hashed * _M
    return k


def _little_endian(content: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    # Sliding views may lie at odd addresses; numpy copies what it takes from them.
    words = np.lib.stride_tricks.sliding_window_view(content, 4)[places]
    found: npt.NDArray[np.uint32] = np.ascontiguousarray(words).view("<u4").reshape(-1)
    return found
