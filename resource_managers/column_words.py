"""The bytes of a binary column as words, one of each row at a time, for hashes over whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

Kind = TypeVar("Kind", np.uint32, np.uint64)


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
