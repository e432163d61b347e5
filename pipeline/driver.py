"""The driver: recover, start the query, sweep now and then, stop in order. Ends when the query ends, with one of exit_codes.py."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from lifecycle.errors import CheckpointUnwritable, IndoubtError, SettingsError
from lifecycle.events import STOPPED_ON_REQUEST, EventType
from pipeline import spark_home
from pipeline.connections import check_cluster, connect, connect_databases
from pipeline.event_sender import EventSender
from pipeline.exit_codes import FAILED, OVERTAKEN, STOPPED, WRONG_SETTINGS
from pipeline.group_offsets import GroupOffsets
from pipeline.jobs import Job, find_job, read_source
from pipeline.recovery import Recovered, Recovery
from pipeline.settings import ROOT, PipelineSettings, crash_points_directory, pairs
from pipeline.sink import TwoPhaseCommitSink, write_updates
from pipeline.sinks import read_sinks
from pipeline.status_file import StatusFile

log = logging.getLogger("pipeline")

LONGEST_SOCKET_DIRECTORY = 60
"""Bytes. A Unix socket's path has 107 (104 on macOS), and Spark appends 43: a dot, a UUID, ``.sock``."""


def make_spark(settings: PipelineSettings) -> SparkSession:
    """Return the Spark session: Kafka source, Arrow batches, speculation off."""
    # Spark starts its Python workers with this interpreter, and they import this project.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # numpy's linear algebra is not used here, but its idle threads would spin beside every task.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark_home.use()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    jars = sorted(str(jar) for jar in Path(settings.spark_jars).glob("*.jar"))
    if not jars:
        raise SettingsError(f"no jars in spark_jars ({settings.spark_jars}): run 'make setup'")
    builder = SparkSession.builder.appName(f"indoubt {settings.prefix}").master(settings.spark_master)
    properties = {
        "spark.jars": ",".join(jars),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # Batches of seconds care for throughput, not for pauses: the parallel collector costs less than G1 here.
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        # Default ones: they stay where a user sets the extra ones.
        "spark.driver.defaultJavaOptions": f"{_class_archive(settings.spark_classes)} {_temporary_files()}".strip(),
        "spark.speculation": "false",
        "spark.sql.shuffle.partitions": str(settings.tasks),
        "spark.sql.session.timeZone": "UTC",
        # 10,000 rows of 100 bytes stay in the processor's cache on their way from the JVM through Python to librdkafka.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        # Rows reach the Python workers by Unix sockets, in pieces of 1 MB: fewer and cheaper calls than 64 kB over TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.pandas.udf.buffer.size": str(1 << 20),
        "spark.python.daemon.module": "pipeline.python_daemon",
        "spark.log.level": "WARN",
        **pairs(settings.spark_properties),
    }
    for name, value in properties.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _temporary_files() -> str:
    """Have the JVM keep its temporary files where Python does, which a supervisor clears; Spark's sockets must fit there."""
    directory = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={directory}"' if len(os.fsencode(directory)) <= LONGEST_SOCKET_DIRECTORY else ""


def _class_archive(path: str) -> str:
    # A JVM passes over an archive that is not there or does not fit, and with the log off it does so without a word.
    return f'"-XX:SharedArchiveFile={path}" -Xlog:cds=off,cds+dynamic=off' if path else ""


class Driver:
    """One run of a pipeline."""

    def __init__(self, settings: PipelineSettings, run_file: str = "") -> None:
        self._settings = settings
        self._run_file = StatusFile(run_file)
        self._job = find_job(settings.job, [sink.resource_manager for sink in read_sinks(settings.sink)])
        self._connection = connect(settings)
        self._databases = connect_databases(settings)
        self._status = StatusFile(settings.status_file)
        self._stop = threading.Event()

    def run(self) -> int:
        """Run until the query fails or SIGTERM or SIGINT asks to stop; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        check_cluster(self._settings, self._connection)
        recovery = Recovery(self._settings, self._connection, self._databases)
        recovery.verify(self._job.columns)
        # A checkpoint directory that cannot be written is found out before the JVM is started for it.
        recovered = recovery.recover()
        # From now on the supervisor knows which orders are meant for this run.
        self._run_file.update(prefix=self._settings.prefix, life=recovered.life.life, attempt=recovered.attempt)
        log.warning(
            "run %d of %s: %d committed, %d lost, %d rolled back by recovery",
            recovered.attempt,
            self._settings.prefix,
            recovered.committed,
            recovered.lost,
            recovered.rolled_back,
        )
        spark = make_spark(self._settings)
        jvm_pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        self._status.update(
            state="running",
            driver_pid=os.getpid(),
            jvm_pid=jvm_pid,
            attempt=recovered.attempt,
            life=recovered.life.life,
        )
        events = self._sender(recovered)
        events.pipeline(EventType.PIPELINE_STARTED, self._settings.job, settings=self._told())
        offsets = GroupOffsets(self._connection, self._settings.prefix)
        spark.streams.addListener(offsets)
        try:
            query = self._start(spark, recovery, recovered, jvm_pid)
            code, reason = self._watch(query, recovery, recovered)
            events.pipeline(EventType.PIPELINE_STOPPED, self._settings.job, reason=reason)
            events.flush(5.0)
            # Tells its listeners of the last batch before it returns.
            spark.stop()
        finally:
            offsets.close()
        return code

    def _sender(self, recovered: Recovered) -> EventSender:
        return EventSender(
            self._connection,
            self._settings.lifecycle_topic,
            pipeline=self._settings.prefix,
            life=recovered.life.life,
            attempt=recovered.attempt,
        )

    def _told(self) -> dict[str, object]:
        told = ("transaction_timeout_ms", "restart_delay_ms", "sink", "source", "delivery_guarantee")
        return {
            "interval_ms": self._settings.trigger_interval_ms,
            "checkpoint_directory": self._settings.checkpoint,
            **{name: getattr(self._settings, name) for name in told},
        }

    def _start(self, spark: SparkSession, recovery: Recovery, recovered: Recovered, jvm_pid: int) -> StreamingQuery:
        spark.dataSource.register(TwoPhaseCommitSink)
        options = recovery.options(recovered).to_spark()
        if crash_points_directory():
            options |= {"crash_points": crash_points_directory(), "driver_pids": f"{os.getpid()} {jvm_pid}"}
        rows = self._job.compute(read_source(spark, self._settings, self._connection))
        _check_columns(rows, self._job)
        writer = (
            rows.writeStream.option("checkpointLocation", self._settings.checkpoint)
            .queryName(self._settings.prefix)
            .trigger(processingTime=f"{self._settings.trigger_interval_ms} milliseconds")
        )
        if self._job.updates:
            return writer.outputMode("update").foreachBatch(write_updates(options)).start()
        return writer.format(TwoPhaseCommitSink.name()).options(**options).start()

    def _watch(self, query: StreamingQuery, recovery: Recovery, recovered: Recovered) -> tuple[int, str]:
        try:
            next_sweep = time.monotonic() + self._settings.sweep_interval_ms / 1000
            while not self._stop.is_set():
                if query.awaitTermination(0.5):
                    return FAILED, "the query ended by itself"
                if time.monotonic() >= next_sweep:
                    self._sweep(lambda: recovery.sweep_unused(recovered.attempt))
                    next_sweep = time.monotonic() + self._settings.sweep_interval_ms / 1000
        except StreamingQueryException as error:
            newer = recovery.overtaken_by(recovered.attempt)
            if newer is not None:
                log.error(
                    "stopped: run %s of the same prefix %r started after this one, so nothing that this run decides counts. "
                    "Give each pipeline its own prefix and checkpoint directory",
                    newer.run,
                    self._settings.prefix,
                )
                return OVERTAKEN, "a newer run of the same prefix started"
            log.error("the query failed: %s", error)
            self._sweep(recovery.sweep)
            return FAILED, _first_line(str(error))
        query.stop()
        self._sweep(recovery.sweep)
        return STOPPED, STOPPED_ON_REQUEST

    def _sweep(self, roll_back: Callable[[], int]) -> None:
        """Roll back what nobody will decide; readers would wait for its timeout. What fails now, the next start does."""
        try:
            roll_back()
        except IndoubtError as error:
            log.warning("open transactions stay until the next start or their timeout: %s", error)


def _check_columns(rows: DataFrame, job: Job) -> None:
    found = [(field.name, field.type) for field in to_arrow_schema(rows.schema)]
    if found != list(job.columns):
        raise SettingsError(
            f"the job's rows have the columns {found}, and the sinks were asked whether they take {list(job.columns)}: "
            "mend its entry in pipeline/jobs.py"
        )


def _first_line(text: str) -> str:
    """Return the line of a Python worker's trace that names the error, or the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("lifecycle.errors.", "pipeline."))]
    return (named or lines or ["unknown"])[0][:500]


def run_driver(settings: PipelineSettings, run_file: str = "") -> int:
    """Run one driver; turn errors into a line and an exit code. ``run_file``: where it writes which run it is."""
    try:
        return Driver(settings, run_file).run()
    except (SettingsError, CheckpointUnwritable) as error:
        log.error("%s", error)
        return WRONG_SETTINGS
    except IndoubtError as error:
        log.error("%s: %s", type(error).__name__, error)
        return FAILED
