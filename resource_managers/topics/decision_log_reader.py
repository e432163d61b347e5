"""Reads the decision log in its order, from its first record or from a snapshot, and goes on where it was."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decision_parts import RecordAssembly
from indoubt.lifecycle.decisions import Snapshot
from indoubt.lifecycle.errors import DecisionLogUnreadable, MalformedRecord, UnknownVersion
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log_topic import SETTLING_S, DecisionLogTopic

log = logging.getLogger(__name__)

READ_LIMIT_S = 30.0
"""How long a reader waits for the next record that is there."""
ANOTHER_AFTER_S = 5.0
"""How long it waits before another consumer reads on: librdkafka may have ceased to read (stalled_partitions.py)."""
SNAPSHOT_HEADER = ("type", b"snapshot")
"""Header of each record of a snapshot, so that it is found without reading what lies between."""
SHORT_LOG = 5_000
"""Records that are read faster than a snapshot is looked for."""
FIRST_STEP_MS = 10 * 60_000
FURTHER_BACK = 8
"""Snapshots are looked for in the log's last ten minutes, then in eight times as much, and so on."""
MAX_RESTARTS = 3


class _HeadCut(Exception):
    """The record that is read next was deleted meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedEntry:
    """A record of the log that is none of this protocol: it is passed over, and shown."""

    offset: int
    error: str


class DecisionLogReader:
    """Folds the log into a ledger. For one thread at a time."""

    def __init__(self, connection: KafkaConnection, topic: DecisionLogTopic) -> None:
        self._connection, self._topic = connection, topic
        self._consumer: Consumer | None = None
        self._assembly = RecordAssembly()
        self._next: int | None = None
        self._lost = ""
        self._identity: tuple[int, int] | None = None
        self.ledger = DecisionLedger()
        self.malformed: list[MalformedEntry] = []
        self.snapshot: Snapshot | None = None
        """The newest snapshot that was read, or that reading began with."""

    @property
    def begin(self) -> int:
        """Return where a reader must begin that starts with what the ledger says now."""
        return self._assembly.begin(self.ledger.next_offset)

    def read_to(self, offset: int) -> DecisionLedger:
        """Return the ledger of the log up to and with ``offset``, not beyond. Raises DecisionLogUnreadable."""
        self._require_whole()
        for _ in range(MAX_RESTARTS):
            try:
                if self._next is None:
                    self._start(offset)
                self._read_on(offset)
                # Behind what was read: then all of it is of the topic that was read first.
                self._require_same_topic()
                return self.ledger
            except _HeadCut:
                log.warning("%s was cut before the place that was read: begun again at a snapshot", self._topic.name)
                self._next = None
            except BaseException:
                # Records that were fetched and not folded would be missing in the ledger: they are fetched again.
                self.close()
                raise
        raise DecisionLogUnreadable(f"{self._topic.name!r} is cut faster than it is read")

    def read_to_end(self) -> DecisionLedger:
        """Return the ledger of the whole log as it stands now. Raises DecisionLogUnreadable."""
        self._require_whole()
        if self._next is None:
            self._topic.require()
        first, end = self._ends_from(self._next or 0)
        return self.read_to(end - 1) if end > first or first > 0 else self.ledger

    def require_new(self, offset: int) -> None:
        """Return when a record that was just appended stands behind all that was read. Raises DecisionLogUnreadable."""
        if self._next is not None and offset < self._next:
            raise self._lost_its_end(offset, self._next)

    def _require_whole(self) -> None:
        if self._lost:
            raise DecisionLogUnreadable(self._lost)

    def _require_same_topic(self) -> None:
        """Return when the topic is the one that was read first. Raises DecisionLogUnreadable."""
        found = self._topic.identity()
        if self._identity is None:
            self._identity = found
        if found != self._identity:
            self._lost = (
                f"{self._topic.name!r} was recreated while it was read: what it said before is gone, so it is unknown what was "
                "decided. Stop what runs, and compare the sinks with their input"
            )
            raise DecisionLogUnreadable(self._lost)

    def _lost_its_end(self, end: int, read_to: int) -> DecisionLogUnreadable:
        """Return what is said of a log that ends before what was read of it; from now on this is said of it always."""
        self._lost = (
            f"{self._topic.name!r} ends at {end}, and it was read to {read_to} before: it lost its end, or was recreated, so "
            "it is unknown what was decided. Stop what runs, and compare the sinks with their input"
        )
        return DecisionLogUnreadable(self._lost)

    def _ends_from(self, least: int) -> tuple[int, int]:
        """Return first and end of the log, which ends nowhere below ``least``. Raises DecisionLogUnreadable."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            first, end = self._topic.ends()
            if end >= least:
                return first, end
            if time.monotonic() > deadline:
                raise self._lost_its_end(end, least)
            time.sleep(0.05)

    def close(self) -> None:
        """End the connection; the next read opens it again."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _start(self, last: int) -> None:
        """Find where to begin so that the ledger says what counts up to ``last``. Raises DecisionLogUnreadable."""
        self._topic.require()
        self.close()
        self._require_same_topic()
        first, end = self._topic.ends()
        found = self._find_snapshot(first, end, last) if first > 0 or end > SHORT_LOG else None
        if found is None and first > 0:
            raise DecisionLogUnreadable(
                f"the records of {self._topic.name!r} before offset {first} are gone, and no snapshot stands for them: nobody "
                "can tell what they decided, so nothing is decided, committed or rolled back. Find out what deleted them "
                "(retention.ms, retention.bytes, DeleteRecords) and end it, bring them back from a copy if there is one, and "
                "compare the sinks with their input"
            )
        self._assembly, self.malformed, self.snapshot = RecordAssembly(), [], found
        self.ledger = DecisionLedger.of_snapshot(found) if found else DecisionLedger()
        self._next = found.begin if found else 0

    def _read_on(self, offset: int) -> None:
        assert self._next is not None
        if self._next > offset:
            return
        came_s = opened_s = time.monotonic()
        while self._next <= offset:
            now_s = time.monotonic()
            if now_s - came_s > READ_LIMIT_S:
                raise DecisionLogUnreadable(
                    f"{self._topic.name!r} was read to {self._next}, not to {offset}: nothing came for {READ_LIMIT_S:.0f} s"
                )
            if now_s - max(came_s, opened_s) > ANOTHER_AFTER_S:
                self.close()
                opened_s = now_s
            for message in self._reader(self._next).consume(min(1000, offset + 1 - self._next), 0.05):
                self._fold(message)
                came_s = time.monotonic()

    def _reader(self, offset: int) -> Consumer:
        if self._consumer is None:
            # A fetch at the log's end waits for the next record as long as a broker lets it: with a short wait, this would ask a
            # hundred times a second between two batches.
            self._consumer = self._consume(offset, fetch_wait_ms=500)
        return self._consumer

    def _consume(self, offset: int, fetch_wait_ms: int) -> Consumer:
        settings = {"group.id": "indoubt-decision-log", "enable.auto.commit": False, "fetch.wait.max.ms": fetch_wait_ms}
        # Records that are gone must not be passed over in silence.
        settings |= {"isolation.level": "read_uncommitted", "auto.offset.reset": "error"}
        consumer = Consumer(self._connection.for_librdkafka(**settings), logger=log)
        consumer.assign([TopicPartition(self._topic.name, 0, offset)])
        return consumer

    def _fold(self, message: Message) -> None:
        offset = self._checked(message)
        if offset != self._next:
            raise DecisionLogUnreadable(
                f"{self._topic.name!r} has no record at offset {self._next}, the next one is at {offset}: records inside the log "
                "are gone (is the topic compacted?), so it is unknown what was decided"
            )
        try:
            record = self._assembly.read(offset, message.value())
        except UnknownVersion as error:
            raise self._too_new(offset, error) from None
        except MalformedRecord as malformed:
            self.malformed.append(MalformedEntry(offset=offset, error=str(malformed)))
            record = None
        self._next = offset + 1
        if record is None:
            self.ledger.skip(offset)
        elif self.ledger.apply(offset, record) and isinstance(record, Snapshot):
            self.ledger.forget_before(record)
            self.snapshot = record

    def _checked(self, message: Message) -> int:
        """Return the offset of a record. Raises _HeadCut, DecisionLogUnreadable for what is an error instead."""
        error = message.error()
        if error is None:
            return int(message.offset())
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise _HeadCut
        raise DecisionLogUnreadable(f"{self._topic.name!r} cannot be read: {error.str()}")

    def _too_new(self, offset: int, error: UnknownVersion) -> DecisionLogUnreadable:
        return DecisionLogUnreadable(
            f"{self._topic.name!r} holds at offset {offset} what a newer program wrote ({error}): it may decide what this one "
            "cannot see, so nothing is decided, committed or rolled back here. Run the newer program"
        )

    def _find_snapshot(self, first: int, end: int, last: int) -> Snapshot | None:
        """Return the newest snapshot that says nothing of records behind ``last`` and has all of its rest in the log."""
        scanned = end
        for start in self._starts(first, end):
            if start >= scanned:
                continue
            scanned = start
            found = [
                snapshot
                for snapshot in self._snapshots(start, end)
                if first <= snapshot.begin and snapshot.covers <= last + 1
            ]
            if found:
                return max(found, key=lambda snapshot: snapshot.covers)
        return None

    def _starts(self, first: int, end: int) -> Iterator[int]:
        """Yield offsets ever further back, by the time of their records; the last one is the first of the log."""
        back_ms, start = FIRST_STEP_MS, end
        while start > first and back_ms < now_ms():
            since = self._topic.first_since(now_ms() - back_ms)
            start = end if since is None else since
            yield max(first, start)
            back_ms *= FURTHER_BACK
        yield first

    def _snapshots(self, start: int, end: int) -> Iterator[Snapshot]:
        """Yield the snapshots that stand whole between two offsets, in log order."""
        assembly, offset = RecordAssembly(), start - 1
        deadline = time.monotonic() + READ_LIMIT_S
        with self._scanner(start) as consumer:
            while offset < end - 1:
                if time.monotonic() > deadline:
                    raise DecisionLogUnreadable(
                        f"{self._topic.name!r} was searched to {offset}, not to {end}: nothing came for {READ_LIMIT_S:.0f} s"
                    )
                for message in consumer.consume(1000, 0.05):
                    offset = self._checked(message)
                    deadline = time.monotonic() + READ_LIMIT_S
                    if SNAPSHOT_HEADER in (message.headers() or ()):
                        yield from self._whole(assembly, offset, message)

    def _whole(self, assembly: RecordAssembly, offset: int, message: Message) -> Iterator[Snapshot]:
        try:
            record = assembly.read(offset, message.value())
        except UnknownVersion as error:
            raise self._too_new(offset, error) from None
        except MalformedRecord:
            return
        if isinstance(record, Snapshot):
            yield record

    @contextmanager
    def _scanner(self, offset: int) -> Iterator[Consumer]:
        consumer = self._consume(offset, fetch_wait_ms=10)
        try:
            yield consumer
        finally:
            consumer.close()
