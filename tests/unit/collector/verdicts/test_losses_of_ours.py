"""What the decision log says of our aborts, and what an abort of another application proves by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import (
    CheckpointFile,
    CheckpointFileKind,
    Observation,
)
from collector.verdicts.data_loss import (
    Loss,
    LossVerdict,
)
from collector.verdicts.verdict_case import DecisionLogStatus
from lifecycle.decisions import Settled
from lifecycle.events import EventType
from lifecycle.verdicts import Certainty
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    broker_record,
    decided,
    event,
    folded,
    handle,
    outcome,
    run_started,
    transaction_event,
)
from tests.unit.collector.verdicts.loss_observations import (
    CERTAIN,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    UNKNOWN,
    judged,
)

COMMITS_FILE = CheckpointFile(
    pipeline=PREFIX, number=41, kind=CheckpointFileKind.COMMITS, at_ms=T0 + 90_000, modified_ns=1
)
REPLAY = handle("ip-count-1-1", slot=1, producer_id=9)
REPLAYED = [run_started(2, at=70_000, run="run-2"), decided(3, REPLAY, at=90_000, attempt=2)]
OURS: list[tuple[str, list[Observation], DecisionLogStatus, LossVerdict, Certainty, str]] = [
    (
        "decided and timed out",
        [decided(1, handle())],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "decision 1 lists it to be committed",
    ),
    ("never decided", [], DecisionLogStatus.READABLE, HARMLESS, CERTAIN, "its batch is written again"),
    ("the log cannot be read", [], DecisionLogStatus.UNREADABLE, UNKNOWN, GUESS, "the decision log cannot be read"),
    (
        "a decision that counts, the log unreadable now",
        [decided(1, handle())],
        DecisionLogStatus.UNREADABLE,
        LOST,
        CERTAIN,
        "decision 1",
    ),
    (
        "outcome lost",
        [decided(1, handle()), outcome(2, handle(), Settled.LOST)],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "decision 1",
    ),
    (
        "replayed since, as its checkpoint directory says",
        [decided(1, handle()), COMMITS_FILE],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "its batch was completed again",
    ),
    (
        "replayed since, as the log says",
        [decided(1, handle()), *REPLAYED, outcome(4, REPLAY, Settled.COMMITTED)],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "its batch was completed again",
    ),
    (
        "decided again, not committed yet",
        [decided(1, handle()), *REPLAYED],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "only a replay",
    ),
    (
        "an event claims that it was replayed",
        [decided(1, handle()), event(EventType.CHECKPOINT_COMPLETED, 90_000, batch=41)],
        DecisionLogStatus.READABLE,
        LOST,
        CERTAIN,
        "only a replay",
    ),
    (
        "a later batch was decided",
        [decided(1, handle()), decided(2, handle("ip-count-0-0", epoch=9), batch=42, at=95_000)],
        DecisionLogStatus.READABLE,
        HARMLESS,
        CERTAIN,
        "completed again",
    ),
]


@pytest.mark.parametrize(
    ("observed", "status", "verdict", "certainty", "says"), [c[1:] for c in OURS], ids=[c[0] for c in OURS]
)
def test_the_decision_log_tells_of_ours(
    observed: list[Observation], status: DecisionLogStatus, verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    aborted = [
        broker_record(BrokerStatus.ONGOING, 0),
        broker_record(BrokerStatus.PREPARE_ABORT, 61_000, epoch=5, version=2),
        broker_record(BrokerStatus.COMPLETE_ABORT, 61_004, epoch=5, version=2),
    ]
    told = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
    loss = judged(folded(run_started(0), *aborted, told, *observed), status)[("ip-count-0-1", T0)]
    assert (loss.verdict, loss.certainty, loss.checkpoint) == (verdict, certainty, 41), loss.why
    assert says in loss.why


def foreign(ended: int, moved: int = 0, partitions: Iterable[str] = ("sink-0",), **fields: Any) -> Loss:
    """Return the verdict about a transaction of an application that is nobody's."""
    named: dict[str, Any] = {"transaction": "shop-writer", "partitions": tuple(partitions), **fields}
    records = [broker_record(BrokerStatus.ONGOING, 0, **named)]
    records += [
        broker_record(status, ended, **{**named, "epoch": 4 + moved})
        for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    ]
    (loss,) = judged(folded(*records)).values()
    return loss


def test_of_others_only_what_proves_itself_is_claimed() -> None:
    assert (foreign(900).verdict, foreign(900).certainty) == (HARMLESS, LIKELY)
    assert "its own client gave it up" in foreign(900).why
    timed_out = foreign(61_000, moved=1)
    assert timed_out.verdict is UNKNOWN
    assert "only its owner knows" in timed_out.why
    assert foreign(900, moved=1).verdict is UNKNOWN
    with_offsets = foreign(61_000, moved=1, partitions=("out-0", "__consumer_offsets-7"))
    assert (with_offsets.verdict, with_offsets.certainty) == (HARMLESS, LIKELY)
    assert "reads that input again" in with_offsets.why


def test_an_abort_before_the_first_write_held_nothing() -> None:
    empty: dict[str, Any] = {"transaction": "shop-writer", "start": 5, "epoch": 5, "version": 2, "partitions": ()}
    records = [
        broker_record(status, 5, **empty) for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    ]
    (loss,) = judged(folded(*records)).values()
    assert (loss.verdict, loss.certainty) == (HARMLESS, CERTAIN)


def test_an_open_transaction_is_not_judged() -> None:
    assert judged(folded(broker_record(BrokerStatus.ONGOING, 0))) == {}
