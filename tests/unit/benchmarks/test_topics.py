"""The records of the benchmarks, and the count that must be exact."""

from __future__ import annotations

import pytest

from benchmarks.topics import STAMP, VALUE_BYTES, Counted, value_of


def test_a_record_has_its_size_stamp_and_serial():
    value = value_of(41, 1_700_000_000_000_001)
    assert len(value) == VALUE_BYTES
    assert STAMP.unpack(value[:16]) == (1_700_000_000_000_001, 41)


def test_each_record_once_passes():
    Counted(records=5, distinct=5).require(5, "sink")


@pytest.mark.parametrize(("records", "distinct"), [(4, 4), (6, 5), (5, 4), (6, 6)])
def test_lost_and_doubled_records_fail(records, distinct):
    with pytest.raises(AssertionError, match="5 expected"):
        Counted(records=records, distinct=distinct).require(5, "sink")
