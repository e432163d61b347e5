"""One task's part of one batch: rows in, prepared branches out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.pipeline.runtime.timeout_watch import TimeoutWatch, report_timeout_near
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.resource_managers.fingerprint import RunningFingerprint
from indoubt.resource_managers.global_transaction import GlobalTransaction
from indoubt.resource_managers.protocol import SlotAttempt

EARLY_BYTES = 32 << 20
"""How much may wait in memory while the slot's id is being taken."""


@dataclass(slots=True)
class SlotMessage(WriterCommitMessage):
    """What one task reports to the coordinator: the handles it prepared, none when its rows need no transaction."""

    handles: tuple[Handle, ...]
    fingerprint: str
    rows: int
    bytes: int
    started_at_ms: int
    timeout_reported: frozenset[str] = frozenset()
    """Keys of the transactions that were warned of while the task wrote."""


class SlotWriter:
    """Writes the rows of one slot of one batch, as guarantee and replay ask for."""

    def __init__(self, options: SinkOptions, *, slot: int, batch: int) -> None:
        self._options, self._slot, self._batch = options, slot, batch
        self._started_at_ms = now_ms()
        plan = options.plan
        self._plan = plan if plan and plan.batch == batch else None
        self._managers = options.resource_managers()
        self._fingerprint = RunningFingerprint()
        self._steps = options.steps()
        self._events = options.events()
        self._watch = TimeoutWatch(
            lambda handle, age_ms: report_timeout_near(self._events, handle, batch, age_ms),
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        """Drain the rows (state and watermark need it) and do with them what guarantee and replay ask for."""
        if self._slot == 0:
            self._events.checkpoint(EventType.CHECKPOINT_STARTED, self._batch)
        if self._options.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return self._send_without_transaction(batches)
        if self._plan is not None and not self._plan.incomplete:
            return self._compare_only(batches)
        return self._prepare(batches)

    def _prepare(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        self._steps.reach(CrashPoint.BEFORE_BEGIN)
        open_, early = self._begin(batches)
        try:
            for handle in open_.provisional_handle:
                self._events.transaction(EventType.TRANSACTION_OPENED, handle, self._batch)
            for rows in chain(early, batches):
                # Before they are written: that may wait for room, and they would have left the processor's cache.
                self._fingerprint.add_batch(rows)
                open_.write(rows)
                if rows.num_rows and not self._watch.started:
                    self._watch.start(open_.provisional_handle)
                self._steps.reach(CrashPoint.WHILE_WRITING)
            if self._plan is not None:
                open_.skip(self._plan.skipped(str(self._fingerprint.value)))
            handles = open_.prepare(self._fingerprint.value, flushed=lambda: self._steps.reach(CrashPoint.AFTER_FLUSH))
        except BaseException:
            open_.abort()
            raise
        finally:
            self._watch.stop()
        self._steps.reach(CrashPoint.SLOT_PREPARED)
        for handle in handles:
            self._events.transaction(EventType.TRANSACTION_PREPARED, handle, self._batch, handle=handle.to_json())
        return self._message(handles)

    def _begin(self, batches: Iterator[pa.RecordBatch]) -> tuple[GlobalTransaction, list[pa.RecordBatch]]:
        """Return the open branches and the rows that arrived meanwhile.

        Taking an id is mostly waiting for answers (70 ms and more), and so is the source's first fetch: at the same time.
        In a replay only those resource managers are begun in which something is missing.
        """
        marker = Marker(batch=self._batch, attempt=self._options.attempt, checkpoint_id=self._options.checkpoint_id)
        slot = SlotAttempt(
            prefix=self._options.prefix,
            slot=self._slot,
            marker=marker,
            decided=frozenset(self._plan.attempts if self._plan is not None else ()),
            decisions=self._options.decisions_topic,
        )
        names = self._plan.incomplete if self._plan is not None else None
        early: list[pa.RecordBatch] = []
        with ThreadPoolExecutor(1, thread_name_prefix="begin") as pool:
            begun = pool.submit(self._managers.begin, slot, names)
            while not begun.done() and sum(rows.nbytes for rows in early) < EARLY_BYTES:
                rows = next(batches, None)
                if rows is None:
                    break
                early.append(rows)
            return begun.result(), early

    def _compare_only(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        for rows in batches:
            self._fingerprint.add_batch(rows)
        assert self._plan is not None
        self._plan.skipped(str(self._fingerprint.value))
        return self._message(())

    def _message(self, handles: tuple[Handle, ...]) -> SlotMessage:
        fingerprint = self._fingerprint.value
        size = sum(handle.bytes for handle in handles)
        reported = self._watch.reported
        return SlotMessage(handles, str(fingerprint), fingerprint.rows, size, self._started_at_ms, reported)

    def _send_without_transaction(self, batches: Iterator[pa.RecordBatch]) -> SlotMessage:
        self._steps.reach(CrashPoint.BEFORE_BEGIN)
        writer = self._managers.begin_without_transaction(self._options.guarantee)
        try:
            for rows in batches:
                writer.write(rows)
                self._steps.reach(CrashPoint.WHILE_WRITING)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        self._steps.reach(CrashPoint.AFTER_FLUSH)
        return SlotMessage((), "", writer.rows, writer.bytes, self._started_at_ms)
