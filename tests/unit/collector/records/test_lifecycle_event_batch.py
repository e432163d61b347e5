"""Decoding and folding many lifecycle events at once says the same as one by one, or leaves them to that."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np
import pytest

from indoubt.collector.facts.fold import apply, put_events
from indoubt.collector.facts.state import State
from indoubt.collector.history import row_coding
from indoubt.collector.records import event_reports
from indoubt.collector.records.formats import lifecycle_event_batch
from indoubt.collector.records.observations import EventSeen, Observed, Position
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.events import EventType, LifecycleEvent, decode, encode
from tests.unit.collector.observations import T0, handle

TOLD = [type_ for type_ in EventType if type_.value.startswith("transaction.")]
OF_CHECKPOINTS = [type_ for type_ in EventType if type_.value.startswith("checkpoint.")]


def told(chance: random.Random, type_: EventType | None = None, **changes: object) -> bytes:
    """Return an event of one of a few transactions as a pipeline tells it."""
    slot, batch = chance.randrange(3), chance.randrange(4)
    transaction, type_ = f"ip-count-{slot}-{batch % 2}", type_ or chance.choice(TOLD)
    data: dict[str, object] = {
        "pipeline": chance.choice(("ip-count", "wörter")),
        "checkpoint_id": "l",
        "attempt": 0,
        "batch": batch,
    }
    data |= {"slot": slot, "transaction": transaction, "producer_id": slot, "producer_epoch": batch}
    data |= {"resource_manager": "kafka", "more": {"nobody": ["knows"]}}
    if type_ is EventType.TRANSACTION_PREPARED:
        data["handle"] = handle(transaction, epoch=batch, slot=slot, producer_id=slot).to_json()
    if type_ is EventType.TRANSACTION_LOST:
        data["reason"] = chance.choice(("timed out", "rolled back by hand"))
    event = LifecycleEvent(
        type=type_, source="/p", subject=transaction, at_ms=T0 + chance.randrange(5_000), data=data | changes
    )
    return encode(event)


def told_of_checkpoint(chance: random.Random, type_: EventType | None = None, **changes: object) -> bytes:
    """Return an event of one of a few checkpoints as a pipeline tells it."""
    type_ = type_ or chance.choice(OF_CHECKPOINTS)
    data: dict[str, object] = {
        "pipeline": chance.choice(("ip-count", "wörter")),
        "checkpoint_id": "l",
        "attempt": 0,
        "batch": chance.randrange(4),
    }
    if type_ is EventType.CHECKPOINT_COMPLETED:
        data |= {"rows": chance.randrange(9), "bytes": 7, "duration_ms": chance.randrange(900)}
        del data[chance.choice(("rows", "duration_ms", "bytes", "checkpoint_id"))]
    if type_ is EventType.CHECKPOINT_FAILED:
        data["reason"] = chance.choice(("timed out", "it broke"))
    at_ms = T0 + chance.randrange(50)
    return encode(LifecycleEvent(type=type_, source="/p", subject="checkpoint", at_ms=at_ms, data=data | changes))


def changed(value: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(value), **fields}, separators=(",", ":")).encode()


def check(values: Sequence[bytes | None]) -> list[int]:
    """Decode both ways and fold both ways; return the numbers of the events that were taken in columns."""
    columns, numbers = lifecycle_event_batch.decode(values)
    expected, found = State(), State()
    rows = []
    for number in numbers.tolist():
        event = decode(values[number])
        apply(expected, EventSeen(event=event))
        position = Position(source="topic", partition=number % 3, offset=number)
        raw = (values[number] or b"").decode()
        rows.append(row_coding.row(Observed(position=position, observation=EventSeen(event=event), raw=raw))[1])
    put_events(found, columns)
    assert found == expected
    table = row_coding.events_table("topic", numbers % 3, numbers, columns)
    assert table.equals(row_coding.arrow_table("lifecycle_events", rows)) if rows else table.num_rows == 0
    return [int(number) for number in numbers]


@pytest.mark.parametrize("seed", range(20))
def test_events_of_transactions_mean_the_same(seed: int) -> None:
    chance = random.Random(seed)
    assert check([told(chance) for _ in range(300)]) == list(range(300))


@pytest.mark.parametrize("seed", range(10))
def test_events_of_checkpoints_mean_the_same(seed: int) -> None:
    chance = random.Random(seed)
    assert check([chance.choice((told, told_of_checkpoint))(chance) for _ in range(300)]) == list(range(300))
    assert check([told_of_checkpoint(chance) for _ in range(50)]) == list(range(50))


def test_groups_that_come_in_parts_fold_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reports, "_MIXING", np.uint64(0))
    chance = random.Random(0)
    assert check([told(chance) for _ in range(300)]) == list(range(300))


def test_nulls_line_ends_and_what_no_event_of_a_type_has_change_nothing() -> None:
    chance = random.Random(0)
    values = [
        told(chance, EventType.TRANSACTION_PREPARED, handle=None),
        told(chance, EventType.TRANSACTION_LOST, reason=None, settings=[]),
        told_of_checkpoint(chance, EventType.CHECKPOINT_FAILED, reason=None, settings=None),
        told_of_checkpoint(chance, EventType.CHECKPOINT_COMPLETED, rows=None),
        json.dumps(json.loads(told(chance)), indent=2).encode(),
        *(told(chance) for _ in range(20)),
    ]
    assert check(values) == list(range(len(values)))


ODD: list[bytes | None] = [
    None,
    b"",
    b"{bad",
    b"{} {}",
    b'{"a":"}',
    b"[]",
    b'{"a":1}\n{"a":2}',
    *(
        told_of_checkpoint(random.Random(0), type_, **{name: value})
        for type_, name, value in (
            (EventType.CHECKPOINT_STARTED, "batch", None),
            (EventType.CHECKPOINT_STARTED, "batch", "1"),
            (EventType.CHECKPOINT_STARTED, "pipeline", ""),
            (EventType.CHECKPOINT_COMPLETED, "rows", "many"),
            (EventType.CHECKPOINT_COMPLETED, "duration_ms", 2**60),
            (EventType.CHECKPOINT_FAILED, "reason", 7),
        )
    ),
    encode(
        LifecycleEvent(type=EventType.CHECKPOINT_FAILED, source="/p", subject="s", at_ms=T0, data={"pipeline": "p"})
    ),
    encode(
        LifecycleEvent(
            type=EventType.PIPELINE_STARTED, source="/p", subject="s", at_ms=T0, data={"pipeline": "p", "settings": {}}
        )
    ),
    *(
        told(random.Random(0), EventType.TRANSACTION_OPENED, **{name: value})
        for name, value in (
            ("producer_id", None),
            ("handle", {}),
            ("handle", handle("ip-count-9-1", epoch=7, slot=9, producer_id=9).to_json()),
            ("pipeline", ""),
            ("pipeline", 7),
            ("batch", "1"),
            ("batch", 1.5),
            ("batch", True),
            ("attempt", 2**70),
            ("checkpoint_id", 3),
            ("transaction", "\ud800"),
        )
    ),
    *(
        changed(told(random.Random(0)), **{name: value})
        for name, value in (
            ("specversion", "2.0"),
            ("id", ""),
            ("id", 3),
            ("type", "io.indoubt.transaction.exploded"),
            ("type", "transaction.opened"),
            ("time", "yesterday"),
            ("time", "2026-11-21T12:00:00"),
            ("time", "1969-11-21T12:00:00Z"),
            ("data", []),
        )
    ),
    told(random.Random(0)).replace(b"ip-count", b"\xff"),
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_what_is_out_of_the_ordinary_is_left_and_spoils_few_others(number: int) -> None:
    chance = random.Random(number)
    values: list[bytes | None] = [told(chance) for _ in range(200)]
    values[70] = ODD[number]
    taken = check(values)
    assert 70 not in taken
    assert len(taken) >= 200 - 2 * lifecycle_event_batch.SMALLEST


@pytest.mark.parametrize("seed", range(20))
def test_bytes_broken_anywhere_are_never_misread(seed: int) -> None:
    chance = random.Random(seed)
    values: list[bytes | None] = []
    for _ in range(200):
        value = bytearray(told(chance))
        if chance.random() < 0.03:
            value[chance.randrange(len(value))] = chance.choice(b'{}",:\\0\xff\n ')
        values.append(bytes(value))
    taken = check(values)  # decodes what was taken one by one, which raises for anything that is malformed
    assert len(taken) > 50


def test_nothing_is_nothing() -> None:
    assert check([]) == []
    with pytest.raises(MalformedRecord):
        decode(None)
    assert np.array(check([told(random.Random(0))] * 3)).size == 0, "so few are decoded one by one"
