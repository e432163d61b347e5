"""The jobs: what is read, what is computed, what columns reach the sink. One of your own is MODULE:FUNCTION."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.config.sink_settings import KAFKA, connect, read_sinks
from indoubt.pipeline.jobs.ip_count import COUNTS, ip_count
from indoubt.pipeline.source.topic_options import Each, read_topics

LONGEST = 255
"""Characters: what an indexed VARCHAR column takes everywhere."""
SPARKS_SOURCE = "kafka"
ISOLATION, READ_COMMITTED = "kafka.isolation.level", "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is written, and its columns (name, Arrow type); None: only the rows themselves say.

    ``updates``: rows replace earlier rows of the same key (Spark's update mode), else each row is a new one.
    """

    rows: Callable[[SparkSession], DataFrame]
    columns: tuple[tuple[str, pa.DataType], ...] | None
    updates: bool = False


def read_source(spark: SparkSession, settings: PipelineSettings, each: Each | None = None) -> DataFrame:
    """Return the source topic as a stream, with what ``each`` makes of its records."""
    return read_topics(
        spark,
        connect(settings),
        [settings.source],
        max_offsets_per_trigger=settings.max_offsets_per_trigger,
        tasks=settings.tasks,
        task_records=settings.task_records,
        starting_offsets=settings.starting_offsets,
        each=each,
    )


def passthrough(source: DataFrame) -> DataFrame:
    """Return key and value as they came."""
    return source


def word_count(source: DataFrame, *, records: bool) -> DataFrame:
    """Running count per word; in each batch a row for every word that was seen in it, with its count so far.

    Input: value is text. Words are what stands between characters that are no letter, digit or '_' in any script, in
    lower case. Output: word (string), count (int64); with ``records`` also key (the word) and value (JSON with word and
    count), for a topic. A word longer than 255 characters is left out and counted (observed metric ``too_long``): cut, it
    would be counted as another word, and failing would stop the pipeline for one bad word.

    Counts are absolute, so that a row may be written over; rows come partitioned by word, so that two slots never touch
    the same row and wait for each other's prepared locks. The key column of a table must tell apart what Spark tells
    apart: in MySQL and MariaDB give it a binary collation (``collate utf8mb4_bin``), else ``cafe`` and ``café`` share a row.
    """
    words = source.select(F.explode(F.split(F.lower(F.col("value").cast("string")), r"(?U)\W+")).alias("word"))
    counted = (
        words.where("word != ''")
        .observe("too_long", F.count_if(F.length("word") > LONGEST).alias("rows"))
        .where(F.length("word") <= LONGEST)
        .groupBy("word")
        .agg(F.count("*").alias("count"))
    )
    if not records:
        return counted.select("word", "count")
    value = F.to_json(F.struct("word", "count"))
    return counted.select("word", "count", F.col("word").alias("key"), value.alias("value"))


def import_job(name: str) -> Callable[[SparkSession, PipelineSettings], DataFrame]:
    """Return the function, which takes the session, and the settings too if it has a second parameter.

    Raises SettingsError when module or function are not there, and when it is called, unless it returns a stream.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _cannot_import(name, module_name, error) from error
        raise SettingsError(
            f"job {name!r}: there is no module {error.name!r}: start in its folder, or name the folder in PYTHONPATH"
        ) from None
    except Exception as error:
        raise _cannot_import(name, module_name, error) from error
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        functions = inspect.getmembers(module, inspect.isfunction)
        own = [key for key, value in functions if value.__module__ == module_name and not key.startswith("_")]
        raise SettingsError(
            f"job {name!r}: module {module_name!r} has no function {function_name!r}; it has: {', '.join(own) or 'none'}"
        )
    return lambda spark, settings: _rows(name, function, spark, settings)


def _rows(name: str, function: Any, spark: SparkSession, settings: PipelineSettings) -> DataFrame:
    takes_settings = len(inspect.signature(function).parameters) > 1
    rows = function(spark, settings) if takes_settings else function(spark)
    if not isinstance(rows, DataFrame) or not rows.isStreaming:
        what = "rows that are no stream" if isinstance(rows, DataFrame) else f"a {type(rows).__name__}"
        raise SettingsError(f"job {name!r} returned {what}: return a DataFrame that is read with spark.readStream")
    check_isolation(rows)
    return rows


def check_isolation(rows: DataFrame) -> None:
    """Return when no stream of Spark's Kafka source that ``rows`` are made of shows records of aborted or open transactions.

    It shows them by default, and nobody can set another default for a session. Raises SettingsError.
    """
    for options in options_of(rows, SPARKS_SOURCE):
        if options.get(ISOLATION) != READ_COMMITTED:
            topics = [options.get(name) for name in ("subscribe", "subscribepattern", "assign")]
            raise SettingsError(
                f"the rows come from a Kafka source ({next(filter(None, topics), 'unknown topics')}) that shows records of "
                "aborted and open transactions, which would be written as if they were committed: read it with "
                f'indoubt.spark.read, or add .option("{ISOLATION}", "{READ_COMMITTED}") to its spark.readStream'
            )


def options_of(rows: DataFrame, source: str) -> list[dict[str, str]]:
    """Return the options of each stream of a source (its name for ``format``) that ``rows`` are made of, names in lower case."""
    leaves: Any = rows._jdf.queryExecution().analyzed().collectLeaves()
    found = []
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == source:
            found.append({str(name).lower(): str(value) for name, value in dict(leaf.extraOptions()).items()})
    return found


def _cannot_import(job: str, module: str, error: Exception) -> SettingsError:
    return SettingsError(f"job {job!r}: module {module!r} cannot be imported: {type(error).__name__}: {error}")


RECORD = (("key", pa.string()), ("value", pa.string()))
BINARY_RECORD = (("key", pa.binary()), ("value", pa.binary()))

JOBS = ("ip_count", "passthrough", "word_count")


def find_job(settings: PipelineSettings) -> Job:
    """Return the job as the sinks need it. Raises SettingsError that lists the jobs, or says what a job of your own lacks."""

    def of_source(
        compute: Callable[[DataFrame], DataFrame], each: Each | None = None
    ) -> Callable[[SparkSession], DataFrame]:
        return lambda spark: compute(read_source(spark, settings, each))

    match settings.job:
        case "ip_count":
            return Job(rows=of_source(ip_count, COUNTS), columns=RECORD)
        case "passthrough":
            return Job(rows=of_source(passthrough), columns=BINARY_RECORD)
        case "word_count":
            records = any(sink.resource_manager == KAFKA for sink in read_sinks(settings.sink))
            columns = (("word", pa.string()), ("count", pa.int64()), *(RECORD if records else ()))
            return Job(rows=of_source(partial(word_count, records=records)), columns=columns, updates=True)
        case name if settings.is_own_job:
            function = import_job(name)
            return Job(rows=lambda spark: function(spark, settings), columns=None, updates=settings.updates)
        case name:
            raise SettingsError(f"job is {name!r}; it takes one of: {', '.join(JOBS)}, or MODULE:FUNCTION of your own")
