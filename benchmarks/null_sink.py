"""A sink that takes Spark's rows as Arrow in a Python worker, like indoubt's sink, and drops them: it measures Spark's own cost."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType


class NullSink(DataSource):
    """``format("null")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "null"

    def streamWriter(self, schema: StructType, overwrite: bool) -> NullWriter:
        """Return the writer of one batch."""
        return NullWriter()


class NullWriter(DataSourceStreamArrowWriter):
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
