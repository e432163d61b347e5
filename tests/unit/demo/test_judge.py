"""The judge must be able to fail: each fault that it exists for is put before it here."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from demo.abandoned_producer import KEY
from demo.checkpoint_directory import CheckpointDirectory
from demo.judge import CannotJudge, Findings, expected_counts, judge
from demo.offset_log import OffsetLog, OffsetLogUnreadable, PlannedBatch, parse
from demo.readers import Record

TOPIC = "ip_count_source"


def source(*rows: tuple[str, int], partition: int = 0) -> list[Record]:
    return [
        Record(partition=partition, offset=offset, key=None, value=f"{address},{at_ms}".encode())
        for offset, (address, at_ms) in enumerate(rows)
    ]


def batch(number: int, watermark_ms: int, end: int) -> PlannedBatch:
    return PlannedBatch(number=number, watermark_ms=watermark_ms, end_offsets={0: end})


def counted(offset: int, address: str, start_ms: int, count: int) -> Record:
    value = {"ip": address, "window_start_ms": start_ms, "window_end_ms": start_ms + 5000, "count": count}
    return Record(partition=0, offset=offset, key=f"{address}|{start_ms}".encode(), value=json.dumps(value).encode())


SOURCE = source(("a", 1_000), ("a", 4_999), ("b", 2_000), ("a", 6_000))
BATCHES = [batch(0, 0, 3), batch(1, 0, 4), batch(2, 10_000, 4)]
SINK = [counted(0, "a", 0, 2), counted(1, "b", 0, 1), counted(2, "a", 5_000, 1)]


def findings(committed: list[Record], live: list[Record] | None = None) -> Findings:
    return judge(expected_counts(SOURCE, BATCHES), committed, committed if live is None else live, KEY)


def test_a_run_without_fault_is_clean() -> None:
    found = findings(SINK)
    assert found.clean
    assert (found.expected, found.found, found.lost, found.duplicates) == (3, 3, 0, 0)


def test_a_lost_row_is_counted() -> None:
    found = findings(SINK[:2])
    assert not found.clean
    assert (found.lost, found.duplicates, found.wrong_counts) == (1, 0, 0)


def test_a_duplicate_is_counted_and_is_no_loss() -> None:
    found = findings([*SINK, counted(3, "b", 0, 1)])
    assert not found.clean
    assert (found.lost, found.duplicates) == (0, 1)


def test_a_wrong_count_counts_as_lost() -> None:
    found = findings([*SINK[:2], counted(2, "a", 5_000, 7)])
    assert not found.clean
    assert (found.wrong_counts, found.lost, found.duplicates) == (1, 1, 0)


def test_a_row_that_nothing_asks_for_is_a_wrong_count() -> None:
    assert findings([*SINK, counted(3, "c", 0, 1)]).wrong_counts == 1


def test_a_row_read_before_it_was_committed_is_counted() -> None:
    aborted = replace(SINK[0], offset=9)
    found = findings(SINK, [*SINK, aborted])
    assert not found.clean
    assert found.precommitted_reads == 1


def test_a_row_of_the_abandoned_producer_must_never_be_read() -> None:
    foreign = Record(partition=0, offset=9, key=KEY, value=b"{}")
    assert findings([*SINK, foreign], [*SINK, foreign]).precommitted_reads == 1


def test_a_sink_row_that_contradicts_itself_stops_the_judge() -> None:
    with pytest.raises(CannotJudge, match="contradicts its value"):
        findings([replace(SINK[0], key=b"b|0")])


def test_another_late_rule_than_the_known_one_stops_the_judge() -> None:
    """A row behind its window that Spark ought to have dropped: the watermark went back, which it never does."""
    with pytest.raises(CannotJudge, match="written twice"):
        expected_counts(source(("a", 0), ("a", 1)), [batch(0, 5_000, 1), batch(1, 0, 1), batch(2, 5_000, 2)])


def test_late_rows_are_judged_by_the_watermark_of_the_batch_before() -> None:
    """Batch 1 runs under 5000: its row of window 0 still counts, the same row in batch 2 is late."""
    rows = source(("a", 1_000), ("a", 2_000), ("a", 3_000), ("z", 20_000))
    expected = expected_counts(rows, [batch(0, 0, 1), batch(1, 5_000, 2), batch(2, 5_000, 4)])
    assert expected.counts == {("a", 0): 2}
    assert expected.late == 1


def test_a_window_is_expected_only_once_the_watermark_passed_its_end() -> None:
    assert expected_counts(SOURCE, [*BATCHES[:2], batch(2, 9_999, 4)]).counts == {("a", 0): 2, ("b", 0): 1}


def test_rows_beyond_the_last_batch_are_not_expected() -> None:
    assert expected_counts(SOURCE, [batch(0, 0, 1), batch(1, 10_000, 1)]).counts == {("a", 0): 1}


def test_offset_log_is_read_as_spark_writes_it() -> None:
    text = 'v1\n{"batchWatermarkMs":1795255576893,"batchTimestampMs":1,"conf":{}}\n{"ip_count_source":{"0":21,"1":7}}'
    assert parse(2, text, TOPIC) == PlannedBatch(number=2, watermark_ms=1795255576893, end_offsets={0: 21, 1: 7})


def test_offset_log_of_a_source_that_gave_nothing_yet() -> None:
    assert parse(0, 'v1\n{"batchWatermarkMs":0}\n-', TOPIC).end_offsets == {}


@pytest.mark.parametrize(
    "text", ["", 'v2\n{"batchWatermarkMs":0}\n-', "v1\n{}\n-", 'v1\n{"batchWatermarkMs":0}\n{"other":{"0":1}}']
)
def test_another_offset_log_format_is_refused(text: str) -> None:
    with pytest.raises(OffsetLogUnreadable, match="offsets/3"):
        parse(3, text, TOPIC)


def test_offset_log_remembers_what_spark_removes_and_reports_a_gap(tmp_path) -> None:
    for number in (0, 1):
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / str(number)).write_text('v1\n{"batchWatermarkMs":0}\n-')
    log = OffsetLog(CheckpointDirectory(str(tmp_path)), TOPIC)
    log.refresh()
    (tmp_path / "offsets" / "0").unlink()
    log.refresh()
    assert [planned.number for planned in log.committed()] == [0, 1]
    (tmp_path / "commits" / "2").write_text("v1\n{}")
    log.refresh()
    with pytest.raises(OffsetLogUnreadable, match=r"\[2\]"):
        log.committed()
