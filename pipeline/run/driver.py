"""The driver: recover, start the query, sweep now and then, stop in order. Ends with the query, with a code of status_file.py."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from indoubt import pipeline
from indoubt.lifecycle.errors import CheckpointUnwritable, IndoubtError, SettingsError
from indoubt.pipeline.config.settings import ROOT, SPARK_CLASSES, PipelineSettings
from indoubt.pipeline.config.sink_settings import connect, pairs
from indoubt.pipeline.jobs.job import Job, find_job
from indoubt.pipeline.recovery.recovery import Recovered
from indoubt.pipeline.run import spark_home
from indoubt.pipeline.run.arrow_batches import batch_limits
from indoubt.pipeline.run.group_offsets import GroupOffsets, refuse_foreign_group
from indoubt.pipeline.run.sink_run import SinkRun, columns_of, jvm_pid
from indoubt.pipeline.runtime.status_file import FAILED, WRONG_SETTINGS, StatusFile
from indoubt.resource_managers.checkpoint_location import CheckpointLocation

log = logging.getLogger(__name__)

LOCAL_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""Environment variable from which PySpark takes more arguments for spark-submit."""
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {sign: f"\\{sign}" for sign in " =:#!"}
LONGEST_SOCKET_DIRECTORY = 60
"""Bytes. A Unix socket's path has 107 (104 on macOS), and Spark appends 43: a dot, a UUID, ``.sock``."""


def make_spark(settings: PipelineSettings) -> SparkSession:
    """Return the Spark session: Arrow batches, speculation off."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # numpy's linear algebra is not used here, but its idle threads would spin beside every task.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if settings.spark_master.startswith("local"):
        # Spark starts its Python workers with this interpreter, and they import this project.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # Executors may have their Python elsewhere, and reach the driver by the address that Spark finds or is given.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark_home.use()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    properties = {
        "spark.app.name": f"indoubt {settings.prefix}",
        "spark.master": settings.spark_master,
        **_jars(settings.spark_jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        # Batches of seconds care for throughput, not for pauses: the parallel collector costs less than G1 here. Nearly all
        # objects are garbage after a batch of rows: with half of the heap instead of a third it collects half as often.
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:NewRatio=1",
        # Default ones: they stay where a user sets the extra ones.
        "spark.driver.defaultJavaOptions": " ".join(filter(None, [_class_archive(), _temporary_files()])),
        "spark.speculation": "false",
        "spark.sql.shuffle.partitions": str(settings.tasks),
        "spark.sql.session.timeZone": "UTC",
        # Where the source's records are small, arrow_batches.py sets it by their size.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        # Rows reach the Python workers by Unix sockets, in pieces of 1 MB: fewer and cheaper calls than 64 kB over TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.pandas.udf.buffer.size": str(1 << 20),
        "spark.python.daemon.module": f"{pipeline.__name__}.run.python_daemon",
        "spark.log.level": "WARN",
        **checkpoint_writer(settings),
        **pairs(settings.spark_properties),
    }
    with _read_by_spark_submit(properties):
        spark = SparkSession.builder.getOrCreate()
    threading.Thread(target=_start_workers, args=(spark,), name="start-workers", daemon=True).start()
    return spark


def _start_workers(spark: SparkSession) -> None:
    """Have Spark start Python's daemon, which takes 1.5 s, and load what hands rows to it, while the job is planned."""
    # What stops here fails the query, too, which says why.
    with contextlib.suppress(Exception):
        spark.range(1).mapInArrow(lambda rows: rows, "id long").collect()


@contextlib.contextmanager
def _read_by_spark_submit(properties: Mapping[str, str]) -> Iterator[None]:
    """Have a session that is made meanwhile get these properties from a file that only this user can read.

    PySpark puts what the builder is given into the command line of spark-submit and of the JVM, which every user of the
    machine can read, and a property may be the key of an object store.
    """
    given = os.environ.get(SUBMIT_ARGUMENTS)
    with tempfile.NamedTemporaryFile("w", prefix="spark-", suffix=".conf", encoding="utf-8") as file:
        file.write("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items()))
        file.flush()
        # With what spark-defaults.conf says, which a file of ours would replace.
        managed = shlex.join(["--load-spark-defaults", "--properties-file", file.name])
        os.environ[SUBMIT_ARGUMENTS] = f"{managed} {given or 'pyspark-shell'}"
        try:
            yield
        finally:
            if given is None:
                del os.environ[SUBMIT_ARGUMENTS]
            else:
                os.environ[SUBMIT_ARGUMENTS] = given


def _escaped(text: str) -> str:
    """Return a name or value as java.util.Properties reads it back."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def checkpoint_writer(settings: PipelineSettings) -> dict[str, str]:
    """Return the property by which Spark writes the checkpoint's files; none where they are not on this machine.

    Spark's default (Hadoop's FileContext) starts chmod, stat and readlink as programs for each file, about 70 ms for two
    files a batch. This one of Spark's renames as the default does, and starts only chmod. Object stores have their own.
    """
    if not CheckpointLocation.read(settings.checkpoint, pairs(settings.spark_properties)).path:
        return {}
    return {"spark.sql.streaming.checkpointFileManagerClass": LOCAL_FILE_MANAGER}


def _jars(directory: str) -> dict[str, str]:
    """Return the property by which Spark loads more jars. Raises SettingsError when the directory has none."""
    if not directory:
        return {}
    jars = sorted(str(jar) for jar in Path(directory).glob("*.jar"))
    if not jars:
        raise SettingsError(
            f"no jars in spark_jars ({directory}): in a checkout run 'make setup'; else give the directory that has them, or "
            "an empty text for none"
        )
    return {"spark.jars": ",".join(jars)}


def _temporary_files() -> str:
    """Have the JVM keep its temporary files where Python does, which a supervisor clears; Spark's sockets must fit there."""
    directory = tempfile.gettempdir()
    return f'"-Djava.io.tmpdir={directory}"' if len(os.fsencode(directory)) <= LONGEST_SOCKET_DIRECTORY else ""


def _class_archive() -> str:
    # A JVM passes over an archive that is not there or does not fit, and with the log off it does so without a word.
    return f'"-XX:SharedArchiveFile={SPARK_CLASSES}" -Xlog:cds=off,cds+dynamic=off'


class Driver:
    """One run of a pipeline."""

    def __init__(self, settings: PipelineSettings, run_file: str = "", run: str = "") -> None:
        self._settings = settings
        self._run_file = StatusFile(run_file)
        self._job = find_job(settings)
        self._run = SinkRun(settings, settings.job, run)
        self._status = StatusFile(settings.status_file)
        self._stop = threading.Event()

    def run(self) -> int:
        """Run until the query fails or SIGTERM or SIGINT asks to stop; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        # Before the JVM is started, where it can be: a refusal comes at once, what was decided is committed seconds sooner.
        recovered = self._recover(self._job.columns) if self._job.columns is not None else None
        with ThreadPoolExecutor(1) as beside:
            limits = beside.submit(batch_limits, self._settings)
            spark = make_spark(self._settings)
            for name, value in limits.result().items():
                spark.conf.set(name, value)
        if recovered is not None:
            # Before Spark plans the job, which takes seconds: a person who ordered a restart waits for this.
            self._report_start(recovered, spark)
        rows = self._job.rows(spark)
        if recovered is None:
            recovered = self._recover(columns_of(rows))
            self._report_start(recovered, spark)
        offsets = GroupOffsets(connect(self._settings), self._settings.prefix)
        follow_progress(spark, offsets.note)
        try:
            _check_columns(rows, self._job)
            code = self._run.watch(
                self._run.start(
                    rows,
                    updates=self._job.updates,
                    finds_sources=self._settings.is_own_job,
                ),
                self._stop.is_set,
            )
            # Tells its listeners of the last batch before it returns.
            spark.stop()
        finally:
            offsets.close()
        return code

    def _report_start(self, recovered: Recovered, spark: SparkSession) -> None:
        # The file first: who hears of the start reads there which run it is.
        self._status.update(
            state="running",
            driver_pid=os.getpid(),
            jvm_pid=jvm_pid(spark),
            attempt=recovered.attempt,
            checkpoint_id=recovered.identity.checkpoint_id,
        )
        self._run.report_start()

    def _recover(self, columns: Sequence[tuple[str, pa.DataType]]) -> Recovered:
        # Before the run stands in the log: what is refused ends no other run.
        refuse_foreign_group(connect(self._settings), self._settings.prefix)
        recovered = self._run.recover(columns, [self._settings.source] if self._settings.source else [])
        # From now on the supervisor knows which orders are meant for this run.
        self._run_file.update(
            prefix=self._settings.prefix, checkpoint_id=recovered.identity.checkpoint_id, attempt=recovered.attempt
        )
        return recovered


def _check_columns(rows: DataFrame, job: Job) -> None:
    if job.columns is not None and columns_of(rows) != list(job.columns):
        raise SettingsError(
            f"the job's rows have the columns {columns_of(rows)}, and the sinks were asked whether they take "
            f"{list(job.columns)}: mend its entry in pipeline/jobs/job.py"
        )


def run_driver(settings: PipelineSettings, run_file: str = "", run: str = "") -> int:
    """Run one driver; turn errors into a line and an exit code. ``run_file``: where it writes which run it is."""
    try:
        return Driver(settings, run_file, run).run()
    except (SettingsError, CheckpointUnwritable) as error:
        log.error("%s", error)
        return WRONG_SETTINGS
    except IndoubtError as error:
        log.error("%s: %s", type(error).__name__, error)
        return FAILED


def follow_progress(spark: SparkSession, note: Callable[[Mapping[str, Any]], None]) -> None:
    """Have ``note`` called with the progress of each batch of any query, in the order of the batches.

    pyspark's own listener makes Python objects of it by a hundred calls, some of which search every jar for a class: 50 ms
    of the JVM's processor time a batch, just when readers get what the batch committed. The JSON is one call.
    """
    gateway: Any = SparkContext._gateway
    ensure_callback_server_started(gateway)
    streaming = gateway.jvm.org.apache.spark.sql.streaming
    spark.streams._jsqm.addListener(streaming.PythonStreamingQueryListenerWrapper(_Listener(note)))


class _Listener:
    """The Java interface PythonStreamingQueryListener."""

    def __init__(self, note: Callable[[Mapping[str, Any]], None]) -> None:
        self._note = note

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Hand it over."""
        self._note(json.loads(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do."""

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
