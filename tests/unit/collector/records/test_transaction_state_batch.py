"""Decoding many records of __transaction_state at once says the same as decoding them one by one, or leaves them to that."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from indoubt.collector.records.formats import transaction_state_batch
from indoubt.collector.records.formats.transaction_state import TransactionStateValue, decode_key, decode_value
from indoubt.collector.records.formats.transaction_state_batch import StateColumns, StateDecoder
from indoubt.lifecycle.errors import MalformedRecord
from tests.unit.collector.records.test_transaction_state import (
    COMPLETE_COMMIT,
    EMPTY,
    FENCED_PREPARE_ABORT,
    KEY,
    ONGOING,
    PREPARE_COMMIT,
    TIMEOUT_COMPLETE_ABORT,
    UNKNOWN,
    int16,
    version_0,
    version_1,
)

CAPTURED = [
    bytes.fromhex(text)
    for text in (EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, FENCED_PREPARE_ABORT, TIMEOUT_COMPLETE_ABORT)
]
PLAIN = [version_0([(b"orders", [0, 5]), (b"bills", [2])]), version_0(None), version_0([])]
LONG_NAME = bytes.fromhex(EMPTY)[:17] + b"\x02\xc9\x01" + b"t" * 200 + b"\x02\0\0\0\0\0" + bytes(16) + b"\0"
MANY_TOPICS = bytes.fromhex(EMPTY)[:17] + b"\x0d" + b"\x02t\x02\0\0\0\0\0" * 12 + bytes(16) + b"\0"


def key(transaction: bytes) -> bytes:
    return struct.pack(">hh", 0, len(transaction)) + transaction


def one_by_one(pair: tuple[bytes | None, bytes | None]) -> tuple[str, TransactionStateValue] | None:
    """Return what the decoder of single records says; None for what it refuses, and for a tombstone."""
    try:
        transaction = decode_key(pair[0])
        return None if pair[1] is None else (transaction, decode_value(pair[1]))
    except MalformedRecord:
        return None


def rows(columns: StateColumns) -> list[tuple[object, ...]]:
    numbers = (
        columns.producer_id,
        columns.producer_epoch,
        columns.timeout_ms,
        columns.status,
        columns.update_ms,
        columns.start_ms,
        columns.client_transaction_version,
        columns.previous_producer_id,
    )
    sets = [columns.partition_sets[number] for number in columns.partition_set]
    return list(zip(columns.transaction.to_pylist(), sets, *(n.tolist() for n in numbers), strict=True))


def row(decoded: tuple[str, TransactionStateValue]) -> tuple[object, ...]:
    transaction, v = decoded
    numbers = (v.producer_id, v.producer_epoch, v.timeout_ms, v.status.value, v.update_ms, v.start_ms)
    return (transaction, v.partitions, *numbers, v.client_transaction_version, v.previous_producer_id)


def check(pairs: Sequence[tuple[bytes | None, bytes | None]], decoder: StateDecoder) -> np.ndarray:
    """Decode both ways: what the batch takes must be as the single decoder says it, and nothing broken is taken."""
    columns, flags = decoder.decode([k for k, _ in pairs], [v for _, v in pairs])
    taken = [one_by_one(pair) for pair, flag in zip(pairs, flags, strict=True) if flag]
    assert all(decoded is not None for decoded in taken)
    assert rows(columns) == [row(decoded) for decoded in taken if decoded is not None]
    return flags


def test_what_brokers_write_is_taken() -> None:
    flags = check([(KEY, value) for value in [*CAPTURED, *PLAIN, LONG_NAME, MANY_TOPICS]], StateDecoder())
    assert flags.all()


def test_a_producer_with_a_two_phase_commit_of_its_own_has_no_timeout() -> None:
    value = struct.pack(">hqhi", 1, 7, 3, 2**31 - 1) + version_1(1)[struct.calcsize(">hqhi") :]
    check([(KEY, value), (KEY, version_1(1))], decoder := StateDecoder())
    columns, _ = decoder.decode([KEY, KEY], [value, version_1(1)])
    assert columns.timeout_ms.tolist() == [0, 60_000]


def test_layouts_that_are_rare_among_many_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_state_batch, "_MAX_LAYOUTS", 2)
    flags = check([(KEY, value) for value in [*CAPTURED, *PLAIN]], StateDecoder())
    assert 2 <= flags.sum() < len(flags)


def test_unknown_tagged_fields_are_passed_over_in_columns_too() -> None:
    values = [version_1(1, topics=[(b"t", [0])], tags={2: int16(2), **UNKNOWN}, topic_tags=UNKNOWN), version_1(1)]
    assert check([(KEY, value) for value in values], StateDecoder()).all()


def test_tombstones_and_what_is_out_of_the_ordinary_are_left() -> None:
    odd = [(KEY, None), (None, CAPTURED[0]), (key(b"\xff"), CAPTURED[0])]
    odd += [(b"\0\1\0\1x", CAPTURED[0]), (b"\0\0\0\5x", CAPTURED[0]), (b"", CAPTURED[0]), (KEY, b"")]
    odd += [(KEY, b"\0\2" + CAPTURED[0][2:]), (KEY, CAPTURED[0] + b"\0"), (KEY, version_0([(b"\xff", [0])]))]
    pairs = [pair for one in odd for pair in (one, (KEY, CAPTURED[1]))]
    assert check(pairs, StateDecoder()).tolist() == [False, True] * len(odd)


def test_nothing_at_all_and_nothing_ordinary() -> None:
    assert check([], StateDecoder()).tolist() == []
    assert check([(KEY, None)], StateDecoder()).tolist() == [False]


@pytest.mark.parametrize("seed", range(40))
def test_bytes_broken_anywhere_are_never_misread(seed: int) -> None:
    chance, decoder = random.Random(seed), StateDecoder()
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for _ in range(300):
        value = bytearray(chance.choice([*CAPTURED, *PLAIN, LONG_NAME]))
        for _ in range(chance.choice((0, 0, 1, 1, 3))):
            value[chance.randrange(len(value))] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
        cut = chance.choice((len(value), len(value), chance.randrange(len(value) + 1)))
        pairs.append((chance.choice((KEY, key(b"a"), key("ü".encode()))), bytes(value[:cut])))
    flags = check(pairs, decoder)
    whole = sum(one_by_one(pair) is not None for pair in pairs)
    assert flags.sum() >= 0.8 * whole, "most of what can be read is ordinary"
