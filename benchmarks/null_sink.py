"""A sink that takes Spark's rows as ours does, as Arrow in a Python worker, and drops them: what is left is Spark's own cost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType


class NowhereSink(DataSource):
    """``format("nowhere")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "nowhere"

    def streamWriter(self, schema: StructType, overwrite: bool) -> NowhereWriter:
        """Return the writer of one batch."""
        return NowhereWriter()


class NowhereWriter(DataSourceStreamArrowWriter):
    """Reads every row of a batch and keeps none."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drain the rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: nothing was written."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: nothing was written."""
