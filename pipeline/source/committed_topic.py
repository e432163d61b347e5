"""The source: topics as a stream of keys and values, read_committed, a Spark Python data source whose rows stay Arrow.

Spark asks one process beside the driver where a batch ends, and has the executors' Python workers read it. A job may have each
piece of rows changed where it is read, in Arrow columns, before Spark makes rows of them.

What reads and asks is imported where it does: two more processes of each start load this module, to plan a batch.
"""

from __future__ import annotations

import base64
import functools
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import MissingTopic, RecordsGone, Unreachable
from indoubt.pipeline.source.batch_offsets import bounded, by_partition, by_topic, divided
from indoubt.resource_managers.kafka.connection import CALL_LIMIT_S, TOPIC_LIMIT_S, KafkaConnection

if TYPE_CHECKING:
    import pyarrow as pa

    from indoubt.resource_managers.kafka.partitions import KafkaPartitions, Partition
    from indoubt.resource_managers.kafka.reading.offset_range import OffsetRange

RECORD = "key binary, value binary"
EARLIEST = "earliest"
COMBINED_ROWS = 1_000_000
"""So many of a task's rows wait at most until they are combined."""
RETRY = Backoff(first_s=0.05, max_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """What becomes of each piece of the records: ``change`` takes ``key`` and ``value``, and returns the columns of ``schema``.

    ``schema`` is a DDL string. A piece has records of one partition, in order; where pieces begin differs from run to run.
    ``combine``: makes fewer rows (same columns) of those of one task, or of a million of them at a time.
    """

    change: Callable[[pa.RecordBatch], pa.RecordBatch]
    schema: str
    combine: Callable[[pa.Table], pa.Table] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """Options of ``format("committed_topic")``, which ``read_topics`` sets."""

    topics: str
    kafka_secret: str
    starting_offsets: str
    max_offsets_per_trigger: int
    tasks: int
    task_records: int
    each: str = ""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> TopicOptions:
        """Return the options as Spark hands them over."""
        given = {field.name: options[field.name] for field in fields(cls) if field.name in options}
        numbers = {name: int(given[name]) for name in ("max_offsets_per_trigger", "tasks", "task_records")}
        return cls(**{**given, **numbers})  # type: ignore[arg-type]


def read_topics(
    spark: SparkSession,
    connection: KafkaConnection,
    topics: Sequence[str],
    *,
    max_offsets_per_trigger: int,
    tasks: int,
    task_records: int,
    starting_offsets: str = EARLIEST,
    each: Each | None = None,
) -> DataFrame:
    """Return the topics as a stream of ``key`` and ``value`` (binary), or of what ``each`` makes of them.

    A batch has a task for each ``task_records``, up to ``tasks`` and to its partitions. Only committed records; one that is
    gone before it was read fails the query (RecordsGone), as does a topic that is not there (MissingTopic) or a partition that
    does not answer for 60 s (Unreachable).
    """
    spark.dataSource.register(CommittedTopic)
    options = TopicOptions(
        topics=",".join(topics),
        kafka_secret=connection.to_json(),
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        tasks=tasks,
        task_records=task_records,
        each=base64.b64encode(cloudpickle.dumps((each.change, each.combine))).decode() if each else "",
    )
    reader = spark.readStream.format(CommittedTopic.name()).schema(each.schema if each else RECORD)
    return reader.options(**{name: str(value) for name, value in asdict(options).items()}).load()


class CommittedTopic(DataSource):
    """Registered with ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "committed_topic"

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
