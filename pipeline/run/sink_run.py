"""One run of the sink: recover, start the query, keep its transactions in order while it runs, sweep when it has ended.

The driver of ``indoubt pipeline`` and ``start`` of pipeline.spark, which any job may call, both do it by this class.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import StatusTracker
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from indoubt import pipeline
from indoubt.lifecycle.errors import CheckpointUnwritable, IndoubtError, ResourceManagerError, SettingsError
from indoubt.lifecycle.events import STOPPED_ON_REQUEST, EventType
from indoubt.pipeline.checkpoints.checkpoint_directory import TopicIds
from indoubt.pipeline.config.settings import crash_points_directory
from indoubt.pipeline.config.sink_settings import REACH_LIMIT_S, SinkSettings, connect, connect_databases
from indoubt.pipeline.recovery.recovery import Recovered, Recovery
from indoubt.pipeline.run.source_topics import SourceTopics
from indoubt.pipeline.runtime.crash_points import CrashPoints
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.pipeline.runtime.status_file import FAILED, STOPPED, SUPERSEDED, WRONG_SETTINGS
from indoubt.pipeline.sink.data_source import TwoPhaseCommitSink, write_updates

log = logging.getLogger(__name__)

EVENT_LIMIT_S = 5.0
TASKS_END_LIMIT_S = 5.0
"""How long the last sweep waits for tasks that were killed with the query: less than a supervisor waits for the driver."""
ALIVE_S = 10.0
"""How often the event pipeline.alive is sent: a query without input gives no other sign."""
REPORTED = ("transaction_timeout_ms", "restart_delay_ms", "sink", "source", "delivery_guarantee")
"""Settings that the event of a start carries under their own names, as far as the job has them."""


def columns_of(rows: DataFrame) -> list[tuple[str, pa.DataType]]:
    """Return the columns (name, Arrow type) as they reach the sink."""
    return [(field.name, field.type) for field in to_arrow_schema(rows.schema)]


class SinkRun:
    """For one query. ``job`` names it in events; ``run`` is its id in the decision log, made here unless given."""

    def __init__(self, settings: SinkSettings, job: str, run: str = "") -> None:
        self._settings, self._job, self._run = settings, job, run
        self._connection = connect(settings)
        steps = CrashPoints(directory=crash_points_directory())
        self._recovery = Recovery(settings, self._connection, connect_databases(settings), steps)
        self._recovered: Recovered | None = None
        self._source_ids: Callable[[], TopicIds] = dict
        """Asks for the ids of the topics that are read."""
        self._found: SourceTopics | None = None
        self._tracker: StatusTracker | None = None

    def recover(self, columns: Sequence[tuple[str, pa.DataType]], topics: Collection[str] = ()) -> Recovered:
        """Settle what earlier runs left and start a new one in the log, once the sinks take ``columns``.

        ``topics``, which it reads, must exist. Raises what Recovery.verify and recover raise, MissingTopic, Unreachable.
        """
        self._connection.reach(REACH_LIMIT_S)
        if self._settings.lifecycle_topic:
            self._connection.ensure_topic(self._settings.lifecycle_topic)
        self._connection.require_topics(list(topics))
        self._recovery.verify(columns)
        self._source_ids = partial(self._ids_of, topics)
        self._recovered = recovered = self._recovery.recover(self._run, self._source_ids())
        log.warning(
            "run %d of %s: %d committed, %d lost, %d rolled back by recovery",
            recovered.attempt,
            self._settings.prefix,
            recovered.committed,
            recovered.lost,
            recovered.rolled_back,
        )
        return recovered

    def report_start(self) -> None:
        """Send the event that the pipeline runs, after ``recover``."""
        self._sender().pipeline(EventType.PIPELINE_STARTED, self._job, settings=self._reported())

    def start(
        self,
        rows: DataFrame,
        *,
        updates: bool,
        finds_sources: bool = True,
        trigger: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start the query that writes ``rows``, after ``recover``; ``updates``: in Spark's update mode.

        ``finds_sources``: what is read stands in ``rows`` alone; its topics are asked for before the query starts. ``trigger``
        is what DataStreamWriter.trigger takes; none: the setting trigger_interval_ms. Raises SettingsError for a source topic
        that is another one than before.
        """
        assert self._recovered is not None, "recover() comes first"
        if finds_sources:
            self._found = SourceTopics(rows)
            self._source_ids = self._found.ids
            try:
                self._recovery.require_unchanged(self._source_ids())
            except IndoubtError as error:
                self._report_end(_first_line(str(error)))
                raise
        spark = rows.sparkSession
        self._tracker = spark.sparkContext.statusTracker()
        spark.dataSource.register(TwoPhaseCommitSink)
        options = self._recovery.options(self._recovered).to_spark()
        if crash_points_directory():
            pids = f"{os.getpid()} {jvm_pid(spark)}"
            options |= {"crash_points": crash_points_directory(), "driver_pids": pids}
        every = {"processingTime": f"{self._settings.trigger_interval_ms} milliseconds"}
        writer = (
            rows.writeStream.option("checkpointLocation", self._recovered.checkpoint)
            .queryName(self._settings.prefix)
            .trigger(**(trigger or every))
        )
        if updates:
            return writer.outputMode("update").foreachBatch(write_updates(options)).start()
        return writer.format(TwoPhaseCommitSink.name()).options(**options).start()

    def watch(self, query: StreamingQuery, should_stop: Callable[[], bool]) -> int:
        """Sweep now and then until the query has ended, or stop it when asked to; return an exit code."""
        code, reason = self._watch(query, should_stop)
        self._report_end(reason)
        return code

    def _report_end(self, reason: str) -> None:
        if self._found is not None:
            self._found.close()
        events = self._sender()
        events.pipeline(EventType.PIPELINE_STOPPED, self._job, reason=reason)
        events.flush(EVENT_LIMIT_S)

    def _ids_of(self, topics: Collection[str]) -> TopicIds:
        return {topic: [id_] for topic, id_ in self._connection.topic_ids(topics).items() if id_}

    def _watch(self, query: StreamingQuery, should_stop: Callable[[], bool]) -> tuple[int, str]:
        assert self._recovered is not None, "recover() comes first"
        recovery, attempt = self._recovery, self._recovered.attempt
        try:
            recovery.keep_log_short(attempt)
            next_sweep, next_alive = self._next_sweep(), 0.0
            events = self._sender()
            while not should_stop() and not query.awaitTermination(0.5):
                if time.monotonic() >= next_alive:
                    events.pipeline(EventType.PIPELINE_ALIVE, self._job)
                    next_alive = time.monotonic() + ALIVE_S
                if time.monotonic() >= next_sweep:
                    self._require_unchanged()
                    self._sweep(lambda: recovery.sweep_unused(attempt))
                    recovery.keep_log_short(attempt)
                    next_sweep = self._next_sweep()
            query.stop()
            self._await_tasks(query)
        except (StreamingQueryException, SettingsError) as error:
            query.stop()
            self._await_tasks(query)
            newer = recovery.superseded_by(attempt)
            if newer is not None:
                log.error(
                    "stopped: run %s of prefix %r started after this one with the same prefix or checkpoint directory, so "
                    "nothing that this run decides counts. If both are to write the same rows, only one of them may run; if not, "
                    "give each its own prefix and checkpoint directory",
                    newer.run,
                    newer.prefix,
                )
                return SUPERSEDED, "a newer run of the same prefix or checkpoint directory started"
            log.error("the query failed: %s", error)
            self._sweep(recovery.sweep)
            return WRONG_SETTINGS if isinstance(error, SettingsError) else FAILED, _first_line(str(error))
        self._sweep(recovery.sweep)
        return STOPPED, STOPPED_ON_REQUEST

    def _await_tasks(self, query: StreamingQuery) -> None:
        """Wait until the tasks of its last job are over: one that was killed may still be opening a transaction."""
        assert self._tracker is not None, "start() comes first"
        limit = time.monotonic() + TASKS_END_LIMIT_S
        try:
            while running := tasks_of(self._tracker, query):
                if time.monotonic() > limit:
                    log.warning("%d tasks of the last batch did not end in %.0f s", running, TASKS_END_LIMIT_S)
                    return
                time.sleep(0.05)
        except Py4JError as error:
            # The session was stopped, and its tasks with it.
            log.info("Spark does not say which tasks run: %s", _first_line(str(error)))

    def _next_sweep(self) -> float:
        return time.monotonic() + self._settings.sweep_interval_ms / 1000

    def _sweep(self, roll_back: Callable[[], int]) -> None:
        """Roll back what no run will decide; readers would wait for its timeout. What fails now, the next start does."""
        try:
            roll_back()
        except IndoubtError as error:
            log.warning("open transactions stay until the next start or their timeout: %s", error)

    def _require_unchanged(self) -> None:
        """Return while what is read and written is what this run started with. Raises SettingsError."""
        try:
            self._recovery.require_unchanged(self._source_ids())
        except (ResourceManagerError, CheckpointUnwritable) as error:
            log.warning("it is not known now whether topics and checkpoint directory are the same: %s", error)

    def _sender(self) -> EventSender:
        assert self._recovered is not None, "recover() comes first"
        return self._recovery.events(self._recovered.attempt)

    def _reported(self) -> dict[str, object]:
        return {
            "interval_ms": self._settings.trigger_interval_ms,
            "checkpoint_directory": self._settings.checkpoint,
            "alive_ms": round(ALIVE_S * 1000),
            **{name: getattr(self._settings, name) for name in REPORTED if hasattr(self._settings, name)},
        }


def tasks_of(tracker: StatusTracker, query: StreamingQuery) -> int:
    """Return how many tasks of the last job of a query run, also after the job itself was cancelled."""
    jobs = tracker.getJobIdsForGroup(str(query.runId))
    job = tracker.getJobInfo(max(jobs)) if jobs else None
    stages = (tracker.getStageInfo(stage) for stage in (job.stageIds if job else ()))
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def jvm_pid(spark: Any) -> int:
    """Return the process id of the driver's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def _first_line(text: str) -> str:
    """Return the line of a Python worker's trace that names the error, or the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    managed = (f"{IndoubtError.__module__}.", f"{pipeline.__name__}.")
    named = [line for line in lines if line.startswith(managed)]
    return (named or lines or ["unknown"])[0][:500]
