"""The files of a Spark checkpoint directory, as Spark 4.2 writes them, and broken ones."""

from __future__ import annotations

import pytest

from collector.records.observations import CheckpointFileKind
from collector.sources.spark_checkpoint import parse
from lifecycle.errors import MalformedRecord, UnknownVersion

OFFSETS = (
    'v1\n{"batchWatermarkMs":1795000000000,"batchTimestampMs":1795000005000,'
    '"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"ip_count_source":{"0":41,"1":40}}'
)
COMMITS = 'v1\n{"nextBatchWatermarkMs":1795000001000}'
MODIFIED_NS = 1_795_000_006_123_000_000


def test_offsets_tell_when_the_batch_was_planned() -> None:
    file = parse("ip-count", CheckpointFileKind.OFFSETS, 7, MODIFIED_NS, OFFSETS)
    assert (file.number, file.at_ms, file.watermark_ms) == (7, 1795000005000, 1795000000000)


def test_commits_have_the_time_of_the_file() -> None:
    file = parse("ip-count", CheckpointFileKind.COMMITS, 7, MODIFIED_NS, COMMITS)
    assert (file.at_ms, file.watermark_ms) == (1_795_000_006_123, 1795000001000)


def test_commits_without_metadata_are_understood() -> None:
    assert parse("p", CheckpointFileKind.COMMITS, 0, MODIFIED_NS, "v1\n{}").watermark_ms is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", UnknownVersion),
        ("v9\n{}", UnknownVersion),
        ("v1\n{half", MalformedRecord),
        ("v1\n[1]", MalformedRecord),
        ('v1\n{"batchTimestampMs":"soon"}', MalformedRecord),
    ],
)
def test_a_file_that_cannot_be_understood_says_which(text: str, error: type[MalformedRecord]) -> None:
    with pytest.raises(error, match="offsets/3"):
        parse("p", CheckpointFileKind.OFFSETS, 3, MODIFIED_NS, text)
