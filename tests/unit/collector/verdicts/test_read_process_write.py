"""Open transactions of Kafka Streams and Connect: an abort loses nothing, and is due once their owner is silent."""

from __future__ import annotations

from typing import Any

import pytest

from collector.records.facts import CONSUMER_OFFSETS
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import BrokerRecord, IdExpired
from collector.state.fold import apply
from collector.state.state import State
from collector.state.transaction_join import views
from collector.verdicts.judging import EvaluationContext, judged
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from lifecycle.verdicts import Judgement, Verdict
from tests.unit.collector.observations import T0, broker_record

STREAMS, CONNECT = "shop-6c2a-1", "connect-cluster-lake-orders-0"
OFFSETS = (f"{CONSUMER_OFFSETS}7", "out-0")


def one(status: BrokerStatus, at: int, start: int, partitions: tuple[str, ...] = OFFSETS, **more: Any) -> BrokerRecord:
    return broker_record(status, at, **{"transaction": STREAMS, "start": start, "partitions": partitions, **more})


COMMITTED = [one(BrokerStatus.ONGOING, 0, 0), one(BrokerStatus.COMPLETE_COMMIT, 2_000, 0)]
OPEN, OPEN_BEFORE_OFFSETS = (
    one(BrokerStatus.ONGOING, 10_000, 10_000),
    one(BrokerStatus.ONGOING, 10_000, 10_000, ("out-0",)),
)


def judgement(seen: list[Any], at: int) -> Judgement:
    """Return the verdict of the one open transaction."""
    state = State()
    for observation in seen:
        apply(state, observation)
    context = EvaluationContext(limits=Limits(), log_status=(DecisionLogStatus.ABSENT, ""), now_ms=T0 + at)
    (found,) = judged(context.cases(state, [view for view in views(state, settled=False) if view.is_running]))
    return found.judgement


@pytest.mark.parametrize(
    ("seen", "at", "verdict", "rule"),
    [
        ([*COMMITTED, OPEN], 15_900, Verdict.IN_PROGRESS, 29),
        ([*COMMITTED, OPEN], 16_100, Verdict.ABORT_IT, 28),
        ([*COMMITTED, OPEN_BEFORE_OFFSETS], 16_100, Verdict.ABORT_IT, 28),
        ([OPEN], 39_000, Verdict.IN_PROGRESS, 29),
        ([OPEN], 41_000, Verdict.ABORT_IT, 28),
        ([OPEN_BEFORE_OFFSETS], 41_000, Verdict.FOREIGN, 7),
        ([*COMMITTED, IdExpired(transaction=STREAMS), OPEN_BEFORE_OFFSETS], 41_000, Verdict.FOREIGN, 7),
        ([one(BrokerStatus.ONGOING, 0, 0, ("out-0",), transaction=CONNECT)], 31_000, Verdict.ABORT_IT, 28),
        ([one(BrokerStatus.ONGOING, 0, 0, transaction="pipeline-0-1")], 31_000, Verdict.FOREIGN, 7),
    ],
    ids=[
        "within 3 of its longest",
        "longer than 3 of its longest",
        "its offsets are yet to come",
        "none committed yet, young",
        "none committed yet, old",
        "no offsets seen",
        "its id was forgotten since",
        "a task of Connect",
        "an id of our form, of another decision log perhaps",
    ],
)
def test_case(seen: list[Any], at: int, verdict: Verdict, rule: int) -> None:
    found = judgement(seen, at)
    assert (found.verdict, found.rule) == (verdict, rule)
    assert found.may_abort is (verdict is not Verdict.IN_PROGRESS)
    assert found.loses_data is (verdict is Verdict.FOREIGN), "only a foreign abort takes a typed confirmation"
    assert not found.may_commit
