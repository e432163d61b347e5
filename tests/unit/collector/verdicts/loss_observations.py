"""What a broker, a Flink and its jobs tell of transactions that may be lost: recorded once, and made up by numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collector.records.formats import flink_rest_answers
from collector.records.formats.flink_records import FlinkStatus
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import (
    BrokerRecord,
    Observation,
)
from collector.state import transaction_join
from collector.state.state import State
from collector.verdicts import loss_cases
from collector.verdicts.data_loss import (
    Loss,
    LossVerdict,
)
from collector.verdicts.verdict_case import DecisionLogStatus
from lifecycle.verdicts import Certainty
from tests.unit.collector.flink_observations import checkpoint
from tests.unit.collector.flink_recordings import CLUSTER, recorded
from tests.unit.collector.observations import (
    broker_record,
)

LOST, HARMLESS, NOT_LOST, UNKNOWN = LossVerdict.LOST, LossVerdict.HARMLESS, LossVerdict.NOT_LOST, LossVerdict.UNKNOWN
CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS


def judged(state: State, status: DecisionLogStatus = DecisionLogStatus.READABLE) -> dict[tuple[str, int | None], Loss]:
    """Return the losses by id and start."""
    found = loss_cases.judged(loss_cases.loss_inputs(state, status, transaction_join.views(state, settled=True)))
    return {(loss.view.transaction, loss.view.opened_ms): loss for loss in found}


def told_by_rest(name: str, **changes: Any) -> list[Observation]:
    """Return what one recorded look at Flink tells."""
    (job,) = flink_rest_answers.jobs(CLUSTER, recorded(f"{name}_jobs_overview"))
    told = flink_rest_answers.checkpoints(job, recorded(f"{name}_checkpoints"))
    seen = replace(
        job, restored_number=told.restored_number, restored_ms=told.restored_ms, restored_path=told.restored_path
    )
    return [*told.checkpoints, replace(seen, **changes)]


GONE = told_by_rest("first", state="GONE", ended_ms=1795280384000)
RESTORED = told_by_rest("restored")


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
