"""A Spark query in a process of its own: it takes the source topic once, from start to end, into a sink, batch by batch.

``python -m benchmarks.spark_run '<JSON of SparkRun>'`` prints Spark's report of all batches as one JSON line. Each run has its
own process, as with Flink, so that no run profits from another run's compiled code, caches or heap.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks import flink, spark_jobs
from benchmarks.cpu import CpuWatcher, Sample
from benchmarks.figures import Mark
from benchmarks.null_sink import NullSink
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.pipeline.config.settings import TASK_RECORDS, PipelineSettings
from indoubt.pipeline.config.sink_settings import connect_databases
from indoubt.pipeline.jobs.job import find_job
from indoubt.pipeline.recovery.recovery import Recovery
from indoubt.pipeline.run.arrow_batches import batch_limits
from indoubt.pipeline.run.driver import follow_progress, make_spark
from indoubt.pipeline.run.group_offsets import GroupOffsets
from indoubt.pipeline.run.sink_run import columns_of
from indoubt.pipeline.sink.data_source import TwoPhaseCommitSink, write_updates
from indoubt.resource_managers.kafka.connection import KafkaConnection

ROOT = Path(__file__).resolve().parent.parent
SPARK, NULL = "spark", "null"
GUARANTEES = tuple(guarantee.value for guarantee in DeliveryGuarantee)
RUN_LIMIT_S = 600.0
ANSWER = "batches: "
TUNED = {
    "kafka.acks": "all",
    "kafka.linger.ms": "100",
    "kafka.batch.size": str(1 << 20),
    "kafka.buffer.memory": str(128 << 20),
}
"""Spark's own sink gets the settings of indoubt's sink: long lingering, large batches, room for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch as Spark reports it. Times are epoch seconds; ``durations_ms`` has Spark's own names."""

    number: int
    started_s: float
    ended_s: float
    rows: int
    durations_ms: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run's batches and its processor time."""

    batches: list[Batch]
    cpu: list[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun:
    """A run: ``side`` is a delivery guarantee of indoubt's sink, ``spark`` for Spark's own Kafka sink, or ``null``."""

    side: str
    bootstrap_servers: str
    source: str
    sink: str
    checkpoint: str
    batch_records: int
    prefix: str = "bench"
    job: str = "passthrough"
    tasks: int = flink.PARALLELISM
    task_records: int = TASK_RECORDS
    spark_properties: str = ""
    database_properties: str = ""

    def run(self, others: dict[str, int] | None = None) -> Ran:
        """Run it in a process of its own. Raises RuntimeError if it failed.

        ``others``: processes (name: id) whose processor time is sampled with its own.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_run", json.dumps(dataclasses.asdict(self))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        with process, CpuWatcher(process.pid, others or {}) as cpu:
            try:
                out, errors = process.communicate(timeout=RUN_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        answers = [line.removeprefix(ANSWER) for line in out.splitlines() if line.startswith(ANSWER)]
        if process.returncode != 0 or not answers:
            raise RuntimeError(f"{self.side} ended with code {process.returncode}:\n{errors[-4000:]}")
        return Ran(batches=[Batch(**fields) for fields in json.loads(answers[-1])], cpu=cpu.samples)

    def settings(self) -> PipelineSettings:
        """Return the settings of the pipeline for this run."""
        return PipelineSettings(
            job=self.job,
            tasks=self.tasks,
            task_records=self.task_records,
            bootstrap_servers=self.bootstrap_servers,
            checkpoint=self.checkpoint,
            prefix=self.prefix,
            source=self.source,
            sink=self.sink,
            max_offsets_per_trigger=self.batch_records,
            delivery_guarantee=self.side if self.side in GUARANTEES else DeliveryGuarantee.EXACTLY_ONCE.value,
            spark_properties=self.spark_properties,
            database_properties=self.database_properties,
        )


def marks(batches: Sequence[Batch]) -> list[Mark]:
    """Return the marks: time and number of rows at the end of each batch."""
    found, rows = [], 0
    for batch in batches:
        rows += batch.rows
        found.append(Mark(at_s=batch.ended_s, records=rows))
    return found


def read_progress(progress: dict[str, Any]) -> Batch:
    """Return the batch of a StreamingQueryProgress (its JSON as a dict)."""
    started_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
    durations_ms = {name: int(value) for name, value in progress["durationMs"].items()}
    return Batch(
        number=int(progress["batchId"]),
        started_s=started_s,
        ended_s=started_s + durations_ms["triggerExecution"] / 1000,
        rows=_rows(progress),
        durations_ms=durations_ms,
    )


def _rows(progress: Mapping[str, Any]) -> int:
    """Return how many records a batch has, by its offsets: Spark counts what a job makes of records where they are read."""

    def end(offsets: Mapping[str, Mapping[str, int]] | None) -> int:
        return sum(offset for partitions in (offsets or {}).values() for offset in partitions.values())

    return sum(end(source["endOffset"]) - end(source["startOffset"]) for source in progress["sources"])


def _writer(run: SparkRun, spark: SparkSession, connection: KafkaConnection) -> DataStreamWriter:
    settings = run.settings()
    if run.side == SPARK:
        return (
            spark_jobs.rows(spark, settings)
            .writeStream.format("kafka")
            .options(**TUNED, **{"kafka.bootstrap.servers": run.bootstrap_servers}, topic=run.sink)
        )
    job = find_job(settings)
    rows = job.rows(spark)
    if run.side == NULL:
        spark.dataSource.register(NullSink)
        return rows.writeStream.format(NullSink.name())
    recovery = Recovery(settings, connection, connect_databases(settings))
    recovery.verify(columns_of(rows))
    options = recovery.options(recovery.recover()).to_spark()
    spark.dataSource.register(TwoPhaseCommitSink)
    follow_progress(spark, GroupOffsets(connection, settings.prefix).note)
    if job.updates:
        return rows.writeStream.outputMode("update").foreachBatch(write_updates(options))
    return rows.writeStream.format(TwoPhaseCommitSink.name()).options(**options)


def main() -> int:
    """Run the query that the argument describes."""
    run = SparkRun(**json.loads(sys.argv[1]))
    connection = KafkaConnection(run.bootstrap_servers)
    spark = make_spark(run.settings())
    for name, value in batch_limits(run.settings()).items():  # as a pipeline's driver does
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    query = (
        _writer(run, spark, connection).option("checkpointLocation", run.checkpoint).trigger(availableNow=True).start()
    )
    if not query.awaitTermination(int(RUN_LIMIT_S)):
        raise TimeoutError(f"{run.side} did not end in {RUN_LIMIT_S:.0f} s")
    batches = [read_progress(json.loads(progress.json)) for progress in query.recentProgress]
    print(ANSWER + json.dumps([dataclasses.asdict(batch) for batch in batches if batch.rows]), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
