"""The sink: ``df.writeStream.format("two_phase_commit")``, a Spark Python data source whose rows stay Arrow.

Spark calls ``write`` on executors, one task a slot, and ``commit`` / ``abort`` in a worker process beside the driver
(pyspark.sql.datasource says which method runs where). Nothing is recovered here: ``streamWriter`` runs once a batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lifecycle.events import EventType
from lifecycle.guarantees import DeliveryGuarantee
from lifecycle.identity import Handle, Marker
from pipeline.coordinator import Coordinator
from pipeline.crash_points import CrashPoint
from pipeline.event_sender import EventSender
from pipeline.replay import SlotAction
from pipeline.sink_options import SinkOptions
from resource_managers.fingerprint import RunningFingerprint
from resource_managers.protocol import OpenTransaction, SlotAttempt

BATCH_ID_PROPERTY = "streaming.sql.batchId"
EARLY_BYTES = 32 << 20
"""How much may wait in memory while the slot's id is being taken."""


@dataclass(slots=True)
class SlotMessage(WriterCommitMessage):
    """What one task tells the coordinator: the handle it prepared, or None when its rows need no transaction."""

    handle: Handle | None
    fingerprint: str
    rows: int
    bytes: int
    started_at_ms: int


class TwoPhaseCommitSink(DataSource):
    """Registered with ``spark.dataSource.register``; a topic takes the columns ``key`` (optional) and ``value``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "two_phase_commit"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    def streamWriter(self, schema: StructType, overwrite: bool) -> TwoPhaseCommitWriter:
        """Return the writer of one batch. Raises SettingsError for wrong options."""
        return TwoPhaseCommitWriter(SinkOptions.read(self.options))


class TwoPhaseCommitWriter(DataSourceStreamArrowWriter):
    """One batch: tasks write and prepare, the coordinator decides and commits."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SlotMessage:
        """Write one slot's rows and prepare them (on an executor)."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("two_phase_commit writes inside Spark tasks only")
        batch = int(context.getLocalProperty(BATCH_ID_PROPERTY) or -1)
        return SlotWriter(self._options, slot=context.partitionId(), batch=batch).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Decide and commit the batch (beside the driver). Raises the first error after every handle was tried."""
        Coordinator(self._options).commit(_slots(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Roll the batch back unless it was decided to be committed: Spark calls this after a failed commit, too."""
        Coordinator(self._options).abort(_slots(messages), batchId)


def _slots(messages: list[WriterCommitMessage | None]) -> list[SlotMessage]:
    return [message for message in messages if isinstance(message, SlotMessage)]


class SlotWriter:
    """One task's part of one batch."""

    def __init__(self, options: SinkOptions, *, slot: int, batch: int) -> None:
        self._options, self._slot, self._batch = options, slot, batch
        self._started_at_ms = time.time_ns() // 1_000_000
        plan = options.plan
        self._plan = plan if plan and plan.batch == batch else None
        self._fingerprint = RunningFingerprint()
        self._crash_points = options.armed_points()
        self._events = EventSender(
            options.kafka(),
            options.lifecycle_topic,
            pipeline=options.prefix,
            life=options.life,
            attempt=options.attempt,
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        """Drain the rows (state and watermark need it) and do with them what guarantee and replay ask for."""
        if self._slot == 0:
            self._events.checkpoint(EventType.CHECKPOINT_STARTED, self._batch)
        if self._options.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return self._send_without_transaction(batches)
        if self._plan is not None and not self._plan.missing:
            return self._compare_only(batches)
        return self._prepare(batches)

    def _prepare(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        self._crash_points.reach(CrashPoint.BEFORE_BEGIN)
        open_, early = self._begin(batches)
        try:
            self._events.transaction(EventType.TRANSACTION_OPENED, open_.so_far, self._batch)
            for rows in chain(early, batches):
                open_.write(rows)
                self._fingerprint.add_batch(rows)
                self._crash_points.reach(CrashPoint.WHILE_WRITING)
            if self._plan is not None and self._plan.action(str(self._fingerprint.value)) is SlotAction.SKIP:
                return self._skip(open_)
            handle = open_.prepare(self._fingerprint.value, flushed=self._flushed)
        except BaseException:
            open_.abort()
            raise
        self._crash_points.reach(CrashPoint.SLOT_PREPARED)
        self._events.transaction(EventType.TRANSACTION_PREPARED, handle, self._batch, handle=handle.to_json())
        return SlotMessage(handle, handle.fingerprint, handle.rows, handle.bytes, self._started_at_ms)

    def _flushed(self) -> None:
        self._crash_points.reach(CrashPoint.AFTER_FLUSH)

    def _begin(self, batches: Iterator[pa.RecordBatch]) -> tuple[OpenTransaction, list[pa.RecordBatch]]:
        """Return the open transaction and the rows that arrived meanwhile.

        Taking an id is mostly waiting for answers (70 ms and more), and so is the source's first fetch: at the same time.
        """
        marker = Marker(batch=self._batch, attempt=self._options.attempt, life=self._options.life)
        slot = SlotAttempt(prefix=self._options.prefix, slot=self._slot, marker=marker)
        early: list[pa.RecordBatch] = []
        with ThreadPoolExecutor(1, thread_name_prefix="begin") as pool:
            begun = pool.submit(self._options.resource_manager().begin, slot)
            while not begun.done() and sum(rows.nbytes for rows in early) < EARLY_BYTES:
                rows = next(batches, None)
                if rows is None:
                    break
                early.append(rows)
            return begun.result(), early

    def _skip(self, open_: OpenTransaction) -> SlotMessage:
        open_.abort()
        return self._without_handle()

    def _compare_only(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        for rows in batches:
            self._fingerprint.add_batch(rows)
        assert self._plan is not None
        self._plan.action(str(self._fingerprint.value))
        return self._without_handle()

    def _without_handle(self) -> SlotMessage:
        fingerprint = self._fingerprint.value
        return SlotMessage(None, str(fingerprint), fingerprint.rows, 0, self._started_at_ms)

    def _send_without_transaction(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        self._crash_points.reach(CrashPoint.BEFORE_BEGIN)
        writer = self._options.resource_manager().begin_without_transaction(self._options.guarantee)
        try:
            for rows in batches:
                writer.write(rows)
                self._crash_points.reach(CrashPoint.WHILE_WRITING)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        self._crash_points.reach(CrashPoint.AFTER_FLUSH)
        return SlotMessage(None, "", writer.rows, writer.bytes, self._started_at_ms)
