"""The files of a Spark checkpoint directory, as Spark 4.2 writes them, and broken ones."""

from __future__ import annotations

import pytest

from indoubt.collector.observe.spark_checkpoint import missing_offsets, parse
from indoubt.collector.records.observations import CheckpointFileKind
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

OFFSETS = (
    'v1\n{"batchWatermarkMs":1795000000000,"batchTimestampMs":1795000005000,'
    '"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"ip_count_source":{"0":41,"1":40}}'
)
COMMITS = 'v1\n{"nextBatchWatermarkMs":1795000001000}'
MODIFIED_NS = 1_795_000_006_123_000_000


def test_offsets_tell_when_the_batch_was_planned() -> None:
    file = parse("ip-count", CheckpointFileKind.OFFSETS, 7, MODIFIED_NS, OFFSETS)
    assert (file.number, file.at_ms) == (7, 1795000005000)


def test_commits_have_the_time_of_the_file() -> None:
    file = parse("ip-count", CheckpointFileKind.COMMITS, 7, MODIFIED_NS, COMMITS)
    assert file.at_ms == 1_795_000_006_123


def test_commits_without_metadata_are_understood() -> None:
    assert parse("p", CheckpointFileKind.COMMITS, 0, MODIFIED_NS, "v1\n{}").at_ms == 1_795_000_006_123


def test_each_version_that_spark_4_2_writes_is_understood() -> None:
    named = OFFSETS.replace("v1", "v2").replace('{"ip_count_source"', '0:{"ip_count_source"')
    assert parse("p", CheckpointFileKind.OFFSETS, 7, MODIFIED_NS, named).at_ms == 1795000005000
    sinks = '"sinkMetadataMap":{"out":{"sinkName":"out","commitOffset":"-","providerName":"x","apiVersion":"v2","isActive":true}}'
    for version, more in (("v2", '"stateUniqueIds":{"0":[["a","b"]]}'), ("v3", sinks)):
        text = f'{version}\n{{"nextBatchWatermarkMs":1795000001000,{more}}}'
        assert parse("p", CheckpointFileKind.COMMITS, 7, MODIFIED_NS, text).at_ms == 1_795_000_006_123


@pytest.mark.parametrize(
    ("planned", "committed", "missing"),
    [
        ([], [], []),
        ([0, 1, 2, 3], [0, 1, 2], []),
        ([0, 1, 3], [0, 1, 2], [2]),
        ([0, 1, 3, 4], [0, 1, 2, 3, 4], [2]),
        ([0, 1, 3], [0, 1], [2]),
        ([0, 1, 2], [0, 1, 2, 3], [3]),
        ([], [3, 4], [4]),
        ([7, 8, 9], [5, 6, 7, 8], []),
        # Asynchronous progress tracking, of which the last batch may still run.
        ([0, 4, 9], [0, 4, 9], []),
        ([0, 4, 9, 13], [0, 4, 9], []),
        ([0, 4], [0], []),
        ([0, 1, 2, 3, 7], [0, 1, 2, 3, 7], []),
    ],
)
def test_offsets_that_must_have_been_there_are_missing(
    planned: list[int], committed: list[int], missing: list[int]
) -> None:
    assert missing_offsets(planned, committed) == missing


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", MalformedRecord),
        ("v0\n{}", MalformedRecord),
        ("v3\n{}", UnknownVersion),
        ("v9\n{}", UnknownVersion),
        ("v1\n{half", MalformedRecord),
        ("v1\n[1]", MalformedRecord),
        ('v1\n{"batchTimestampMs":"soon"}', MalformedRecord),
    ],
)
def test_a_file_that_cannot_be_understood_says_which(text: str, error: type[MalformedRecord]) -> None:
    with pytest.raises(error, match="offsets/3"):
        parse("p", CheckpointFileKind.OFFSETS, 3, MODIFIED_NS, text)
