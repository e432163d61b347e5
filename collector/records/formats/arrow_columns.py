"""Columns of Arrow as arrays of numpy, and the types of these."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def text_codes(column: pa.Array) -> tuple[Integers, list[str]]:
    """Return the index of each text in the list of different ones, which come in order of appearance; -1 where there is none."""
    encoded = column.dictionary_encode()
    return filled(encoded.indices, -1), encoded.dictionary.to_pylist()


def filled(numbers: pa.Array, missing: int) -> Integers:
    """Return numbers with ``missing`` in place of null."""
    found: Integers = (pc.fill_null(numbers, missing) if numbers.null_count else numbers).to_numpy()
    return found
