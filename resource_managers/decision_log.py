"""The decision log in Kafka: append, read back, and act only on what counts."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lifecycle.decisions import Decision, DecisionLedger, DecisionRecord, RunStarted, decode, encode
from lifecycle.errors import DecisionLogUnreadable, DecisionVoid, MalformedRecord
from resource_managers.kafka_connection import KafkaConnection

log = logging.getLogger(__name__)

APPEND_LIMIT_S = 30.0
READ_LIMIT_S = 30.0
SETTLING_S = 5.0
SETTLING = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError._NOENT,
    }
)
"""What a client may be told for a moment after a broker came back; whether the topic is missing is asked before."""
RETENTION_MS = 8 * 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedEntry:
    """A record of the log that could not be understood: it is passed over, and shown."""

    offset: int
    error: str


class DecisionLog:
    """One reader and writer of the log; it keeps its place, so reading on is cheap. For one thread at a time."""

    def __init__(self, connection: KafkaConnection, topic: str = "transaction_decisions") -> None:
        self._connection, self.topic = connection, topic
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._ledger = DecisionLedger()
        self.malformed: list[MalformedEntry] = []
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None

    def ensure_topic(self, replication_factor: int = -1) -> None:
        """Create the topic if it is missing: one partition, kept for 8 weeks, never compacted."""
        config = {"retention.ms": str(RETENTION_MS), "cleanup.policy": "delete"}
        topic = NewTopic(self.topic, 1, replication_factor, config=config)
        admin = AdminClient(self._connection.for_librdkafka())
        try:
            admin.create_topics([topic])[self.topic].result(READ_LIMIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise DecisionLogUnreadable(
                    f"topic {self.topic!r} could not be created: {error.args[0].str()}"
                ) from None

    def append(self, record: DecisionRecord) -> int:
        """Append a record with acks=all and return its offset. Raises DecisionLogUnreadable; it may then have landed."""
        return self.append_all([record])[0]

    def append_all(self, records: Sequence[DecisionRecord]) -> list[int]:
        """Append records with acks=all, all on the way at once; return their offsets, in the order given.

        Raises DecisionLogUnreadable; some of them, or all, may then have landed.
        """
        self._after_fork()
        producer = self._writer()
        answers: list[tuple[KafkaError | None, Message]] = []
        for record in records:
            producer.produce(
                self.topic,
                encode(record),
                key=record.prefix,
                partition=0,
                on_delivery=lambda *answer: answers.append(answer),
            )
        deadline = time.monotonic() + APPEND_LIMIT_S
        while len(answers) < len(records) and time.monotonic() < deadline:
            producer.poll(0.05)
        if len(answers) < len(records):
            raise DecisionLogUnreadable(
                f"{len(records) - len(answers)} of {len(records)} appends to {self.topic!r} had no answer in "
                f"{APPEND_LIMIT_S:.0f} s"
            )
        for error, _ in answers:
            if error is not None:
                raise DecisionLogUnreadable(f"could not append to {self.topic!r}: {error.str()}")
        # One partition: answers come in the order of the records.
        return [int(message.offset()) for _, message in answers]

    def _writer(self) -> Producer:
        if self._producer is None:
            properties = {"acks": "all", "enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 20_000}
            properties["reconnect.backoff.ms"] = 20
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

        A later call continues; the ledger returned is the same object, so take from it what you need first.
        """
        self._after_fork()
        if self._ledger.next_offset > offset:
            return self._ledger
        consumer = self._reader()
        deadline = time.monotonic() + READ_LIMIT_S
        while self._ledger.next_offset <= offset:
            if time.monotonic() > deadline:
                raise DecisionLogUnreadable(
                    f"{self.topic!r} was read to {self._ledger.next_offset}, not to {offset}, in {READ_LIMIT_S:.0f} s"
                )
            for message in consumer.consume(min(1000, offset + 1 - self._ledger.next_offset), 0.05):
                self._fold(message)
        return self._ledger

    def read_to_end(self) -> DecisionLedger:
        """Return the ledger of the whole log as it stands now. Raises DecisionLogUnreadable."""
        self._after_fork()
        self._reader()
        first, end = self._ends()
        if end > max(first, self._ledger.next_offset):
            return self.read_to(end - 1)
        return self._ledger

    def _ends(self) -> tuple[int, int]:
        """Return first and end offset of the log. A broker that was just started may not know its partitions for a moment."""
        deadline = time.monotonic() + SETTLING_S
        partition = TopicPartition(self.topic, 0)
        while True:
            # Not asked of the consumer: its fetch holds back for half a second what its connection is asked behind it.
            asked = [
                self._asker().list_offsets({partition: spec}, request_timeout=READ_LIMIT_S)[partition]
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            ]
            try:
                first, end = (int(answer.result(2 * READ_LIMIT_S).offset) for answer in asked)
                return first, end
            except TimeoutError:
                raise DecisionLogUnreadable(
                    f"{self.topic!r} cannot be read: no answer in {2 * READ_LIMIT_S:.0f} s"
                ) from None
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() not in SETTLING or time.monotonic() > deadline:
                    raise DecisionLogUnreadable(f"{self.topic!r} cannot be read: {cause.str()}") from None
            self._look_up_leader()
            time.sleep(0.05)

    def _look_up_leader(self) -> None:
        """Have the leader looked up again: an admin client asks of the one it knows, also where it is told that this one is old."""
        with contextlib.suppress(KafkaException):  # The question itself is asked again, and says what is wrong.
            self._asker().list_topics(self.topic, timeout=1)

    def start_run(self, run: RunStarted) -> int:
        """Append the start of a run; its offset is the run's attempt number."""
        return self.append(run)

    def decide(self, decision: Decision) -> int:
        """Append a decision and read the log back up to it; return its offset when it counts.

        Raises DecisionVoid saying who was first or which run is newer, and DecisionLogUnreadable: then nobody may act.
        """
        offset = self.append(decision)
        ledger = self.read_to(offset)
        first = ledger.first(decision.about)
        if first is not None and first[0] == offset and first[2]:
            return offset
        about = decision.about
        if first is not None and first[0] != offset:
            when, winner, _ = first
            raise DecisionVoid(
                f"batch {about.batch} was decided before: {winner.ruling.value} by {winner.who} (log offset {when})"
            )
        latest = ledger.latest_run(decision.prefix)
        newer = f"run {latest[1].run} (log offset {latest[0]})" if latest else "no run"
        raise DecisionVoid(
            f"batch {about.batch}: this run (log offset {about.attempt}) may not decide any more, {newer} of the same "
            f"prefix {decision.prefix!r} started after this one"
        )

    def close(self) -> None:
        """End the connections; a later call opens them anew."""
        if self._consumer is not None and self._pid == os.getpid():
            self._consumer.close()
        self._forget()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            # librdkafka's threads did not come along: to destroy these clients here would crash, so they are kept.
            for inherited in (self._producer, self._consumer, self._admin):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
            self._forget()

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._require_topic()
            # A fetch at the log's end waits for the next record as long as a broker lets it: with a short wait, this would ask a
            # hundred times a second between two batches.
            settings = {"group.id": "indoubt-decision-log", "enable.auto.commit": False, "fetch.wait.max.ms": 500}
            settings |= {"isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}
            consumer = Consumer(self._connection.for_librdkafka(**settings), logger=log)
            consumer.assign([TopicPartition(self.topic, 0, self._ledger.next_offset)])
            self._consumer = consumer
        return self._consumer

    def _asker(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self._connection.for_librdkafka(), logger=log)
        return self._admin

    def _require_topic(self) -> None:
        try:
            topics = self._asker().list_topics(self.topic, timeout=READ_LIMIT_S).topics
        except KafkaException as error:
            raise DecisionLogUnreadable(f"{self.topic!r} cannot be read: {error.args[0].str()}") from None
        found = topics.get(self.topic)
        if found is None or found.error is not None or not found.partitions:
            raise DecisionLogUnreadable(f"topic {self.topic!r} does not exist: create it with one partition")
        if len(found.partitions) != 1:
            raise DecisionLogUnreadable(
                f"topic {self.topic!r} has {len(found.partitions)} partitions: their order cannot be told, it needs one"
            )

    def _fold(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            raise DecisionLogUnreadable(f"{self.topic!r} cannot be read: {error.str()}")
        try:
            self._ledger.apply(message.offset(), decode(message.value()))
        except MalformedRecord as malformed:
            self._ledger.skip(message.offset())
            self.malformed.append(MalformedEntry(offset=message.offset(), error=str(malformed)))
