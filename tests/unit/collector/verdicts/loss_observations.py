"""What a broker, a Flink and its jobs tell of transactions that may be lost: recorded once, and made up by numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.state import State
from indoubt.collector.records.formats import flink_rest_answers
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkJob, FlinkStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BrokerRecord,
    Observation,
)
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.data_loss import (
    Loss,
    LossVerdict,
)
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint, job
from tests.unit.collector.flink_recordings import CLUSTER, recorded
from tests.unit.collector.observations import T0, broker_record, folded

LOST, HARMLESS, NOT_LOST, UNKNOWN = LossVerdict.LOST, LossVerdict.HARMLESS, LossVerdict.NOT_LOST, LossVerdict.UNKNOWN
TWICE, WRITTEN_AGAIN = LossVerdict.DUPLICATED, LossVerdict.WRITTEN_AGAIN
CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


def judged(state: State, status: DecisionLogStatus = DecisionLogStatus.READABLE) -> dict[tuple[str, int | None], Loss]:
    """Return the losses by id and start."""
    found = loss_cases.judged(loss_cases.loss_inputs(state, status, transaction_join.views(state, settled=True)))
    return {(loss.view.transaction, loss.view.opened_ms): loss for loss in found}


def check(loss: Loss, verdict: LossVerdict, certainty: Certainty, says: str) -> None:
    """Hold a row of a table: what became of it, how sure that is, and what tells it."""
    assert (loss.verdict, loss.certainty) == (verdict, certainty), loss.why
    assert says in loss.why


def folded_with_lists(given: Iterable[Observation | FlinkCommittables]) -> State:
    """Return what a collector knows of all that is given; the lists on disk are read last."""
    given = list(given)
    state = folded(*(each for each in given if not isinstance(each, FlinkCommittables)))
    state.flink.see_polled(CLUSTER, 0, answered=True)
    for each in given:
        if isinstance(each, FlinkCommittables):
            state.flink.see_committables(each)
    return state


def told_by_rest(name: str, **changes: Any) -> list[Observation]:
    """Return what one recorded look at Flink tells."""
    (listed,) = flink_rest_answers.jobs(CLUSTER, recorded(f"{name}_jobs_overview"))
    told = flink_rest_answers.checkpoints(listed, recorded(f"{name}_checkpoints"))
    seen = replace(
        listed, restored_number=told.restored_number, restored_ms=told.restored_ms, restored_path=told.restored_path
    )
    return [*told.checkpoints, replace(seen, **changes)]


GONE = told_by_rest("first", state="GONE", ended_ms=1795280384000)
RESTORED = told_by_rest("restored")


def restored(number: int, at: int, path: str = "", id_: str = "c" * 32, name: str = "orders") -> FlinkJob:
    """Return a job that was restored from a checkpoint, of the first job unless its path says otherwise."""
    path = path or f"s3://b/{'a' * 32}/chk-{number}"
    return job(id_, name=name, restored=number, restored_at=at, started_ms=T0 + at - 1_000, restored_path=path)


def taken(at: int, number: int = 3) -> Observation:
    """Return that a producer takes an id."""
    named = {"transaction": f"sink-0-{number}", "producer_id": number, "epoch": 6}
    return broker_record(BrokerStatus.EMPTY, at, start=None, partitions=(), **named)  # type: ignore[arg-type]


PENDING, DONE, FAILED = FlinkStatus.IN_PROGRESS, FlinkStatus.COMPLETED, FlinkStatus.FAILED
TIMED_OUT = (82_500, 1)
"""When it ended and by how much its epoch moved."""


def transaction(
    number: int, opened: int, ended: int, *, subtask: int = 0, moved: int = 0, committed: bool = False
) -> list[BrokerRecord]:
    named: dict[str, Any] = {
        "transaction": f"sink-{subtask}-{number}",
        "producer_id": 100 * subtask + number,
        "start": opened,
    }
    end = (
        (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
        if committed
        else (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    )
    records = [broker_record(BrokerStatus.ONGOING, opened, **named)]
    return records + [broker_record(status, ended, epoch=4 + moved, **named) for status in end]


EARLIER = [*transaction(1, 2_000, 11_100, committed=True), *transaction(2, 11_000, 21_100, committed=True)]
COMMITS = [*transaction(0, 100, 1_100, committed=True), *EARLIER]
THIS = transaction(3, 21_500, *TIMED_OUT[:1], moved=TIMED_OUT[1])
BEFORE = [checkpoint(0), checkpoint(1), checkpoint(2)]
SINK = [*COMMITS, *BEFORE]
"""What a sink with ids that count up has done before, and what its job told of it."""
OVER = job(state="CANCELED")
