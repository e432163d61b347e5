"""States in columns mean the same as states one by one: for current state and for history."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from indoubt.collector.facts.fold import apply, put_records
from indoubt.collector.facts.state import State
from indoubt.collector.history import row_coding
from indoubt.collector.observe.transaction_state_log import record_of
from indoubt.collector.records.broker_record_batch import BrokerRecords, records_of
from indoubt.collector.records.formats.transaction_state import BrokerStatus, decode_key, decode_value
from indoubt.collector.records.formats.transaction_state_batch import StateDecoder
from indoubt.collector.records.observations import BrokerRecord, Observed, Position

SOURCE, PARTITIONS = "__transaction_state", 3
ID_COUNT, TOPICS = 7, ("orders", "bills")
EITHER = [BrokerStatus.EMPTY, BrokerStatus.ONGOING]
COMMITTING = [*EITHER, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT]
ABORTING = [*EITHER, BrokerStatus.PREPARE_ABORT, BrokerStatus.PREPARE_EPOCH_FENCE, BrokerStatus.COMPLETE_ABORT]


def stored(chance: random.Random, now: int) -> tuple[bytes, bytes]:
    """Return a record as a broker writes it: any state of one of a few ids, in a few transactions."""
    transaction = f"app-{chance.randrange(ID_COUNT)}".encode()
    producer = chance.randrange(3)
    status = chance.choice(COMMITTING if producer else ABORTING)
    start = -1 if status is BrokerStatus.EMPTY else chance.choice((1_000, 2_000, now // 100 * 100))
    epoch = 2 * (start // 100) + (status is not BrokerStatus.ONGOING)  # transaction version 2: it moves at the end
    topics = [t for t in TOPICS if chance.random() < 0.5]
    raw = struct.pack(">hqhib", 1, producer, epoch, 60_000, status.value) + bytes([len(topics) + 1])
    for topic in topics:
        numbers = range(chance.randrange(1, 3))
        raw += bytes([len(topic) + 1]) + topic.encode() + bytes([len(numbers) + 1])
        raw += struct.pack(f">{len(numbers)}i", *numbers) + b"\0"
    previous = chance.choice((-1, producer, 9 + producer))
    raw += struct.pack(">qq", now, start) + b"\2\0\x08" + struct.pack(">q", previous) + b"\2\2\0\2"
    return struct.pack(">hh", 0, len(transaction)) + transaction, raw


def both(seed: int, count: int) -> tuple[list[Observed], BrokerRecords]:
    chance = random.Random(seed)
    pairs = [stored(chance, now) for now in range(10_000, 10_000 + count)]
    states, ordinary = StateDecoder().decode([k for k, _ in pairs], [v for _, v in pairs])
    assert ordinary.all()
    offset = np.arange(count, dtype=np.int64)
    records = records_of(SOURCE, offset % PARTITIONS, offset, states)
    one_by_one = [
        Observed(
            position=Position(source=SOURCE, partition=n % PARTITIONS, offset=n),
            observation=record_of(decode_key(k), decode_value(v), SOURCE),
        )
        for n, (k, v) in enumerate(pairs)
    ]
    return one_by_one, records


@pytest.mark.parametrize("seed", range(20))
def test_current_state_is_the_same(seed: int) -> None:
    one_by_one, records = both(seed, 200)
    expected, found = State(), State()
    for observed in one_by_one:
        apply(expected, observed.observation)
    put_records(found, records)
    assert found == expected


@pytest.mark.parametrize("kept", [5, 40])
def test_settled_transactions_leave_memory_and_open_ones_stay(kept: int) -> None:
    one_by_one, records = both(1, 4_000)
    state = State(settled_kept=kept)
    put_records(state, records)
    everything = State()
    for observed in one_by_one:
        apply(everything, observed.observation)
    still_open = {identity for identity in everything.open if identity == everything.latest_of_id[identity.transaction]}
    assert still_open <= state.broker.keys()
    assert len(state.ended.identities) <= 2 * kept < len(everything.ended.identities)
    assert len(state.broker) <= 2 * kept + len(still_open)


def test_history_is_the_same() -> None:
    one_by_one, records = both(3, 200)
    rows = [row_coding.row(observed)[1] for observed in one_by_one]
    assert all(isinstance(observed.observation, BrokerRecord) for observed in one_by_one)
    assert row_coding.records_table(records).equals(row_coding.arrow_table("transaction_records", rows))


def test_no_states_are_no_rows() -> None:
    states, _ = StateDecoder().decode([], [])
    records = records_of(SOURCE, np.array([], np.int64), np.array([], np.int64), states)
    state = State()
    put_records(state, records)
    assert (state, row_coding.records_table(records).num_rows) == (State(), 0)
