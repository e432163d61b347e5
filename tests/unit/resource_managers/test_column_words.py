"""Words of whole columns beside those of each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_managers.column_words import words_of


@pytest.mark.parametrize("kind", [np.uint32, np.uint64], ids=["4 bytes", "8 bytes"])
@given(rows=st.lists(st.binary(max_size=40), max_size=20), before=st.binary(max_size=9))
@settings(deadline=None)
def test_each_row_has_its_words_and_then_its_last_bytes(kind, rows, before):
    size = np.dtype(kind).itemsize
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    lengths = np.array([len(rows[row]) for row in order], np.int64)
    starts = np.array([len(before) + sum(map(len, rows[:row])) for row in order], np.int64)
    found: list[list[int]] = [[] for _ in rows]
    for whole, words in words_of(np.frombuffer(before + b"".join(rows), np.uint8), starts, lengths, kind):
        step = max(map(len, found), default=0)
        assert whole == sum(length >= (step + 1) * size for length in lengths)
        for row, word in zip(found, words.tolist(), strict=False):
            row.append(word)
    for row, words in zip(order, found, strict=True):
        pieces = [rows[row][place : place + size] for place in range(0, len(rows[row]), size)]
        assert words == [int.from_bytes(piece, "little") for piece in pieces]
