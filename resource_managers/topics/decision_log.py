"""The decision log in Kafka: append, read back, and act only on what counts."""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decision_parts import encode_within
from indoubt.lifecycle.decisions import Decision, DecisionRecord, Outcome, RunStarted, Snapshot
from indoubt.lifecycle.errors import DecisionLogUnreadable, DecisionVoid
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log_reader import SNAPSHOT_HEADER, DecisionLogReader, MalformedEntry
from indoubt.resource_managers.topics.decision_log_topic import BROKERS_DEFAULT, RECORD_BYTES_UNASKED, DecisionLogTopic

log = logging.getLogger(__name__)

APPEND_LIMIT_S = 30.0


class DecisionLog:
    """One reader and writer of the log; it keeps its place, so reading on is cheap. For one thread at a time."""

    def __init__(self, connection: KafkaConnection, topic: str = "transaction_decisions") -> None:
        self._connection, self.topic = connection, topic
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._log_topic = DecisionLogTopic(self._connection, self.topic)
        self._reader = DecisionLogReader(self._connection, self._log_topic)
        self._producer: Producer | None = None
        self._record_bytes: int | None = None

    @property
    def malformed(self) -> list[MalformedEntry]:
        """Return the records that were passed over, oldest first."""
        return self._reader.malformed

    @property
    def newest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot in what was read."""
        return self._reader.snapshot

    def ensure_topic(
        self, replication_factor: int = BROKERS_DEFAULT, min_insync_replicas: int = BROKERS_DEFAULT
    ) -> None:
        """Make the topic where it is missing; return when it is there and forgets nothing by itself.

        Raises SettingsError that says how to mend it for one that does, or that may not be asked, and DecisionLogUnreadable.
        """
        self._after_fork()
        self._log_topic.ensure(replication_factor, min_insync_replicas)

    def append(self, record: DecisionRecord) -> int:
        """Append a record with acks=all and return its offset. Raises DecisionLogUnreadable; it may then have landed."""
        return self.append_all([record])[0]

    def append_all(self, records: Sequence[DecisionRecord]) -> list[int]:
        """Append records with acks=all, all on the way at once; return the offsets at which they count, in the order given.

        Raises DecisionLogUnreadable; some of them, or all, may then have landed.
        """
        self._after_fork()
        producer = self._writer()
        answers: list[tuple[KafkaError | None, Message]] = []
        expected, lasts = 0, []
        for record in records:
            expected += self._send(record, lambda *answer: answers.append(answer))
            lasts.append(expected - 1)
        deadline = time.monotonic() + APPEND_LIMIT_S
        while len(answers) < expected and time.monotonic() < deadline:
            self._poll(producer, 0.05)
        if len(answers) < expected:
            raise DecisionLogUnreadable(
                f"{expected - len(answers)} of {expected} appends to {self.topic!r} had no answer in {APPEND_LIMIT_S:.0f} s"
            )
        for error, _ in answers:
            if error is not None:
                raise DecisionLogUnreadable(f"could not append to {self.topic!r}: {error.str()}")
        # One partition: answers come in the order of the records, and of their parts.
        return [int(answers[last][1].offset()) for last in lasts]

    def append_and_read(self, record: DecisionRecord) -> tuple[int, DecisionLedger]:
        """Append a record and read the log back up to it; return its offset and the ledger. Raises DecisionLogUnreadable."""
        offset = self.append(record)
        self._reader.require_new(offset)
        return offset, self.read_to(offset)

    def append_soon(self, outcome: Outcome) -> None:
        """Send an outcome and return at once. One that does not arrive is logged: a later recovery finds out by itself.

        Raises DecisionLogUnreadable when nothing can be sent.
        """
        self._after_fork()
        producer = self._writer()

        def answered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                log.warning(
                    "an outcome of batch %d did not get into %s: %s",
                    outcome.batch_attempt.batch,
                    self.topic,
                    error.str(),
                )

        self._send(outcome, answered)
        self._poll(producer, 0)

    def _poll(self, producer: Producer, limit_s: float) -> None:
        try:
            producer.poll(limit_s)
        except KafkaException as error:
            # It is fatal: the broker has not what this producer wrote before. Who appends next starts another one.
            self._producer = None
            raise DecisionLogUnreadable(
                f"could not append to {self.topic!r}, which may have lost its end: {error.args[0].str()}"
            ) from None

    def _send(self, record: DecisionRecord, answered: Any) -> int:
        """Queue a record, in parts where it is too large; return how many answers will come."""
        values = encode_within(record, self._record_bytes or RECORD_BYTES_UNASKED)
        if len(values) > 1 and self._record_bytes is None:
            self._record_bytes = self._log_topic.record_bytes()
            values = encode_within(record, self._record_bytes)
        headers = [SNAPSHOT_HEADER] if isinstance(record, Snapshot) else None
        for value in values:
            self._writer().produce(
                self.topic, value, key=record.prefix, partition=0, headers=headers, on_delivery=answered
            )
        return len(values)

    def _writer(self) -> Producer:
        if self._producer is None:
            properties = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 20_000}
            # A broker's limit is on what is sent as one: records go together only while they are small.
            properties |= {"reconnect.backoff.ms": 20, "batch.size": RECORD_BYTES_UNASKED}
            self._producer = Producer(self._connection.for_librdkafka(**properties), logger=log)
            # An idempotent producer that is to send before it is connected waits 500 ms for its id. The first answer
            # comes over the bootstrap connection, the second over the broker's own.
            try:
                for _ in range(2):
                    self._producer.list_topics(self.topic, timeout=APPEND_LIMIT_S)
            except KafkaException as error:
                raise DecisionLogUnreadable(f"{self.topic!r} cannot be reached: {error.args[0].str()}") from None
        return self._producer

    def read_to(self, offset: int) -> DecisionLedger:
        """Return the ledger of the log up to and with ``offset``, not beyond. Raises DecisionLogUnreadable.

        A later call continues; the ledger returned is the same object, so take from it what you need first. It knows what
        matters: of what a snapshot left out it knows nothing any more.
        """
        self._after_fork()
        return self._reader.read_to(offset)

    def read_to_end(self) -> DecisionLedger:
        """Return the ledger of the whole log as it stands now. Raises DecisionLogUnreadable."""
        self._after_fork()
        return self._reader.read_to_end()

    def start_run(self, run: RunStarted) -> int:
        """Append the start of a run; its offset is the run's attempt number."""
        return self.append(run)

    def decide(self, decision: Decision) -> int:
        """Append a decision and read the log back up to it; return its offset when it counts.

        Raises DecisionVoid saying who was first, which run is newer or which batch is later, and DecisionLogUnreadable: then
        no process may act.
        """
        offset, ledger = self.append_and_read(decision)
        first = ledger.first(decision.batch_attempt)
        if first is not None and first[0] == offset and first[2]:
            return offset
        raise DecisionVoid(_why_void(decision, offset, ledger))

    def snapshot(self, prefix: str, who: str) -> int:
        """Append a snapshot of what still matters and read it back; return the offset before which the log may be cut.

        Raises DecisionLogUnreadable.
        """
        ledger = self.read_to_end()
        snapshot = Snapshot(
            prefix=prefix,
            begin=self._reader.begin,
            covers=ledger.next_offset,
            kept=ledger.kept(),
            who=who,
            at_ms=now_ms(),
        )
        offset, _ = self.append_and_read(snapshot)
        if self._reader.snapshot != snapshot:
            raise DecisionLogUnreadable(
                f"the snapshot at offset {offset} of {self.topic!r} was read back as another one"
            )
        return snapshot.begin

    def cut(self, before: int, keep_ms: int) -> int:
        """Delete the records before this offset that are older than ``keep_ms``; return the log's first offset then.

        Only what ``snapshot`` returned is safe. Raises DecisionLogUnreadable.
        """
        self._after_fork()
        first, _ = self._log_topic.ends()
        kept = self._log_topic.first_since(now_ms() - keep_ms)
        wanted = before if kept is None else min(before, kept)
        if wanted <= first:
            return first
        self._log_topic.cut_before(wanted)
        return wanted

    def close(self) -> None:
        """Send what is on its way and end the connections; a later call opens them again."""
        if self._pid == os.getpid():
            if self._producer is not None:
                self._producer.flush(APPEND_LIMIT_S)
            self._reader.close()
        self._forget()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            # librdkafka's threads did not come along: to destroy these clients here would crash, so they are kept.
            for inherited in (self._producer, self._reader, self._log_topic):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
            self._forget()


def _why_void(decision: Decision, offset: int, ledger: DecisionLedger) -> str:
    batch_attempt, first = decision.batch_attempt, ledger.first(decision.batch_attempt)
    if first is not None and first[0] != offset:
        when, winner, _ = first
        return (
            f"batch {batch_attempt.batch} was decided before: {winner.ruling.value} by {winner.who} (log offset {when})"
        )
    this_run = f"batch {batch_attempt.batch}: this run (log offset {batch_attempt.attempt}) may not decide"
    newer = ledger.newer_run(decision.prefix, batch_attempt.checkpoint_id, batch_attempt.attempt)
    if newer is not None:
        when, run = newer
        same = f"prefix {run.prefix!r}" if run.prefix == decision.prefix else f"checkpoint, with prefix {run.prefix!r},"
        return f"{this_run} any more, run {run.run} (log offset {when}) of the same {same} started after this one"
    over = ledger.taken_over(batch_attempt.checkpoint_id)
    if over is not None:
        return f"{this_run} any more, its checkpoint was taken over (log offset {over[0]}) by prefix {over[1].prefix!r}"
    last = ledger.last_decided_batch(batch_attempt.checkpoint_id)
    if last is not None and last > batch_attempt.batch:
        return (
            f"{this_run} it, batch {last} of the same checkpoint was decided before: the checkpoint directory is older than "
            "what was written from it. Bring back its newest state"
        )
    return f"{this_run}, the log has no such run of prefix {decision.prefix!r}"
