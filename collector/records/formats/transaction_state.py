"""Decoder of ``__transaction_state``, the transaction coordinator's own log.

Source: TransactionLogKey.json and TransactionLogValue.json of Apache Kafka. Key: version int16, transactional id. Value version 0
is plain: brokers before 4.0, and later ones while their transaction.version is 0. Version 1 is flexible: compact arrays and
strings, tagged fields at the end of every structure, of which unknown ones are passed over (KIP-482, KIP-915).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from lifecycle.errors import MalformedRecord, UnknownVersion

KEY_VERSION = 0
VALUE_VERSIONS = (0, 1)
_PREVIOUS_PRODUCER_ID, _CLIENT_TRANSACTION_VERSION = 0, 2
"""Tags of the fields that are used. Passed over: 1 (next producer id), 3 (next producer epoch), others to come."""
_NO_PRODUCER_ID = -1
_HEAD = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_INT16, _INT64 = struct.Struct(">h"), struct.Struct(">q")
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
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStateValue:
    """One state of one transactional id. Times are epoch ms by the broker's clock; start_ms is -1 outside a transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: BrokerStatus
    partitions: tuple[str, ...]
    update_ms: int
    start_ms: int
    client_transaction_version: int
    """0 or 1: the epoch stays when a transaction ends; 2: it moves up by one at Prepare*."""
    previous_producer_id: int = -1
    """Producer id of the state before this one; -1 where it is not told (version 0, and brokers before 4.0)."""

    @property
    def rotated(self) -> bool:
        """True at the end of a transaction that used up the epochs of its producer id: the id here is already the next one's."""
        ends = self.status in (BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT)
        return ends and self.previous_producer_id not in (_NO_PRODUCER_ID, self.producer_id)


def decode_key(key: bytes | None) -> str:
    """Return the transactional id. Raises UnknownVersion, MalformedRecord."""
    if key is None or len(key) < 4:
        raise MalformedRecord(f"transaction log key has {len(key or b'')} bytes, fewer than 4")
    version, length = struct.unpack_from(">hh", key)
    if version != KEY_VERSION:
        raise UnknownVersion(f"transaction log key has version {version}; this program knows {KEY_VERSION}")
    if length != len(key) - 4:
        raise MalformedRecord(f"transaction log key says {length} bytes of id and holds {len(key) - 4}")
    return _text(key[4:])


def decode_value(value: bytes) -> TransactionStateValue:
    """Return the state. Raises UnknownVersion for a version above 1, MalformedRecord that says what is wrong."""
    try:
        return _decode_value(value)
    except (struct.error, IndexError):
        raise MalformedRecord(f"transaction log value ends too early, after {len(value)} bytes") from None


def _decode_value(value: bytes) -> TransactionStateValue:
    (version,) = struct.unpack_from(">h", value)
    if version not in VALUE_VERSIONS:
        raise UnknownVersion(f"transaction log value has version {version}; this program knows 0 and 1")
    _, producer_id, epoch, timeout_ms, status_number = _HEAD.unpack_from(value)
    try:
        status = BrokerStatus(status_number)
    except ValueError:
        raise MalformedRecord(f"transaction log value has status {status_number}, which is unknown") from None
    flexible = version == 1
    partitions, at = _partitions(value, _HEAD.size, flexible)
    update_ms, start_ms = _TIMES.unpack_from(value, at)
    at += _TIMES.size
    if max(update_ms, start_ms) > MAX_TIME_MS or min(update_ms, start_ms) < -1:
        raise MalformedRecord(f"transaction log value has the times {update_ms} and {start_ms}, which are no epoch ms")
    tags: dict[int, bytes] = {}
    if flexible:
        tags, at = _tags(value, at)
    if at != len(value):
        raise MalformedRecord(f"transaction log value has {len(value) - at} bytes too many")
    return TransactionStateValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=tuple(partitions),
        update_ms=update_ms,
        start_ms=start_ms,
        client_transaction_version=_number(tags, _CLIENT_TRANSACTION_VERSION, _INT16, 0),
        previous_producer_id=_number(tags, _PREVIOUS_PRODUCER_ID, _INT64, _NO_PRODUCER_ID),
    )


def _number(tags: dict[int, bytes], tag: int, kind: struct.Struct, default: int) -> int:
    raw = tags.get(tag)
    if raw is None:
        return default
    if len(raw) != kind.size:
        raise MalformedRecord(f"transaction log value has {len(raw)} bytes in tagged field {tag}, not {kind.size}")
    (number,) = kind.unpack(raw)
    return int(number)


def _partitions(value: bytes, at: int, flexible: bool) -> tuple[list[str], int]:
    found: list[str] = []
    topics, at = _count(value, at, flexible)
    for _ in range(topics):
        length, at = _length(value, at, flexible)
        if length < 0 or at + length > len(value):
            raise MalformedRecord(f"transaction log value names a topic of {length} bytes beyond its end")
        topic, at = _text(value[at : at + length]), at + length
        count, at = _count(value, at, flexible)
        found.extend(f"{topic}-{number}" for number in struct.unpack_from(f">{count}i", value, at))
        at += 4 * count
        if flexible:
            _, at = _tags(value, at)
    return found, at


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
        (count,), at = struct.unpack_from(">i", value, at), at + 4
    if count > _PARTITION_LIMIT:
        raise MalformedRecord(f"transaction log value claims {count} elements")
    return max(0, count), at


def _tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
    tags: dict[int, bytes] = {}
    count, at = _varint(value, at)
    for _ in range(count):
        tag, at = _varint(value, at)
        size, at = _varint(value, at)
        if at + size > len(value):
            raise MalformedRecord(f"transaction log value has a tagged field {tag} beyond its end")
        tags[tag], at = value[at : at + size], at + size
    return tags, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = value[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, at
        shift += 7
        if shift > 28:
            raise MalformedRecord("transaction log value has a length of more than 5 bytes")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"transaction log holds a name that is not UTF-8: {error}") from None
