"""How ``topic_options.read_topics`` reads: a Spark Python data source (of Spark 4.2) whose rows stay Arrow.

Spark asks one process beside the driver where a batch ends, and has the executors' Python workers read it. A job may have each
piece of rows changed where it is read, in Arrow columns, before Spark makes rows of them.

What reads and asks is imported where it does: two more processes of each start load this module, to plan a batch.
"""

from __future__ import annotations

import base64
import functools
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import MissingTopic, RecordsGone, Unreachable
from indoubt.pipeline.source.batch_offsets import bounded, by_partition, by_topic, divided
from indoubt.pipeline.source.topic_options import EARLIEST, NAME, TopicOptions
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, TOPIC_LIMIT_S, KafkaConnection

if TYPE_CHECKING:
    import pyarrow as pa

    from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Partition
    from indoubt.resource_managers.kafka.reading.offset_range import OffsetRange

COMBINED_ROWS = 1_000_000
"""So many of a task's rows wait at most until they are combined."""
RETRY = Backoff(first_s=0.05, max_s=0.5)


class CommittedTopic(DataSource):
    """Registered with ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    def streamReader(self, schema: StructType) -> TopicReader:
        """Return what plans and reads batches."""
        return TopicReader(TopicOptions.read(self.options))


class Task(InputPartition):
    """What one task reads, one range after the other."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self.ranges = ranges


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches (beside the driver) and reads one task's part of a batch (on an executor)."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._stop_at: dict[Partition, int] | None = None
        """Where a query ends that reads what is there now."""

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """Return where a new query begins. Raises as ``read_topics`` says."""
        return by_topic(self._ask("first" if self._options.starting_offsets == EARLIEST else "last", {}))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many records a batch has at most."""
        return ReadMaxRows(self._options.max_offsets_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Have the query end at what is committed now."""
        self._stop_at = self._ask("last", {})

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, dict[str, int]]:
        """Return where the next batch ends: at last stable offsets, or before. Raises as ``read_topics`` says."""
        begun = by_partition(start)
        ends = self._ask("last", begun) if self._stop_at is None else {**begun, **self._stop_at}
        return by_topic(bounded(begun, ends, self._options.max_offsets_per_trigger))

    def partitions(self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> list[Task]:
        """Return the tasks of a batch."""
        return [Task(ranges) for ranges in divided(start, end, self._options.tasks, self._options.task_records)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one task's records in pieces. Raises RecordsGone, MalformedRecord, Unreachable, ResourceManagerError."""
        from indoubt.resource_managers.kafka.reading.committed_records import read_committed

        assert isinstance(partition, Task)
        connection = KafkaConnection.from_json(self._options.kafka_secret)
        pieces = (rows for part in partition.ranges for rows in read_committed(connection, part))
        change, combine = _functions(self._options.each)
        changed = map(change, pieces) if change else pieces
        return _combined(changed, combine) if combine else changed

    def _ask(self, which: str, begun: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the ``first`` offset of each partition, or the ``last`` stable one; none before where it was read to."""
        from indoubt.resource_managers.kafka.partitions import KafkaPartitions

        asked = KafkaPartitions(KafkaConnection.from_json(self._options.kafka_secret), "")
        began = time.monotonic()
        for pause_s in RETRY.pauses():
            try:
                return self._answers(asked, which, begun)
            except (MissingTopic, RecordsGone, Unreachable) as error:
                # A leader that was just elected, or a topic that was just made, is known to all brokers a moment later.
                limit_s = CALL_LIMIT_S if isinstance(error, Unreachable) else TOPIC_LIMIT_S
                if time.monotonic() - began > limit_s:
                    raise
            time.sleep(pause_s)
        raise AssertionError("the pauses have no end")

    def _answers(self, asked: KafkaPartitions, which: str, begun: Mapping[Partition, int]) -> dict[Partition, int]:
        topics = self._options.topics.split(",")
        layout = asked.layout(topics)
        there = {*layout.leaders, *layout.leaderless}
        if missing := set(topics) - {topic for topic, _ in there}:
            raise MissingTopic(f"source topic {min(missing)!r} is not there")
        answers = asked.first_offsets(there, layout) if which == "first" else asked.last_stable_offsets(there, layout)
        if answers.failed:
            (topic, number), why = min(answers.failed.items())
            raise Unreachable(f"{topic}-{number} does not say where it ends: {why}")
        for (topic, number), offset in sorted(begun.items()):
            if (end := answers.found.get((topic, number), 0)) < offset:
                raise RecordsGone(
                    f"{topic}-{number} ends at offset {end}, and was read up to {offset}: records are gone, or the topic was "
                    "made again. To go on without them, start with a new checkpoint directory and prefix"
                )
        return answers.found


@functools.cache
def _functions(each: str) -> Any:
    return cloudpickle.loads(base64.b64decode(each)) if each else (None, None)


def _combined(pieces: Iterator[pa.RecordBatch], combine: Callable[[pa.Table], pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield one task's rows, when all of its pieces were read or so many wait."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for rows in pieces:
        waiting.append(rows)
        count += rows.num_rows
        if count > COMBINED_ROWS:
            yield from combine(pa.Table.from_batches(waiting)).to_batches()
            waiting, count = [], 0
    if waiting:
        yield from combine(pa.Table.from_batches(waiting)).to_batches()
