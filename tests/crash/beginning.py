"""The start of a run: its topics, table, workload, readers and pipeline."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from demo.checkpoint_directory import CheckpointDirectory
from demo.readers import LiveReader
from tests.crash.catalogue import Sink
from tests.crash.files import Files
from tests.crash.full_disk import DISK, small_disk
from tests.crash.judge import Record
from tests.crash.processes import CrashPipeline
from tests.crash.run import ADMIN_LIMIT_S, Run
from tests.crash.schedule import Schedule
from tests.crash.servers import Servers
from tests.crash.tables import Table, TableWatch, write_properties
from tests.crash.workload import LARGEST_MESSAGE_BYTES, Workload
from tests.integration.pipeline_process import QUICK_JVM, QUICK_START

ALL_RESTARTS = 1000
TRIMS_LOG = {"decisions_keep_days": 0, "decisions_snapshot_interval_ms": 2_000, "sweep_interval_ms": 3_000}


@contextlib.contextmanager
def running(schedule: Schedule, servers: Servers, directory: Path, given_up: threading.Event) -> Iterator[Run]:
    """Yield a run whose pipeline has been started; at the end of the context all of its processes end."""
    dice = random.Random(f"run {schedule.seed}")
    prefix = f"crash-{schedule.seed}"
    source, sink, words = f"in-{prefix}", f"out-{prefix}", schedule.sink is Sink.COUNTS_IN_MYSQL
    # Never expires, even where other segments do: the final readers need these records.
    kept = {"max.message.bytes": str(LARGEST_MESSAGE_BYTES), "retention.ms": "-1"}
    topics = [NewTopic(source, schedule.partitions, config=kept), NewTopic(sink, 2, config=kept)]
    admin = servers.admin
    for made in admin.create_topics(topics).values():
        made.result(ADMIN_LIMIT_S)
    workload = Workload(
        servers.connection, source, partitions=schedule.partitions, keys=schedule.keys, dice=dice, words=words
    )
    workload.produce(schedule.first_records)
    settings: dict[str, Any] = {
        "job": "word_count" if words else "passthrough",
        "source": source,
        "sink": sink,
        "prefix": prefix,
        "transaction_timeout_ms": schedule.timeout_ms,
        "trigger_interval_ms": schedule.trigger_ms,
        "restart_delay_ms": 300,
        "restart_attempts": ALL_RESTARTS,
        "producer_properties": f"message.max.bytes={LARGEST_MESSAGE_BYTES}",
        # In turns: all partitions in one task, in two tasks or in as many as there are.
        "tasks": (4, 1, 2)[schedule.seed % 3],
        # As many whatever the batch's size, or fewer for a small one.
        "task_records": (1, 50)[schedule.seed // 2 % 2],
        # Two tasks at once; Spark retries a failed task twice, as on a cluster.
        "spark_master": "local[2,3]",
        "spark_properties": QUICK_START,
    }
    if servers.whole is not None:
        quick = {"driver_extraJavaOptions": QUICK_JVM, "executor_extraJavaOptions": QUICK_JVM, "driver_memory": "1g"}
        settings |= servers.whole.pipeline_settings(**quick)
    if schedule.trims_log:
        settings |= TRIMS_LOG
    table = _files(schedule, servers, directory, settings) or _table(schedule, servers, directory, settings)
    disk = directory / DISK
    checkpoint = CheckpointDirectory(schedule.checkpoint_setting(disk / "checkpoint"))
    if servers.whole is not None:
        checkpoint = servers.whole.checkpoint(prefix)
    with contextlib.ExitStack() as stack:
        if any(strike.fault == "disk-full" for strike in schedule.strikes):
            stack.enter_context(small_disk(disk))
        settings["checkpoint"] = checkpoint.setting
        signals: Counter[str] = Counter()
        pipeline = CrashPipeline(servers.connection, directory / "pipeline-0", signals, **settings)
        if servers.whole is not None:
            pipeline.environment = servers.whole.pipeline_environment
        live = LiveReader(servers.bootstrap_servers, sink) if schedule.sink.has_topic else None
        watch = TableWatch(table, _head_reader(workload)) if table else None
        for reader in (live, watch):
            if reader is not None:
                stack.enter_context(reader)
        run = Run(
            schedule=schedule,
            servers=servers,
            directory=directory,
            workload=workload,
            source=source,
            sink=sink,
            table=table,
            live=live,
            watch=watch,
            dice=dice,
            pipeline=pipeline,
            checkpoint=checkpoint,
            given_up=given_up,
            signals=signals,
        )
        pipeline.start()
        stack.callback(lambda: run.pipeline.stop())
        yield run


def _files(schedule: Schedule, servers: Servers, directory: Path, settings: dict[str, Any]) -> Files | None:
    """Name the schedule's directory of files in the pipeline's settings."""
    if not schedule.files:
        return None
    files = Files(directory / f"files-{schedule.seed}", servers.store)
    written = f"files:{files.name}"
    settings["sink"] = f"{settings['sink']},{written}" if schedule.sink.has_topic else written
    if servers.store is not None:
        given = [settings["spark_properties"], *map("=".join, servers.store.spark_properties.items())]
        settings["spark_properties"] = ",".join(given)
    return files


def _table(schedule: Schedule, servers: Servers, directory: Path, settings: dict[str, Any]) -> Table | None:
    """Make the schedule's table, and name it in the pipeline's settings."""
    if servers.database is None:
        return None
    connection = servers.database.connection
    table = Table(connection, settings["prefix"].replace("-", "_"), counts=schedule.sink is Sink.COUNTS_IN_MYSQL)
    table.create()
    write_properties(directory / "database.properties", connection)
    settings["database_properties"] = str(directory / "database.properties")
    written = f"{connection.kind}:{table.name}"
    settings["sink"] = f"{settings['sink']},{written}" if schedule.sink.has_topic else written
    return table


def _head_reader(workload: Workload) -> Callable[[bytes, bytes], Record | bytes]:
    """Return the function that identifies a row during the run by its value's head, which contains key and serial."""

    def record_of(key: bytes, head: bytes) -> Record | bytes:
        name, _, serial = head[:40].rpartition(b":")[0].partition(b":")
        return (key.decode(), int(serial)) if name == key and serial.isdigit() else head

    return record_of
