"""A batch whose rows Spark does not compute: Spark plans which offsets it has, and the sink's own tasks read and write them.

So no record passes Spark's JVM, where reading it, making a row of it and handing that to Python as Arrow takes most of a batch's
processor time. Offsets, limits, checkpoints and slots are Spark's as ever, so a batch that one way began, the other replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from indoubt.pipeline.sink.coordinator import Coordinator
from indoubt.pipeline.sink.data_source import freeze_modules
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.pipeline.sink.slot_writer import SlotMessage, SlotWriter
from indoubt.resource_managers.kafka.reading.committed_records import OffsetRange, read_committed


def copy_ranges(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return what ``writeStream.foreachBatch`` takes to write batches of Spark's Kafka source, keys and values as they came."""

    def write(rows: DataFrame, batch: int) -> None:
        own = SinkOptions.read(options)
        coordinator = Coordinator(own)
        messages: list[SlotMessage] = []
        try:
            slots = ranges_by_slot(rows)
            if slots:
                tasks = rows.sparkSession.sparkContext.parallelize(slots, len(slots))
                messages = tasks.mapPartitions(_CopyTask(options, batch)).collect()
            coordinator.commit(messages, batch)
        except BaseException:
            # Where a task failed, the messages of all are lost: the sweep rolls back what they prepared, when the query ends.
            coordinator.abort(messages, batch)
            raise

    return write


@dataclass(frozen=True, slots=True)
class _CopyTask:
    """Reads one slot's ranges and prepares its rows (on an executor)."""

    options: Mapping[str, str]
    batch: int

    def __call__(self, slots: Iterator[Sequence[OffsetRange]]) -> Iterator[SlotMessage]:
        options = SinkOptions.read(self.options)
        connection, task = options.kafka(), TaskContext.get()
        assert task is not None, "this runs inside a Spark task"
        for ranges in slots:
            rows = (columns for wanted in ranges for columns in read_committed(connection, wanted))
            writer = SlotWriter(options, slot=task.partitionId(), batch=self.batch)
            try:
                yield writer.write(rows)
            finally:
                freeze_modules()


def ranges_by_slot(rows: DataFrame) -> list[list[OffsetRange]]:
    """Return what each task of a batch of Spark's Kafka source would read, in the tasks' order.

    Spark tells only the partitions of its plan; a test shows that they are what its own reader reads.
    """
    partitions: Any = rows._jdf.queryExecution().logical().rdd().partitions()
    return [[_offset_range(part) for part in _parts(partition)] for partition in partitions]


def _parts(partition: Any) -> list[Any]:
    """Return the source's partitions of a task: several where ``source_tasks`` joins them, none where nothing is to be read."""
    kind = partition.getClass().getSimpleName()
    if kind.startswith("Empty"):
        return []
    if not kind.startswith("Coalesced"):
        return [partition]
    parents = partition.parents()
    return [part for place in range(parents.size()) for part in _parts(parents.apply(place))]


def _offset_range(partition: Any) -> OffsetRange:
    planned = partition.inputPartition().get().offsetRange()
    place = planned.topicPartition()
    return OffsetRange(
        topic=place.topic(),
        partition=place.partition(),
        start=planned.fromOffset(),
        end=planned.untilOffset(),
    )
