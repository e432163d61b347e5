"""The sink: ``df.writeStream.format("two_phase_commit")``, a Spark Python data source whose rows stay Arrow.

Spark calls ``write`` on executors, one task a slot, and ``commit`` / ``abort`` in a worker process beside the driver
(pyspark.sql.datasource says which method runs where). Nothing is recovered here: ``streamWriter`` runs once a batch.

Two more processes of each start load this module to plan a batch: what writes and commits is imported where it does, which
spares each of them 0.4 s of processor time.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from indoubt.pipeline.sink.coordinator import Coordinator
    from indoubt.pipeline.sink.slot_writer import SlotMessage

BATCH_ID_PROPERTY = "streaming.sql.batchId"


class TwoPhaseCommitSink(DataSource):
    """Registered with ``spark.dataSource.register``; each of its sinks takes the columns that are its own."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "two_phase_commit"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamBatchWriter:
        """Return the writer of one batch. Raises SettingsError for wrong options."""
        return StreamBatchWriter(SinkOptions.read(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> UpdateBatchWriter:
        """Return the writer of one batch that ``write_updates`` hands over. Raises SettingsError for wrong options."""
        options = SinkOptions.read(self.options)
        if options.batch < 0:
            raise SettingsError("two_phase_commit writes streams: use writeStream, or foreachBatch(write_updates(...))")
        return UpdateBatchWriter(options)


def write_updates(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return what ``writeStream.outputMode("update").foreachBatch`` takes to write each batch to this sink.

    Spark refuses the update mode for data sources in Python; a batch of it is an ordinary write, with its id as an option.
    """

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.format(TwoPhaseCommitSink.name()).mode("append").options(**options).option("batch", batch).save()

    return write


class StreamBatchWriter(DataSourceStreamArrowWriter):
    """One batch: tasks write and prepare, the coordinator decides and commits."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SlotMessage:
        """Write one slot's rows and prepare them (on an executor)."""
        task = _task()
        return _write(self._options, task, int(task.getLocalProperty(BATCH_ID_PROPERTY) or -1), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Decide and commit the batch (beside the driver). Raises the first error after every handle was tried."""
        _coordinator(self._options).commit(_slots(messages), batchId)
        freeze_modules()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Roll the batch back unless it was decided to be committed: Spark calls this after a failed commit, too."""
        _coordinator(self._options).abort(_slots(messages), batchId)


class UpdateBatchWriter(DataSourceArrowWriter):
    """The same for a batch in update mode, whose id comes with the options."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SlotMessage:
        """Write one slot's rows and prepare them (on an executor)."""
        return _write(self._options, _task(), self._options.batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Decide and commit the batch (beside the driver). Raises the first error after every handle was tried."""
        _coordinator(self._options).commit(_slots(messages), self._options.batch)
        freeze_modules()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Roll the batch back unless it was decided to be committed: Spark calls this after a failed commit, too."""
        _coordinator(self._options).abort(_slots(messages), self._options.batch)


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("two_phase_commit writes inside Spark tasks only")
    return context


def _coordinator(options: SinkOptions) -> Coordinator:
    from indoubt.pipeline.sink.coordinator import Coordinator

    return Coordinator(options)


def _write(options: SinkOptions, task: TaskContext, batch: int, rows: Iterator[pa.RecordBatch]) -> SlotMessage:
    from indoubt.pipeline.sink.slot_writer import SlotWriter

    try:
        return SlotWriter(options, slot=task.partitionId(), batch=batch).write(rows)
    finally:
        freeze_modules()


@functools.cache
def freeze_modules() -> None:
    """Take what is loaded out of the garbage collector's sight, once a process.

    A reused worker collects after every task, and each time walks all of its modules: 0.1 s of processor time.
    """
    gc.collect()
    gc.freeze()


def _slots(messages: list[WriterCommitMessage | None]) -> list[SlotMessage]:
    from indoubt.pipeline.sink.slot_writer import SlotMessage

    return [message for message in messages if isinstance(message, SlotMessage)]
