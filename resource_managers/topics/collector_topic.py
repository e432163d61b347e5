"""The topic of two collectors of one name: which of them leads, and what it wrote down. For one name each, of one partition.

A collector takes the lead by the transactional id of the name, which fences the one before it. What begins its lead and what it
writes down goes by transactions of that id: their order in the topic is the order in which the id was taken. Renewals of the
lead do not: a transaction every second would be one more application to look at. A reader believes those of the newest lead.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from indoubt.lifecycle.errors import Fenced, MalformedRecord, ResourceManagerError, Unreachable
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.topic_follower import TopicFollower

PREFIX = "indoubt-collector-"
"""Of the topic and of the transactional id, which are called alike."""
CONFIG: Mapping[str, str] = {
    # Every entry has a key of its own, so nothing but renewals is ever compacted away.
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "3600000",
}
TRANSACTION_TIMEOUT_MS = 30_000
RENEWAL_LIMIT_MS = 5_000
PART_BYTES = 400_000
"""A larger entry is written in parts: a broker takes 1 MB."""
_LEAD_KEY = "lead"
log = logging.getLogger(__name__)


class Kind(Enum):
    """What a record says."""

    LEAD = "lead"
    """From here on its writer leads."""
    RENEWAL = "renewal"
    """The lead that began at ``term`` goes on."""
    RELEASE = "release"
    """The lead that began at ``term`` is over."""
    ENTRY = "entry"
    """Something was written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Who leads, since which offset of the topic, and until when (epoch ms, by its writer's clock: for people)."""

    holder: str
    term: int
    until_ms: int
    sent_s: float
    """By its writer's own steady clock: for itself, when it reads it back."""

    def encode(self) -> bytes:
        """Return the value of its record."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of the topic, an entry whole; ``end``: the offset behind it."""

    kind: Kind
    end: int
    lead: Lead | None = None
    entry: bytes = b""


class CollectorTopicWriter:
    """Takes the transactional id and writes. Thread-safe."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._connection, self._topic = connection, PREFIX + name
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._renewing: Producer | None = None

    def take(self, limit_s: float) -> None:
        """Take the transactional id: whoever had it can write nothing more. Raises ResourceManagerError."""
        with self._lock:
            properties = {
                "transactional.id": self._topic,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
            }
            producer = Producer(self._connection.for_librdkafka(**properties, log_level=2), logger=log)
            try:
                producer.init_transactions(limit_s)
            except KafkaException as error:
                self._producer = None
                raise _failed(f"transactional id {self._topic!r} could not be taken", error) from None
            self._producer = producer

    def begin_lead(self, lead: Lead, limit_s: float) -> int:
        """Write that its holder leads; return the offset, which is the term. Raises as ``append``."""
        (end,) = self._append([(Kind.LEAD, _LEAD_KEY, [lead.encode()])], limit_s)
        return end - 1

    def append(self, entries: Sequence[bytes], limit_s: float) -> list[int]:
        """Write entries, all or none; return the offset behind each.

        Raises Fenced and Unreachable: whether they were written is not known then, and nothing more may be written before the id
        is taken again. Raises ResourceManagerError where none was.
        """
        named = [(Kind.ENTRY, uuid.uuid4().hex, _parts(entry)) for entry in entries]
        return self._append(named, limit_s)

    def _append(self, named: Sequence[tuple[Kind, str, Sequence[bytes]]], limit_s: float) -> list[int]:
        deadline = time.monotonic() + limit_s
        with self._lock:
            producer = self._producer
            if producer is None:
                raise Fenced(f"transactional id {self._topic!r} is not held")
            offsets: dict[int, int] = {}
            try:
                producer.begin_transaction()
                for number, (kind, key, parts) in enumerate(named):
                    self._produce(producer, kind, key, parts, number, offsets)
                producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            except (KafkaException, BufferError) as error:
                raise self._given_up(producer, error, deadline) from None
            return [offsets[number] + 1 for number in range(len(named))]

    def _produce(
        self, producer: Producer, kind: Kind, key: str, parts: Sequence[bytes], number: int, offsets: dict[int, int]
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[number] = max(offsets.get(number, -1), message.offset())

        for place, part in enumerate(parts, 1):
            headers = [("kind", kind.value.encode()), ("part", b"%d/%d" % (place, len(parts)))]
            part_key = key if len(parts) == 1 else f"{key}-{place}"
            producer.produce(self._topic, part, part_key, partition=0, headers=headers, on_delivery=delivered)

    def _given_up(self, producer: Producer, error: Exception, deadline: float) -> ResourceManagerError:
        """Return what to raise; the id is held on only where the transaction is surely aborted."""
        what = f"nothing could be written to {self._topic!r}"
        cause = error.args[0] if isinstance(error, KafkaException) else None
        if cause is None or cause.txn_requires_abort():
            try:
                producer.abort_transaction(max(0.1, deadline - time.monotonic()))
                return ResourceManagerError(f"{what}: {error}")
            except KafkaException as failed:
                error = failed
        self._producer = None
        return _failed(what, error)

    def tell(self, kind: Kind, lead: Lead) -> None:
        """Send a renewal or a release, without waiting whether it arrives."""
        if self._renewing is None:
            properties = {"acks": "all", "linger.ms": 0, "message.timeout.ms": RENEWAL_LIMIT_MS}
            self._renewing = Producer(self._connection.for_librdkafka(**properties, log_level=2), logger=log)
        headers = [("kind", kind.value.encode())]
        try:
            self._renewing.produce(self._topic, lead.encode(), _LEAD_KEY, partition=0, headers=headers)
            self._renewing.poll(0)
        except (BufferError, KafkaException) as error:
            log.warning("the lead could not be renewed: %s", error)

    def close(self, limit_s: float) -> None:
        """Send what is on its way and let the id go."""
        if self._renewing is not None:
            self._renewing.flush(limit_s)
        with self._lock:
            self._producer = None


class CollectorTopicReader:
    """Reads the topic in its order from an offset; a context manager."""

    def __init__(self, connection: KafkaConnection, name: str, begin: int) -> None:
        self._reader = TopicFollower(connection, PREFIX + name, PREFIX + name, begin)
        self._parts: list[bytes] = []

    def __enter__(self) -> CollectorTopicReader:
        self._reader.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.__exit__(*error)

    def read(self, limit_s: float) -> Record | None:
        """Return the next record within ``limit_s``. Raises Unreachable, and MalformedRecord for what is none of this program's."""
        message = self._reader.read(limit_s)
        if message is None:
            return None
        offset = int(message.offset() or 0)
        headers = {name: value for name, value in message.headers() or () if isinstance(value, bytes)}
        try:
            kind, value = Kind(headers["kind"].decode()), message.value() or b""
            if kind is not Kind.ENTRY:
                return Record(kind=kind, end=offset + 1, lead=_lead(kind, offset, value))
            place, of = map(int, headers["part"].split(b"/"))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise MalformedRecord(f"offset {offset} of {PREFIX}…: {type(error).__name__}: {error}") from None
        self._parts = [*(self._parts if place > 1 else ()), value]
        if place < of:
            return None
        entry, self._parts = b"".join(self._parts), []
        return Record(kind=kind, end=offset + 1, entry=entry)

    def is_at_end(self) -> bool:
        """Ask the brokers whether everything that is committed now was read. Raises Unreachable."""
        return self._reader.is_at_end()


def _lead(kind: Kind, offset: int, value: bytes) -> Lead:
    fields = json.loads(value)
    term = offset if kind is Kind.LEAD else int(fields["term"])
    until_ms, sent_s = int(fields["until_ms"]), float(fields["sent_s"])
    return Lead(holder=str(fields["holder"]), term=term, until_ms=until_ms, sent_s=sent_s)


def _parts(entry: bytes) -> list[bytes]:
    return [entry[at : at + PART_BYTES] for at in range(0, len(entry), PART_BYTES)] or [b""]


def _failed(what: str, error: Exception) -> ResourceManagerError:
    cause = error.args[0] if isinstance(error, KafkaException) else None
    if cause is None:
        return ResourceManagerError(f"{what}: {error}")
    fenced = cause.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return (Fenced if fenced else Unreachable)(f"{what}: {cause.str()}")
