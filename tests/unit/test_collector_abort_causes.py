"""Why a transaction was aborted, told from times, epochs and orders; a captured case beside each inference."""

from __future__ import annotations

import pytest

from collector.abort_causes import AbortClues, Cause, Certainty, infer
from collector.facts import Init
from collector.observations import Observation, OperatorOrder
from collector.transaction_state_records import BrokerStatus
from lifecycle.events import EventType
from tests.unit.collector_observations import (
    T0,
    broker_record,
    only_view,
    run_started,
    transaction_event,
)

FOREIGN = "flink-orders-3"


def ended(at: int, *, epoch: int = 4, version: int = 0, transaction: str = FOREIGN) -> list[Observation]:
    """Return a transaction of epoch 4 that was aborted ``at`` ms after its opening."""
    return [
        broker_record(BrokerStatus.ONGOING, 0, transaction=transaction),
        broker_record(BrokerStatus.PREPARE_ABORT, at, transaction=transaction, epoch=epoch, version=version),
        broker_record(BrokerStatus.COMPLETE_ABORT, at + 4, transaction=transaction, epoch=epoch, version=version),
    ]


def taken_over(at: int, epoch: int) -> tuple[Init, ...]:
    return (Init(at_ms=T0 + at, producer_id=0, producer_epoch=epoch),)


OURS = "ip-count-0-1"
TOLD = transaction_event(EventType.TRANSACTION_ABORTED, 900)
ORDER = OperatorOrder(key="k", action="abort", who="anna", at_ms=T0 + 890, audit=1)
COMMIT_ORDER = OperatorOrder(key="k", action="commit", who="anna", at_ms=T0 + 890, audit=1)
ROLLED_BACK = [*ended(890, epoch=5, version=2, transaction=OURS), run_started(0)]
ONLY_COMPLETE = [broker_record(BrokerStatus.COMPLETE_ABORT, 900, transaction=FOREIGN)]

CASES = [
    # name, observed, inits, order, cause, certainty
    ("epoch stays, before the timeout", ended(17), (), None, Cause.CLIENT, Certainty.LIKELY),
    ("epoch moved at the timeout", ended(60_850, epoch=5, version=2), (), None, Cause.TIMEOUT, Certainty.CERTAIN),
    ("epoch stays after the timeout", ended(60_850), (), None, Cause.TIMEOUT, Certainty.LIKELY),
    ("epoch moved and the id taken", ended(157, epoch=5, version=2), taken_over(663, 6), None, Cause.FENCED, Certainty.CERTAIN),
    ("epoch moved, nobody took the id", ended(157, epoch=5, version=2), (), None, Cause.FENCED, Certainty.LIKELY),
    ("id taken much later by a restart", ended(17), taken_over(9_000, 6), None, Cause.CLIENT, Certainty.LIKELY),
    ("id taken before", ended(500), taken_over(-10, 5), None, Cause.CLIENT, Certainty.LIKELY),
    ("our driver rolled back and told it", [*ROLLED_BACK, TOLD], (), None, Cause.CLIENT, Certainty.CERTAIN),
    ("our driver rolled back, untold", ROLLED_BACK, (), None, Cause.CLIENT, Certainty.LIKELY),
    ("an operator's order", ended(890, epoch=5, version=2), (), ORDER, Cause.OPERATOR, Certainty.CERTAIN),
    ("an operator's commit order is no abort", ended(17), (), COMMIT_ORDER, Cause.CLIENT, Certainty.LIKELY),
    ("only the end was seen", ONLY_COMPLETE, (), None, Cause.CLIENT, Certainty.GUESS),
    ("only told", [TOLD], (), None, Cause.CLIENT, Certainty.LIKELY),
    ("only told that it is lost", [transaction_event(EventType.TRANSACTION_LOST, 900)], (), None, Cause.UNKNOWN, Certainty.GUESS),
]  # fmt: skip


@pytest.mark.parametrize(
    ("observed", "inits", "order", "cause", "certainty"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_cause(
    observed: list[Observation],
    inits: tuple[Init, ...],
    order: OperatorOrder | None,
    cause: Cause,
    certainty: Certainty,
) -> None:
    assert infer(AbortClues(view=only_view(*observed), inits=inits, order=order)) == (cause, certainty)
