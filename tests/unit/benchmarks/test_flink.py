"""What flink.sh prints, read and judged."""

from __future__ import annotations

import pytest

from benchmarks.figures import Mark
from benchmarks.flink import Flink, read_latency, require_each_once, up_to

VERIFIED = (
    "VERIFY read_committed records=1000000 distinct=1000000 dups=0 missing=0 firstMissing=1000000 lastSeen=999999 "
    "endOffsets=[252974, 242758, 258971, 245305]"
)


def test_each_record_once_passes():
    require_each_once(VERIFIED, 1_000_000)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("missing=0", "missing=3"), ("records=1000000", "records=1000004"), ("distinct=1000000", "distinct=999999")],
)
def test_a_missing_or_doubled_record_fails(right, wrong):
    with pytest.raises(AssertionError, match=wrong):
        require_each_once(VERIFIED.replace(right, wrong), 1_000_000)


def test_no_answer_fails():
    with pytest.raises(AssertionError, match="each of 5 records once"):
        require_each_once("", 5)


def test_latency_line_is_read():
    text = "LAT n=100015 p50_ms=604.6 p90_ms=1005.1 p99_ms=1138.6 max_ms=1200.0 mean_ms=600.0 min_ms=20.1\n"
    figures = read_latency(text)
    assert (figures["n"], figures["p50_ms"], figures["p99_ms"]) == (100015.0, 604.6, 1138.6)


def test_a_run_that_saw_nothing_says_so():
    with pytest.raises(RuntimeError, match="saw no record"):
        read_latency("LAT none\n")


def test_control_records_do_not_count():
    seen = [Mark(at_s=1.0, records=504), Mark(at_s=2.0, records=1008), Mark(at_s=3.0, records=1010)]
    assert up_to(seen, 1000) == [Mark(at_s=1.0, records=504), Mark(at_s=2.0, records=1000)]


def test_a_directory_without_the_script_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        Flink(tmp_path)
