"""Spark's two logs in a checkpoint directory, as Spark 4.2 and Hadoop write them, with files damaged or taken away."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

OFFSET = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795000005000,"conf":{}}\n{"in":{"0":1}}'
OFFSET_V2 = 'v2\n{"batchWatermarkMs":0,"batchTimestampMs":1795000005000,"conf":{}}\n0:{"in":{"0":1}}\nother:-'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
COMMIT_V2 = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]]}}'


def spark_logs(
    path: Path,
    planned: Collection[int],
    committed: Collection[int],
    *,
    damaged: Collection[str] = (),
    offset: str = OFFSET,
    commit: str = COMMIT,
) -> None:
    """Write both logs. ``damaged``: files that are empty, or gone with a ``-`` before their name."""
    for folder, batches, text in (("offsets", planned, offset), ("commits", committed, commit)):
        (path / folder).mkdir()
        for batch in batches:
            (path / folder / str(batch)).write_text(text)
            (path / folder / f".{batch}.crc").write_text("crc")
    for name in damaged:
        if name.startswith("-"):
            (path / name[1:]).unlink()
        else:
            (path / name).write_text("")
