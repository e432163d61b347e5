"""A run of a pipeline without Spark: its recovery, its slots and its coordinator, called by hand and in any order.

All three are the pipeline's own, on real resource managers; only Spark, which calls them, is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import TransactionListing
from kafka.errors import RetriableError
from pyarrow import fs

from demo.database_server import DatabaseServer
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import BatchAttempt
from indoubt.lifecycle.errors import DecisionVoid
from indoubt.lifecycle.identity import Handle, TransactionalId
from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.config.sink_settings import connect_databases
from indoubt.pipeline.recovery.recovery import Recovered, Recovery
from indoubt.pipeline.runtime.crash_points import CrashPoint, CrashPoints
from indoubt.pipeline.sink.coordinator import Coordinator
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.pipeline.sink.slot_writer import SlotMessage, SlotWriter
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.global_transaction import ResourceManagers
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import wait_until
from tests.integration.three_sinks import VALUES, Sinks, make_sinks

LIMIT_S = 30.0
COLUMNS = (("value", pa.binary()),)


class Stopped(Exception):
    """Raised where a test lets the driver stop for ever."""


def rows(*values: bytes) -> pa.RecordBatch:
    """Return rows of the job passthrough, without keys."""
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def at(patch: pytest.MonkeyPatch, point: CrashPoint, deed: Callable[[], Any]) -> None:
    """Do something at a named step of the protocol, wherever it is reached in this process next."""

    def reach(_: CrashPoints, reached: CrashPoint) -> None:
        if reached is point:
            patch.undo()
            deed()

    patch.setattr(CrashPoints, "reach", reach)


def stop_at(patch: pytest.MonkeyPatch, point: CrashPoint) -> None:
    """Let the driver do nothing more once it gets there: ``Stopped`` is raised."""

    def stop() -> None:
        raise Stopped

    at(patch, point, stop)


@dataclass
class ProtocolRun:
    """One run: ``recover`` first, as a supervisor does, then slots and decisions."""

    settings: PipelineSettings
    recovery: Recovery
    recovered: Recovered
    options: SinkOptions

    @property
    def managers(self) -> ResourceManagers:
        """Return the resource managers of the sink."""
        return self.options.resource_managers()

    def batch_attempt(self, batch: int = 0) -> BatchAttempt:
        """Return what a decision of this run on a batch is about."""
        return BatchAttempt(checkpoint_id=self.options.checkpoint_id, batch=batch, attempt=self.options.attempt)

    def slot(self, slot: int, *values: bytes, batch: int = 0) -> SlotMessage:
        """Write and prepare one slot of a batch that Spark has planned, as its task does."""
        for planned in range(max(0, batch - 1), batch + 1):
            write_number(self.settings.checkpoint, "offsets", planned)
        return SlotWriter(self.options, slot=slot, batch=batch).write(iter([rows(*values)] if values else []))

    def commit(self, *messages: SlotMessage, batch: int = 0) -> None:
        """Decide and commit, as Spark asks for when every task has answered."""
        Coordinator(self.options).commit(messages, batch)

    def abort(self, *messages: SlotMessage, batch: int = 0) -> None:
        """Abort, as Spark asks for when a task failed, and when ``commit`` raised."""
        Coordinator(self.options).abort(messages, batch)

    def roll_back(self, *handles: Handle) -> None:
        """Abort prepared transactions behind the protocol's back, as a timeout or a stranger does."""
        self.managers.rollback(handles, LIMIT_S)


@dataclass
class ProtocolSinks:
    """Where the runs of one test write, and what an independent reader finds there."""

    sinks: Sinks
    names: tuple[str, ...]
    directory: Path

    @property
    def prefix(self) -> str:
        """Return the transactional id prefix, which no other test has."""
        return self.sinks.name

    @property
    def connection(self) -> KafkaConnection:
        """Return how to reach the broker."""
        return self.sinks.connection

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint directory of a run that was told no other."""
        return self.directory / "checkpoint"

    def pipeline_settings(self, **changes: Any) -> PipelineSettings:
        """Return the settings of a run with these changed."""
        given = {"job": "passthrough", "bootstrap_servers": self.connection.bootstrap_servers}
        given |= {"checkpoint": str(self.checkpoint), "lifecycle_topic": ""}
        return PipelineSettings.read({**given, **self.sinks.settings(*self.names), **changes})

    def recovery(self, **changes: Any) -> Recovery:
        """Return the recovery of a run with these settings changed."""
        settings = self.pipeline_settings(**changes)
        databases = connect_databases(settings) if self.sinks.databases else {}
        recovery = Recovery(settings, self.connection, databases)
        recovery.verify(COLUMNS)
        self._settings = settings
        return recovery

    def run(self, **changes: Any) -> ProtocolRun:
        """Start a run: recover, and return it with its options."""
        recovery = self.recovery(**changes)
        recovered = recovery.recover()
        return ProtocolRun(self._settings, recovery, recovered, recovery.options(recovered))

    def ledger(self) -> DecisionLedger:
        """Return the decision log as it stands now."""
        log = DecisionLog(self.connection)
        try:
            return log.read_to_end()
        finally:
            log.close()

    def seen(self) -> Counter[bytes]:
        """Return the rows that are visible; with several sinks they must be the same in all."""
        found = {name: self.sinks.in_topic() if name == "kafka" else self.sinks.in_table(name) for name in self.names}
        first = found[self.names[0]]
        assert all(seen == first for seen in found.values()), found
        return first

    def expect(self, *values: bytes, pending: int) -> None:
        """Wait for so many pending transactions and so many visible rows, then compare each row's count."""
        try:
            wait_until(f"{pending} pending transactions of {self.prefix}", lambda: self.pending() == pending, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; at the broker: {self.ids()}") from error
        found = wait_until(
            f"{len(values)} visible rows",
            lambda: [seen for seen in [self.seen()] if seen.total() >= len(values)],
            LIMIT_S,
        )
        assert found == [Counter(values)]

    def pending(self) -> int:
        """Return how many transactions of this prefix are open or prepared, asked of the servers themselves."""
        databases = [name for name in self.names if name != "kafka"]
        return len(self.open_ids()) + sum(self.sinks.prepared(name) for name in databases)

    def open_ids(self) -> list[str]:
        """Return the transactional ids of this prefix that are in a transaction at the broker."""
        return [id_ for id_, state in self.ids().items() if state not in ("Empty", "CompleteCommit", "CompleteAbort")]

    def ids(self) -> dict[str, str]:
        """Return every transactional id of this prefix that the broker lists (ListTransactions), with its state."""
        # A broker that was restarted is away for a moment for a client that knew it before.
        (listed,) = wait_until("the broker to list its transactions", self._listed, LIMIT_S)
        parsed = {one.transactional_id: TransactionalId.parse(one.transactional_id) for one in listed}
        mine = {id_ for id_, found in parsed.items() if found is not None and found.prefix == self.prefix}
        return {one.transactional_id: one.state.value for one in listed if one.transactional_id in mine}

    def _listed(self) -> tuple[list[TransactionListing]] | None:
        try:
            return ([listing for found in _admin(self.connection).list_transactions().values() for listing in found],)
        except RetriableError:
            return None


def protocol_sinks(
    connection: KafkaConnection, directory: Path, servers: Sequence[DatabaseServer], names: Iterable[str]
) -> ProtocolSinks:
    """Make topics and tables that no other test uses; ``names`` are the resource managers to write to."""
    sinks = make_sinks(connection, directory, servers, VALUES)
    admin = AdminClient(connection.for_librdkafka())
    # A broker hears of a new topic a moment after it was made.
    wait_until(f"topic {sinks.topic}", lambda: sinks.topic in admin.list_topics(timeout=LIMIT_S).topics, LIMIT_S)
    return ProtocolSinks(sinks, tuple(names), directory)


@cache
def _admin(connection: KafkaConnection) -> KafkaAdminClient:
    return KafkaAdminClient(**connection.for_kafka_python())


SPARK_FILES = {
    "offsets": b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795000005000,"conf":{}}\n{"in":{"0":1}}',
    "commits": b'v1\n{"nextBatchWatermarkMs":0}',
}
"""What Spark writes into a file of its two logs."""


def spark_checkpoint(directory: Path | str, *, planned: int, committed: int) -> None:
    """Make the files by which Spark says how far it got: batches up to ``planned``, finished up to ``committed``, none beyond."""
    filesystem, path = CheckpointLocation.read(str(directory)).filesystem()
    for folder, last in (("offsets", planned), ("commits", committed)):
        there = filesystem.get_file_info(fs.FileSelector(f"{path}/{folder}", allow_not_found=True))
        for file in there:
            if int(file.base_name) > last:
                filesystem.delete_file(file.path)
        for batch in range(last + 1):
            write_number(directory, folder, batch)


def write_number(directory: Path | str, folder: str, batch: int) -> None:
    """Write a file of one of Spark's two logs, wherever the checkpoint directory lies."""
    filesystem, path = CheckpointLocation.read(str(directory)).filesystem()
    if isinstance(filesystem, fs.LocalFileSystem):
        filesystem.create_dir(f"{path}/{folder}")
    with filesystem.open_output_stream(f"{path}/{folder}/{batch}") as stream:
        stream.write(SPARK_FILES[folder])


def finish(sinks: ProtocolSinks, run: ProtocolRun, value: bytes, batch: int, directory: Path | None = None) -> None:
    """Write a batch of one row, to its end in Spark's commit log."""
    run.commit(run.slot(0, value, batch=batch), batch=batch)
    spark_checkpoint(directory or sinks.checkpoint, planned=batch, committed=batch)


def superseded(run: ProtocolRun, value: bytes, batch: int) -> None:
    """Let a run that may not decide any more try to; Spark then has it abort."""
    message = run.slot(0, value, batch=batch)
    with pytest.raises(DecisionVoid):
        run.commit(message, batch=batch)
    run.abort(message, batch=batch)
