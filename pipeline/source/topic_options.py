"""The source: topics as a stream of keys and values, read_committed, and what a job makes of them where they are read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "committed_topic"
"""What Spark knows the source by."""
RECORD = "key binary, value binary"
EARLIEST = "earliest"


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
    does not answer for 60 s (Unreachable). Raises SettingsError before Spark 4.2.
    """
    try:
        from indoubt.pipeline.source.committed_topic import CommittedTopic
    except ImportError:
        raise SettingsError(
            f"Spark {spark.version} has no limit for what a Python source reads at once, which needs 4.2: read with Spark's own "
            "Kafka source, and kafka.isolation.level=read_committed"
        ) from None
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
    reader = spark.readStream.format(NAME).schema(each.schema if each else RECORD)
    return reader.options(**{name: str(value) for name, value in asdict(options).items()}).load()
