"""Decoder of ``__transaction_state``, the transaction coordinator's own log.

Source: TransactionLogKey.json and TransactionLogValue.json of Apache Kafka. Key: version int16, transactional id. Value version 0
is plain: brokers before 4.0, and later ones while their transaction.version is 0. Version 1 is flexible: compact arrays and
strings, tagged fields at the end of every structure, of which unknown ones are passed over (KIP-482, KIP-915).

A value is read in two steps: ``layout_of`` finds where its fields stand, and they are read there. It alone knows versions,
lengths and tags. transaction_state_batch.py reads the fields of many values that have one layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from indoubt.lifecycle.durations import timeout_that_ends
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

KEY_VERSION = 0
VALUE_VERSIONS = (0, 1)
KEY_HEAD = {"version": "h", "length": "h"}
HEAD_AT = 2
HEAD = {"producer_id": "q", "producer_epoch": "h", "timeout_ms": "i", "status": "b"}
TIMES = {"update_ms": "q", "start_ms": "q"}
"""Numbers that stand side by side, as ``struct`` names their kinds; all are big-endian and signed."""
TAGGED = {0: ("previous_producer_id", "q"), 2: ("client_transaction_version", "h")}
"""Tagged fields that are used. Passed over: 1 (next producer id), 3 (next producer epoch), others to come."""
DEFAULTS = {"previous_producer_id": -1, "client_transaction_version": 0}
"""What an absent tagged field stands for: in version 0, and from brokers before 4.0."""


def _struct(kinds: Iterable[str]) -> struct.Struct:
    return struct.Struct(">" + "".join(kinds))


_KEY_HEAD, _HEAD, _TIMES = (_struct(kinds.values()) for kinds in (KEY_HEAD, HEAD, TIMES))
_TAGGED = {tag: (name, _struct(kind)) for tag, (name, kind) in TAGGED.items()}
_READ = {name: kind.unpack_from for name, kind in _TAGGED.values()}
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
ID_AT = _KEY_HEAD.size
PARTITIONS_AT = HEAD_AT + _HEAD.size
_PARTITION_LIMIT = 1_000_000
MAX_TIME_MS = 2**53
"""Far beyond any date: a time above it is none, and a deadline reckoned from it would overflow its column."""
LAST_EPOCH = 2**15 - 1
"""The epoch at which the coordinator ends a producer id's last transaction (Short.MAX_VALUE)."""


class BrokerStatus(Enum):
    """The coordinator's states, by their number in the log (org.apache.kafka TransactionState)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """No coordinator writes it to its log. Polling gives it to a transaction that its coordinator has no more."""
    PREPARE_EPOCH_FENCE = 7


STATUSES = {status.value: status for status in BrokerStatus}
_COMPLETE_COMMIT, _COMPLETE_ABORT = BrokerStatus.COMPLETE_COMMIT.value, BrokerStatus.COMPLETE_ABORT.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStateValue:
    """One state of one transactional id. Times are epoch ms by the broker's clock; start_ms is -1 outside a transaction.

    ``timeout_ms`` is 0 where no timeout ends it.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: BrokerStatus
    partitions: tuple[str, ...]
    update_ms: int
    start_ms: int
    client_transaction_version: int = DEFAULTS["client_transaction_version"]
    """0 or 1: the epoch stays when a transaction ends; 2: it moves up by one at Prepare*."""
    previous_producer_id: int = DEFAULTS["previous_producer_id"]
    """Producer id of the state before this one; -1 where it is absent (version 0, and brokers before 4.0)."""

    @property
    def rotated(self) -> bool:
        """True at the end of a transaction that used up the epochs of its producer id: the id here is already the next one's."""
        return bool(is_rotated(self.status.value, self.producer_id, self.previous_producer_id))


def is_rotated(status: Any, producer_id: Any, previous_producer_id: Any) -> Any:
    """Return ``TransactionStateValue.rotated`` of the numbers of a state, or of columns of them."""
    ends = (status == _COMPLETE_COMMIT) | (status == _COMPLETE_ABORT)
    return ends & (previous_producer_id != DEFAULTS["previous_producer_id"]) & (previous_producer_id != producer_id)


class Layout(NamedTuple):
    """Where the fields of a value stand, as ``layout_of`` finds them."""

    version: int
    topics: list[tuple[int, int, int, int]]
    """Of each topic: where its name begins and ends, where its partitions begin, how many they are."""
    times_at: int
    """Behind the partitions."""
    tagged: dict[str, int]
    """Where tagged fields stand that are used."""
    tags: list[tuple[int, int]]
    """Where each tagged field begins and ends."""

    @property
    def contents(self) -> list[tuple[int, int]]:
        """Return what is no version, length or tag: values of one length have one layout if all other bytes agree."""
        fixed = [(HEAD_AT, PARTITIONS_AT), (self.times_at, self.times_at + _TIMES.size)]
        names = [(begin, end) for begin, end, _, _ in self.topics]
        return [*fixed, *names, *((at, at + 4 * count) for _, _, at, count in self.topics), *self.tags]


def decode_key(key: bytes | None) -> str:
    """Return the transactional id. Raises UnknownVersion, MalformedRecord."""
    if key is None or len(key) < ID_AT:
        raise MalformedRecord(f"transaction log key has {len(key or b'')} bytes, fewer than {ID_AT}")
    version, length = _KEY_HEAD.unpack_from(key)
    if version != KEY_VERSION:
        raise UnknownVersion(f"transaction log key has version {version}; this program knows {KEY_VERSION}")
    if length != len(key) - ID_AT:
        raise MalformedRecord(f"transaction log key says {length} bytes of id and holds {len(key) - ID_AT}")
    return _text(key[ID_AT:])


def decode_value(value: bytes) -> TransactionStateValue:
    """Return the state. Raises UnknownVersion for a version above 1, MalformedRecord that says what is wrong."""
    layout = layout_of(value)
    producer_id, epoch, timeout_ms, status_number = _HEAD.unpack_from(value, HEAD_AT)
    status = STATUSES.get(status_number)
    if status is None:
        raise MalformedRecord(f"transaction log value has status {status_number}, which is unknown")
    update_ms, start_ms = _TIMES.unpack_from(value, layout.times_at)
    if not (-1 <= update_ms <= MAX_TIME_MS and -1 <= start_ms <= MAX_TIME_MS):
        raise MalformedRecord(f"transaction log value has the times {update_ms} and {start_ms}, which are no epoch ms")
    return TransactionStateValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_that_ends(timeout_ms),
        status=status,
        partitions=partitions_of(value, layout),
        update_ms=update_ms,
        start_ms=start_ms,
        **{name: _READ[name](value, at)[0] for name, at in layout.tagged.items()},
    )


def partitions_of(value: bytes, layout: Layout) -> tuple[str, ...]:
    """Return the partitions of a value as ``topic-number``. Raises MalformedRecord."""
    found: list[str] = []
    for begin, end, at, count in layout.topics:
        topic = _text(value[begin:end])
        found.extend(f"{topic}-{number}" for number in struct.unpack_from(f">{count}i", value, at))
    return tuple(found)


def layout_of(value: bytes) -> Layout:
    """Return where the fields of a value stand. Raises UnknownVersion, MalformedRecord."""
    try:
        return _layout_of(value)
    except (struct.error, IndexError):
        raise MalformedRecord(f"transaction log value ends too early, after {len(value)} bytes") from None


def _layout_of(value: bytes) -> Layout:
    (version,) = _INT16.unpack_from(value)
    if version not in VALUE_VERSIONS:
        raise UnknownVersion(f"transaction log value has version {version}; this program knows 0 and 1")
    flexible = version == 1
    topics: list[tuple[int, int, int, int]] = []
    topic_count, at = _count(value, PARTITIONS_AT, flexible)
    for _ in range(topic_count):
        length, begin = _length(value, at, flexible)
        end = begin + length
        if length < 0 or end > len(value):
            raise MalformedRecord(f"transaction log value names a topic of {length} bytes beyond its end")
        count, numbers_at = _count(value, end, flexible)
        at = numbers_at + 4 * count
        topics.append((begin, end, numbers_at, count))
        if flexible:
            _, _, at = _tags(value, at)
    times_at, at = at, at + _TIMES.size
    tagged, tags, at = _tags(value, at) if flexible else ({}, [], at)
    if at > len(value):
        raise IndexError
    if at < len(value):
        raise MalformedRecord(f"transaction log value has {len(value) - at} bytes too many")
    return Layout(version, topics, times_at, tagged, tags)


def _length(value: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Return the length of a string; -1 for null."""
    if flexible:
        stored, at = _varint(value, at)
        return stored - 1, at
    (length,) = _INT16.unpack_from(value, at)
    return int(length), at + _INT16.size


def _count(value: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Return how many elements follow; a null array (stored as -1, compact 0) has none."""
    if flexible:
        stored, at = _varint(value, at)
        count = stored - 1
    else:
        (count,), at = _INT32.unpack_from(value, at), at + _INT32.size
    if count > _PARTITION_LIMIT:
        raise MalformedRecord(f"transaction log value claims {count} elements")
    return max(0, count), at


def _tags(value: bytes, at: int) -> tuple[dict[str, int], list[tuple[int, int]], int]:
    """Return where tagged fields stand that are used, and from where up to where each stands, used or not."""
    tagged: dict[str, int] = {}
    tags: list[tuple[int, int]] = []
    count, at = _varint(value, at)
    for _ in range(count):
        tag, at = _varint(value, at)
        size, begin = _varint(value, at)
        at = begin + size
        if at > len(value):
            raise MalformedRecord(f"transaction log value has a tagged field {tag} beyond its end")
        if tag in _TAGGED:
            name, kind = _TAGGED[tag]
            if size != kind.size:
                raise MalformedRecord(f"transaction log value has {size} bytes in tagged field {tag}, not {kind.size}")
            tagged[name] = begin
        tags.append((begin, at))
    return tagged, tags, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = value[at]
        at += 1
        if byte < 0x80:
            return result | byte << shift, at
        result |= (byte & 0x7F) << shift
        shift += 7
        if shift > 28:
            raise MalformedRecord("transaction log value has a length of more than 5 bytes")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"transaction log holds a name that is not UTF-8: {error}") from None
