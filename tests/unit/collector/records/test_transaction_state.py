"""The decoder of __transaction_state, on bytes captured from a Kafka 4.3.1 broker, and on broken ones."""

from __future__ import annotations

import struct

import pytest

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.observe.transaction_state_log import record_of
from indoubt.collector.records.formats.transaction_state import BrokerStatus, decode_key, decode_value
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

KEY = bytes.fromhex("00000009636f6d6d69742d6d65")
EMPTY = "0001000000000000000000000000ea600000000001a1fd927ed3ffffffffffffffff0100080000000000000000"
ONGOING = (
    "0001000000000000000000000000ea600102027403000000010000000000000001a1fd927f00000001a1fd927f000100080000000000000000"
)
PREPARE_COMMIT = (
    "0001000000000000000000000000ea600202027403000000010000000000000001a1fd927f4b000001a1fd927f000100080000000000000000"
)
COMPLETE_COMMIT = "0001000000000000000000000000ea600401000001a1fd927f52000001a1fd927f000100080000000000000000"
FENCED_PREPARE_ABORT = (
    "0001000000000000000100010000ea6003020274020000000000000001a1fd9280c8000001a1fd92802b020008000000000000000102020002"
)
TIMEOUT_COMPLETE_ABORT = (
    "00010000000000000002000100000bb80501000001a1fd929264000001a1fd928305020008000000000000000202020002"
)


def version_0(topics: list[tuple[bytes, list[int]]] | None, status: int = 1) -> bytes:
    """Return a value as brokers before 4.0 write it: plain arrays and strings, no tagged fields."""
    raw = struct.pack(">hqhib", 0, 7, 3, 60_000, status) + struct.pack(">i", -1 if topics is None else len(topics))
    for topic, partitions in topics or []:
        raw += (
            struct.pack(">h", len(topic)) + topic + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        )
    return raw + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)


def varint(number: int) -> bytes:
    """Return an unsigned varint."""
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def tagged(fields: dict[int, bytes]) -> bytes:
    """Return the tagged fields at the end of a flexible structure."""
    return varint(len(fields)) + b"".join(varint(tag) + varint(len(raw)) + raw for tag, raw in sorted(fields.items()))


def version_1(
    status: int, *, topics: list[tuple[bytes, list[int]]] | None = None, producer_id: int = 7, epoch: int = 3,
    tags: dict[int, bytes] | None = None, topic_tags: dict[int, bytes] | None = None,
) -> bytes:  # fmt: skip
    """Return a value as brokers from 4.0 on write it, as TransactionLogValue.json says."""
    raw = struct.pack(">hqhib", 1, producer_id, epoch, 60_000, status)
    raw += varint(0 if topics is None else len(topics) + 1)
    for topic, partitions in topics or []:
        raw += varint(len(topic) + 1) + topic + varint(len(partitions) + 1)
        raw += struct.pack(f">{len(partitions)}i", *partitions) + tagged(topic_tags or {})
    return raw + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000) + tagged(tags or {})


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def int16(number: int) -> bytes:
    return struct.pack(">h", number)


UNKNOWN = {9: b"", 10: b"\xff" * 300, 2**20: b"later"}
"""Tagged fields that no version of Kafka has yet."""


def test_key_is_the_transactional_id() -> None:
    assert decode_key(KEY) == "commit-me"


@pytest.mark.parametrize(
    ("captured", "status", "epoch", "partitions", "start_ms", "client_transaction_version"),
    [
        (EMPTY, BrokerStatus.EMPTY, 0, (), -1, 0),
        (ONGOING, BrokerStatus.ONGOING, 0, ("t-1", "t-0"), 1795255598848, 0),
        (PREPARE_COMMIT, BrokerStatus.PREPARE_COMMIT, 0, ("t-1", "t-0"), 1795255598848, 0),
        (COMPLETE_COMMIT, BrokerStatus.COMPLETE_COMMIT, 0, (), 1795255598848, 0),
        (FENCED_PREPARE_ABORT, BrokerStatus.PREPARE_ABORT, 1, ("t-0",), 1795255599147, 2),
        (TIMEOUT_COMPLETE_ABORT, BrokerStatus.COMPLETE_ABORT, 1, (), 1795255599877, 2),
    ],
)
def test_captured_states(
    captured: str,
    status: BrokerStatus,
    epoch: int,
    partitions: tuple[str, ...],
    start_ms: int,
    client_transaction_version: int,
) -> None:
    value = decode_value(bytes.fromhex(captured))
    assert (value.status, value.producer_epoch, value.partitions) == (status, epoch, partitions)
    assert (value.start_ms, value.client_transaction_version) == (start_ms, client_transaction_version)


def test_captured_times_and_timeout() -> None:
    value = decode_value(bytes.fromhex(TIMEOUT_COMPLETE_ABORT))
    assert (value.producer_id, value.timeout_ms, value.update_ms) == (2, 3000, 1795255603812)


def test_version_0_has_plain_arrays() -> None:
    value = decode_value(version_0([(b"orders", [0, 5]), (b"bills", [2])]))
    assert value.partitions == ("orders-0", "orders-5", "bills-2")
    assert (value.producer_id, value.producer_epoch, value.start_ms) == (7, 3, 1_700_000_000_000)


def test_version_0_with_null_partitions_has_none() -> None:
    assert decode_value(version_0(None)).partitions == ()


@pytest.mark.parametrize("status", list(BrokerStatus))
@pytest.mark.parametrize("version", [0, 1])
def test_every_status_is_understood_in_both_versions(version: int, status: BrokerStatus) -> None:
    value = version_1(status.value) if version else version_0(None, status=status.value)
    assert decode_value(value).status is status


@pytest.mark.parametrize(
    ("tags", "client_transaction_version", "previous_producer_id"),
    [
        ({}, 0, -1),
        ({0: int64(7)}, 0, 7),
        ({0: int64(7), 2: int16(1)}, 1, 7),
        ({0: int64(7), 1: int64(8), 2: int16(2)}, 2, 7),
        ({0: int64(7), 1: int64(8), 2: int16(2), 3: int16(0)}, 2, 7),
        ({0: int64(7), 2: int16(2), **UNKNOWN}, 2, 7),
        (UNKNOWN, 0, -1),
    ],
    ids=[
        "4.0 without tags",
        "4.0 TV1",
        "4.x client TV1",
        "4.x at its last epoch",
        "KIP-939",
        "unknown tags too",
        "unknown only",
    ],
)
def test_tagged_fields(tags: dict[int, bytes], client_transaction_version: int, previous_producer_id: int) -> None:
    value = decode_value(version_1(1, topics=[(b"orders", [0, 5]), (b"bills", [2])], tags=tags, topic_tags=UNKNOWN))
    assert (value.client_transaction_version, value.previous_producer_id) == (
        client_transaction_version,
        previous_producer_id,
    )
    assert value.partitions == ("orders-0", "orders-5", "bills-2")
    assert (value.update_ms, value.start_ms) == (1_700_000_000_500, 1_700_000_000_000)


def test_many_partitions_and_long_names_need_longer_lengths() -> None:
    topic, numbers = b"t" * 249, list(range(300))
    for value in (version_0([(topic, numbers)]), version_1(1, topics=[(topic, numbers)])):
        partitions = decode_value(value).partitions
        assert (len(partitions), partitions[-1]) == (300, f"{topic.decode()}-299")


@pytest.mark.parametrize(
    ("status", "previous", "rotated"),
    [(4, 7, True), (5, 7, True), (4, 8, False), (4, -1, False), (0, 7, False), (1, 7, False)],
)
def test_only_an_end_under_another_producer_id_is_a_rotation(status: int, previous: int, rotated: bool) -> None:
    tags = {0: int64(previous), 2: int16(2)} if previous >= 0 else {2: int16(2)}
    assert decode_value(version_1(status, producer_id=8, epoch=0, tags=tags)).rotated is rotated


def test_a_changed_producer_id_at_the_end_is_the_same_transaction() -> None:
    states = [
        version_1(1, epoch=32766, topics=[(b"orders", [0])], tags={0: int64(7), 2: int16(2)}),
        version_1(2, epoch=32767, topics=[(b"orders", [0])], tags={0: int64(7), 1: int64(8), 2: int16(2)}),
        version_1(4, producer_id=8, epoch=0, topics=[], tags={0: int64(7), 2: int16(2)}),
    ]
    state = State()
    for value in states:
        apply(state, record_of("orders-0-41", decode_value(value), "log"))
    (transaction,) = state.broker.values()
    assert (transaction.identity.producer_id, transaction.ongoing_epoch, transaction.end_epoch) == (7, 32766, 32767)
    assert transaction.is_final
    assert not state.open


@pytest.mark.parametrize("cut", range(len(bytes.fromhex(FENCED_PREPARE_ABORT))))
def test_a_value_cut_short_anywhere_is_malformed(cut: int) -> None:
    with pytest.raises(MalformedRecord):
        decode_value(bytes.fromhex(FENCED_PREPARE_ABORT)[:cut])


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (b"\x00\x02" + bytes.fromhex(EMPTY)[2:], UnknownVersion, "version 2"),
        (bytes.fromhex(EMPTY) + b"\x00", MalformedRecord, "1 bytes too many"),
        (bytes.fromhex(EMPTY)[:16] + b"\x09" + bytes.fromhex(EMPTY)[17:], MalformedRecord, "status 9"),
        (bytes.fromhex(EMPTY)[:17] + b"\xff\xff\xff\xff\x7f", MalformedRecord, "claims"),
        (bytes.fromhex(EMPTY)[:17] + b"\xff" * 8, MalformedRecord, "more than 5 bytes"),
        (version_0([(b"\xff\xfe", [0])]), MalformedRecord, "not UTF-8"),
        (version_0([(b"t", [0])])[:21] + b"\xff\xff" + b"\x00" * 40, MalformedRecord, "names a topic of -1 bytes"),
        (version_1(1, tags={2: b"\x02"}), MalformedRecord, "1 bytes in tagged field 2, not 2"),
        (version_1(1, tags={0: b"\x00" * 9}), MalformedRecord, "9 bytes in tagged field 0, not 8"),
        (version_1(1)[:-1] + b"\x01\x09\x7f", MalformedRecord, "tagged field 9 beyond its end"),
        (version_1(1)[:17] + b"\x02\x00\x01\x00" + b"\x00" * 17, MalformedRecord, "names a topic of -1 bytes"),
    ],
)
def test_a_bad_value_says_what_is_wrong(value: bytes, error: type[MalformedRecord], says: str) -> None:
    with pytest.raises(error, match=says):
        decode_value(value)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (None, MalformedRecord),
        (b"\x00", MalformedRecord),
        (b"\x00\x01\x00\x01x", UnknownVersion),
        (b"\x00\x00\x00\x05x", MalformedRecord),
        (b"\x00\x00\x00\x01\xff", MalformedRecord),
    ],
)
def test_a_bad_key_says_what_is_wrong(key: bytes | None, error: type[MalformedRecord]) -> None:
    with pytest.raises(error):
        decode_key(key)
