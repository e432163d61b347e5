"""In a job of your own: ``indoubt.spark.read(spark, …)`` reads topics, ``indoubt.spark.start(rows, …)`` starts the sink's query.

docs/sink.md shows it in use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.pipeline.config.settings import TASK_RECORDS, check_reading
from indoubt.pipeline.config.sink_settings import APPEND, UPDATE, SinkSettings, check_output_mode
from indoubt.pipeline.jobs.job import check_isolation
from indoubt.pipeline.run.sink_run import SinkRun, columns_of
from indoubt.pipeline.source.topic_options import EARLIEST, Each, read_topics
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

SWEEP_LIMIT_S = 120.0
"""How long a start waits for the last sweep of an ended query with the same prefix or checkpoint directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A query that was started here, and the thread that keeps its transactions in order."""

    prefix: str
    checkpoint: str
    query: StreamingQuery
    keeper: threading.Thread


_started: list[_Started] = []


def read(
    spark: SparkSession,
    topics: str,
    *,
    bootstrap: str,
    max_offsets_per_trigger: int = 1_000_000,
    tasks: int = 2,
    task_records: int = TASK_RECORDS,
    starting_offsets: str = EARLIEST,
    kafka_properties: str = "",
    each: Each | None = None,
) -> DataFrame:
    """Return topics (comma separated) as a stream of ``key`` and ``value`` (binary): committed records, and none left out.

    ``bootstrap``: host:port of the brokers. ``max_offsets_per_trigger``: records in a batch at most, which has a task for each
    ``task_records``, up to ``tasks`` and to its partitions. ``starting_offsets``: where a new query begins, earliest or latest.
    ``kafka_properties``: file of librdkafka properties (key=value lines) with security settings. ``each``: changes the records
    where they are read, a piece at a time. Raises SettingsError; pipeline/source/topic_options.py says what fails the query.
    """
    check_reading(starting_offsets, max_offsets_per_trigger, tasks, task_records)
    names = [name for topic in topics.split(",") if (name := topic.strip())]
    if not names:
        raise SettingsError("topics is empty: name the topics to read, comma separated")
    connection = (
        KafkaConnection.from_properties_file(Path(kafka_properties), bootstrap)
        if kafka_properties
        else KafkaConnection(bootstrap)
    )
    return read_topics(
        spark,
        connection,
        names,
        max_offsets_per_trigger=max_offsets_per_trigger,
        tasks=tasks,
        task_records=task_records,
        starting_offsets=starting_offsets,
        each=each,
    )


def start(
    rows: DataFrame,
    *,
    sink: str,
    bootstrap: str,
    checkpoint: str,
    prefix: str,
    output_mode: str = APPEND,
    trigger: Mapping[str, Any] | None = None,
    **settings: Any,
) -> StreamingQuery:
    """Start the streaming query that writes ``rows`` exactly once to ``sink``; return it, as writeStream.start() does.

    ``sink``: a topic, ``mysql:TABLE``, ``postgres:TABLE`` or ``files:DIRECTORY``, several comma separated. ``bootstrap``: brokers.
    ``checkpoint``: the query's checkpoint directory. ``prefix``: the name of its transactions, one query each. ``trigger``:
    what DataStreamWriter.trigger takes. ``settings``: others of docs/settings.md that concern the sink.

    What an earlier run left is settled first. A thread sweeps while the query runs and once it has ended. When the program's
    main thread ends, the query is stopped in order. Raises SettingsError that says what is wrong and what to do,
    CheckpointUnwritable, Unreachable, MissingTopic, and ResourceManagerError when something decided could not be settled.
    """
    if is_remote():
        raise SettingsError(
            "this session is one of Spark Connect: start the job with a classic one (spark.remote unset)"
        )
    if not rows.isStreaming:
        raise SettingsError("these rows are no stream: read them with indoubt.spark.read or spark.readStream")
    check_isolation(rows)
    check_output_mode(output_mode)
    read = SinkSettings.read(
        {
            "sink": sink,
            "bootstrap_servers": bootstrap,
            "checkpoint": checkpoint,
            "prefix": prefix,
            "spark_properties": _spark_properties(rows),
            **settings,
        }
    )
    location = CheckpointLocation.read(checkpoint).uri
    _refuse_in_use(prefix, location)
    run = SinkRun(read, job=rows.sparkSession.sparkContext.appName)
    run.recover(columns_of(rows))
    run.report_start()
    query = run.start(rows, updates=output_mode == UPDATE, trigger=trigger)
    keeper = threading.Thread(target=_keep, args=(run, query), name=f"indoubt {prefix}")
    keeper.start()
    _started.append(_Started(prefix=prefix, checkpoint=location, query=query, keeper=keeper))
    return query


def _keep(run: SinkRun, query: StreamingQuery) -> None:
    # No daemon: the interpreter waits for this thread, whose last sweep needs Spark and the brokers.
    main_thread = threading.main_thread()
    try:
        run.watch(query, lambda: not main_thread.is_alive())
    except IndoubtError as error:
        log.error("open transactions stay until the next start or their timeout: %s", error)


def _refuse_in_use(prefix: str, checkpoint: str) -> None:
    """Return when no query of this program has this prefix or directory. Raises SettingsError."""
    for other in _started:
        if other.query.isActive and prefix == other.prefix:
            raise SettingsError(
                f"prefix {prefix!r} is in use by query {other.query.id} of this program: give each query a prefix of its "
                "own, or stop that one first"
            )
        if other.query.isActive and checkpoint == other.checkpoint:
            raise SettingsError(
                f"checkpoint directory {checkpoint} is in use by the query with prefix {other.prefix!r} of this program: "
                "give each query a directory of its own, or stop that one first"
            )
    for other in [other for other in _started if not other.query.isActive]:
        if other.keeper.is_alive() and (prefix == other.prefix or checkpoint == other.checkpoint):
            # Its last sweep ends first.
            other.keeper.join(SWEEP_LIMIT_S)
            if other.keeper.is_alive():
                raise SettingsError(
                    f"the query with prefix {other.prefix!r} has ended, and its last sweep has not in {SWEEP_LIMIT_S:.0f} s: see "
                    "the log for what cannot be reached, then start again"
                )
        if not other.keeper.is_alive():
            _started.remove(other)


def _spark_properties(rows: DataFrame) -> str:
    """Return what the settings must know of the session: how to reach an object store, and speculation."""
    known = rows.sparkSession.sparkContext.getConf().getAll()
    needed = [(name, value) for name, value in known if name.startswith(("spark.hadoop.fs.s3a.", "spark.speculation"))]
    return ",".join(f"{name}={value}" for name, value in needed if "," not in value)
