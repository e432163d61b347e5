"""The decoder of __transaction_state, on bytes captured from a Kafka 4.3.1 broker, and on broken ones."""

from __future__ import annotations

import struct

import pytest

from collector.transaction_state_records import BrokerStatus, decode_key, decode_value
from lifecycle.errors import MalformedRecord, UnknownVersion

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


def version_0(topics: list[tuple[bytes, list[int]]] | None) -> bytes:
    """Return a value as brokers before 4.0 write it: plain arrays and strings, no tagged fields."""
    raw = struct.pack(">hqhib", 0, 7, 3, 60_000, 1) + struct.pack(">i", -1 if topics is None else len(topics))
    for topic, partitions in topics or []:
        raw += (
            struct.pack(">h", len(topic)) + topic + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        )
    return raw + struct.pack(">qq", 1_700_000_000_500, 1_700_000_000_000)


def test_key_is_the_transactional_id() -> None:
    assert decode_key(KEY) == "commit-me"


@pytest.mark.parametrize(
    ("captured", "status", "epoch", "partitions", "start_ms", "client_version"),
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
    captured: str, status: BrokerStatus, epoch: int, partitions: tuple[str, ...], start_ms: int, client_version: int
) -> None:
    value = decode_value(bytes.fromhex(captured))
    assert (value.status, value.producer_epoch, value.partitions) == (status, epoch, partitions)
    assert (value.start_ms, value.client_version) == (start_ms, client_version)


def test_captured_times_and_timeout() -> None:
    value = decode_value(bytes.fromhex(TIMEOUT_COMPLETE_ABORT))
    assert (value.producer_id, value.timeout_ms, value.update_ms) == (2, 3000, 1795255603812)


def test_version_0_has_plain_arrays() -> None:
    value = decode_value(version_0([(b"orders", [0, 5]), (b"bills", [2])]))
    assert value.partitions == ("orders-0", "orders-5", "bills-2")
    assert (value.producer_id, value.producer_epoch, value.start_ms) == (7, 3, 1_700_000_000_000)


def test_version_0_with_null_partitions_has_none() -> None:
    assert decode_value(version_0(None)).partitions == ()


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
