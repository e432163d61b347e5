"""What the decision log says of our aborts, and what an abort of another application proves by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    CheckpointFile,
    CheckpointFileKind,
    Observation,
)
from indoubt.collector.verdicts.data_loss import (
    Loss,
    LossVerdict,
)
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import Certainty
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
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import (
    CERTAIN,
    GUESS,
    HARMLESS,
    LIKELY,
    LOST,
    UNKNOWN,
    WRITTEN_AGAIN,
    check,
    judged,
)

COMMITS_FILE = CheckpointFile(
    pipeline=PREFIX, number=41, kind=CheckpointFileKind.COMMITS, at_ms=T0 + 90_000, modified_ns=1
)
REPLAY = handle("ip-count-1-1", slot=1, producer_id=9)
REPLAYED = [run_started(2, at=70_000, run="run-2"), decided(3, REPLAY, at=90_000, attempt=2)]
DECIDED = decided(1, handle())
READABLE, UNREADABLE = DecisionLogStatus.READABLE, DecisionLogStatus.UNREADABLE
OURS = [
    # name; what else was seen of one that timed out; the decision log; whether it was lost, how sure that is, what tells it
    ("decided and timed out", [DECIDED], READABLE, LOST, CERTAIN, "decided to be committed (log entry 1), then aborted"),
    ("never decided", [], READABLE, HARMLESS, CERTAIN, "the next run writes its batch again"),
    ("the log cannot be read", [], UNREADABLE, UNKNOWN, GUESS, "the decision log cannot be read"),
    ("a decision that counts, the log unreadable now", [DECIDED], UNREADABLE, LOST, CERTAIN, "log entry 1"),
    ("outcome lost", [DECIDED, outcome(2, handle(), Settled.LOST)], READABLE, LOST, CERTAIN, "log entry 1"),
    ("replayed since, as its checkpoint directory says", [DECIDED, COMMITS_FILE],
        READABLE, WRITTEN_AGAIN, CERTAIN, "a later run wrote its rows again at"),
    ("replayed since, as the log says", [DECIDED, *REPLAYED, outcome(4, REPLAY, Settled.COMMITTED)],
        READABLE, WRITTEN_AGAIN, CERTAIN, "a later run wrote its rows again at"),
    ("decided again, not committed yet", [DECIDED, *REPLAYED], READABLE, LOST, CERTAIN, "a restart of its pipeline"),
    ("an event claims that it was replayed", [DECIDED, event(EventType.CHECKPOINT_COMPLETED, 90_000, batch=41)],
        READABLE, LOST, CERTAIN, "a restart of its pipeline"),
    ("a later batch was decided", [DECIDED, decided(2, handle("ip-count-0-0", epoch=9), batch=42, at=95_000)],
        READABLE, WRITTEN_AGAIN, CERTAIN, "wrote its rows again at"),
]  # fmt: skip


@table("observed, status, verdict, certainty, says", OURS)
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
    check(loss, verdict, certainty, says)
    assert loss.checkpoint == 41


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


OTHERS = [
    ("its epoch stays", foreign(900), HARMLESS, LIKELY, "its own client gave it up"),
    ("it timed out", foreign(61_000, moved=1), UNKNOWN, GUESS, "only its owner knows"),
    ("another one ended it", foreign(900, moved=1), UNKNOWN, GUESS, "only its owner knows"),
    ("it held offsets", foreign(61_000, moved=1, partitions=("out-0", "__consumer_offsets-7")), HARMLESS, LIKELY,
        "reads that input again"),
]  # fmt: skip


@table("loss, verdict, certainty, says", OTHERS)
def test_of_others_only_what_proves_itself_is_claimed(
    loss: Loss, verdict: LossVerdict, certainty: Certainty, says: str
) -> None:
    check(loss, verdict, certainty, says)


def test_an_abort_before_the_first_write_held_nothing() -> None:
    empty: dict[str, Any] = {"transaction": "shop-writer", "start": 5, "epoch": 5, "version": 2, "partitions": ()}
    records = [
        broker_record(status, 5, **empty) for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    ]
    (loss,) = judged(folded(*records)).values()
    assert (loss.verdict, loss.certainty) == (HARMLESS, CERTAIN)


def test_an_open_transaction_is_not_judged() -> None:
    assert judged(folded(broker_record(BrokerStatus.ONGOING, 0))) == {}
