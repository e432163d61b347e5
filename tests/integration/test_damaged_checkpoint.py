"""A Spark checkpoint directory after a power cut: what the pipeline says of it, and what becomes of it when that is done."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS
from tests.integration.pipeline_process import PipelineProcess, make_topics, produce, read_committed, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


class Damaged:
    """A pipeline that wrote some batches and was stopped."""

    def __init__(self, connection, directory: Path) -> None:
        self.connection = connection
        self.source = f"damaged-{uuid.uuid4().hex[:8]}"
        self.sink = f"{self.source}-out"
        make_topics(connection, self.source, self.sink, partitions=1)
        settings = {"source": self.source, "sink": self.sink, "prefix": self.source}
        self.pipeline = PipelineProcess(connection, directory, **settings)
        self.checkpoint = directory / "checkpoint"
        self.written: list[bytes] = []

    def write(self, *batches: list[bytes]) -> None:
        """Have the pipeline write these one after the other, and stop it."""
        with self.pipeline:
            for rows in batches:
                produce(self.connection, self.source, rows)
                self.written += rows
                wait_until("the rows", lambda: self.rows().total() >= len(self.written))
                wait_until("the end of the batch", lambda: self.newest("commits") == self.newest("offsets"))
        assert self.rows() == Counter(self.written), "once each"

    def refused(self) -> str:
        """Start it where it must refuse to, at once and once; return what it said."""
        before = len(self.pipeline.log)
        with self.pipeline:
            assert self.pipeline.wait_exit() == WRONG_SETTINGS
        said = self.pipeline.log[before:]
        assert "restart 1" not in said
        return said

    def rows(self) -> Counter[bytes]:
        return read_committed(self.connection, self.sink)

    def newest(self, folder: str) -> int:
        return max((int(file.name) for file in (self.checkpoint / folder).glob("*") if file.name.isdigit()), default=-1)


def remove(damaged: Damaged, said: str) -> None:
    """Remove what the pipeline said is to be removed."""
    (step,) = re.findall(r"start again: remove (.*?)\. ", said)
    for name in re.findall(r"(?:offsets|commits)/\.?\d+(?:\.crc)?", step):
        (damaged.checkpoint / name).unlink()


@pytest.mark.long
def test_what_is_said_after_a_power_cut_loses_and_doubles_no_row(connection, tmp_path):
    damaged = Damaged(connection, tmp_path)
    damaged.write([b"a", b"b"], [b"c"], [b"d"])
    last = damaged.newest("commits")
    (damaged.checkpoint / "commits" / str(last)).write_bytes(b"")
    said = damaged.refused()
    assert f"commits/{last} is empty" in said
    assert "compared with what is committed, not written again" in said
    remove(damaged, said)
    damaged.write([b"e"])

    last = damaged.newest("offsets")
    (damaged.checkpoint / "offsets" / str(last)).write_bytes(b"")
    said = damaged.refused()
    assert f"offsets/{last} is empty" in said
    assert "Restore these files as they were" in said, "the batch is in the sink, and nobody else knows where it ended"

    # The next batch was planned, and the power went before it was decided.
    spared = (damaged.checkpoint / "offsets" / str(last - 1)).read_bytes()
    (damaged.checkpoint / "offsets" / str(last)).write_bytes(spared.replace(b": 4}", b": 5}"))
    (damaged.checkpoint / "offsets" / f".{last}.crc").unlink()
    (damaged.checkpoint / "offsets" / str(last + 1)).write_bytes(b"")
    said = damaged.refused()
    assert f"The decision log has no decision of 1 batch ({last + 1})" in said
    (damaged.checkpoint / "offsets" / f".{last + 1}.crc").write_bytes(b"")
    remove(damaged, said)
    damaged.write([b"f"])
