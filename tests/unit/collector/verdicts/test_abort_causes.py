"""Why a transaction was aborted, told from times, epochs and orders; a captured case beside each inference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.records.facts import Init
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import DecisionSeen, Observation, OperatorOrder
from collector.verdicts.abort_causes import AbortClues, Certainty, explain, infer
from lifecycle.decisions import Ruling
from lifecycle.events import EventType
from lifecycle.verdicts import AbortCause as Cause
from tests.unit.collector.observations import (
    T0,
    batch_attempt,
    broker_record,
    decided,
    handle,
    only_view,
    run_started,
    transaction_event,
)

FOREIGN = "flink-orders-3"
LOG, POLLED = "__transaction_state", "transaction polling"


def ended(
    at: int, *, moved: int = 0, begun: int = 0, version: int = 0, transaction: str = FOREIGN, source: str = LOG
) -> list[Observation]:
    """Return a transaction of epoch 4 that was aborted ``at`` ms after its opening, its epoch ``moved`` on.

    ``begun`` is the writer's transaction version, ``version`` that of the end's records.
    """
    records = [
        broker_record(BrokerStatus.ONGOING, 0, transaction=transaction, version=begun),
        broker_record(BrokerStatus.PREPARE_ABORT, at, transaction=transaction, epoch=4 + moved, version=version),
        broker_record(BrokerStatus.COMPLETE_ABORT, at + 4, transaction=transaction, epoch=4 + moved, version=version),
    ]
    return [replace(record, source=source) for record in records]


def taken_over(at: int, epoch: int, producer_id: int = 0) -> tuple[Init, ...]:
    return (Init(at_ms=T0 + at, producer_id=producer_id, producer_epoch=epoch),)


OURS = "ip-count-0-1"
TOLD = transaction_event(EventType.TRANSACTION_ABORTED, 900)
ORDER = OperatorOrder(key="k", action="abort", who="anna", at_ms=T0 + 890, audit=1)
COMMIT_ORDER = OperatorOrder(key="k", action="commit", who="anna", at_ms=T0 + 890, audit=1)
ROLLED_BACK = [*ended(890, moved=1, version=2, transaction=OURS), run_started(0)]
LATE = ended(60_850, moved=1)
OURS_LATE = [*ended(61_000, moved=1, version=2, transaction=OURS), run_started(0)]
FENCED = ended(157, moved=1)
TOLD_OF_FOREIGN = transaction_event(EventType.TRANSACTION_ABORTED, 900, handle(FOREIGN))
ONLY_COMPLETE = [broker_record(BrokerStatus.COMPLETE_ABORT, 900, transaction=FOREIGN)]
ONLY_COMPLETE_LATE = [broker_record(BrokerStatus.COMPLETE_ABORT, 66_000, transaction=FOREIGN)]
EMPTY_ABORT = [
    broker_record(status, 5, start=5, epoch=5, version=2, partitions=(), transaction=FOREIGN)
    for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
]
OPERATORS_DECISION = DecisionSeen(
    offset=1,
    record=replace(
        decided(1, handle(), ruling=Ruling.ABORT).record, who="operator:anna", batch_attempt=batch_attempt()
    ),
)
DECIDED_BY_OPERATOR = [
    *ROLLED_BACK,
    transaction_event(EventType.TRANSACTION_OPENED, 0, handle=handle().to_json()),
    OPERATORS_DECISION,
]
CERTAIN, LIKELY, GUESS = Certainty.CERTAIN, Certainty.LIKELY, Certainty.GUESS

CASES = [
    # name, observed, inits, order, cause, certainty
    # Kafka 3.6 to 3.9, and 4.x with transaction.version 0 or 1: an end by the client leaves the epoch.
    ("epoch stays, before the timeout", ended(17), (), None, Cause.CLIENT, CERTAIN),
    ("epoch stays, after the timeout and before the timer", ended(60_850), (), None, Cause.CLIENT, CERTAIN),
    ("epoch stays, id taken much later by a restart", ended(17), taken_over(9_000, 6), None, Cause.CLIENT, CERTAIN),
    ("epoch stays, id taken before", ended(500), taken_over(-10, 5), None, Cause.CLIENT, CERTAIN),
    ("3.6: epoch moved at once", ended(157, moved=1), (), None, Cause.FENCED, CERTAIN),
    ("3.6: epoch moved at once and the id taken", ended(157, moved=1), taken_over(663, 6), None, Cause.FENCED, CERTAIN),
    ("3.6: epoch moved at the first timer after the timeout", ended(60_850, moved=1), (), None, Cause.TIMEOUT, CERTAIN),
    ("3.6: the timer's whole interval later", ended(70_100, moved=1), (), None, Cause.TIMEOUT, CERTAIN),
    ("3.6: long after the timeout, the coordinator was away", ended(200_000, moved=1), (), None, Cause.TIMEOUT, LIKELY),
    ("3.6: after the timeout, and the id taken at once", LATE, taken_over(61_300, 6), None, Cause.TIMEOUT, LIKELY),
    ("3.6: just before the timeout, by clocks of two brokers", ended(59_400, moved=1), (), None, Cause.TIMEOUT, GUESS),
    ("the producer id had no epochs left", ended(157, moved=1), taken_over(663, 0, 9), None, Cause.FENCED, CERTAIN),
    ("an older producer id took nothing", ended(157, moved=1, version=2), taken_over(663, 0, -1), None, Cause.FENCED, LIKELY),
    # 4.x with transaction.version 2, the writer of a lower one (librdkafka, Java before 4.0).
    ("4.x: epoch moved at the timeout", ended(60_850, moved=1, version=2), (), None, Cause.TIMEOUT, CERTAIN),
    ("4.x: epoch moved and the id taken", ended(157, moved=1, version=2), taken_over(663, 6), None, Cause.FENCED, CERTAIN),
    ("4.x: epoch moved, nobody took the id", ended(157, moved=1, version=2), (), None, Cause.FENCED, LIKELY),
    ("4.0.0: fenced moves it twice", ended(157, moved=2, version=2), (), None, Cause.FENCED, LIKELY),
    # 4.x with transaction.version 2, the writer too: every end moves the epoch by one.
    ("TV2: before the timeout", ended(17, moved=1, begun=2, version=2), (), None, Cause.CLIENT, LIKELY),
    ("TV2: the id taken at once", ended(17, moved=1, begun=2, version=2), taken_over(400, 6), None, Cause.FENCED, LIKELY),
    ("TV2: the id taken later", ended(17, moved=1, begun=2, version=2), taken_over(9_000, 6), None, Cause.CLIENT, LIKELY),
    ("TV2: at the timer after the timeout", ended(65_000, moved=1, begun=2, version=2), (), None, Cause.TIMEOUT, LIKELY),
    ("TV2: long after the timeout", ended(200_000, moved=1, begun=2, version=2), (), None, Cause.TIMEOUT, GUESS),
    ("TV2, 4.0.0: moved twice at the timeout", ended(65_000, moved=2, begun=2, version=2), (), None, Cause.TIMEOUT, CERTAIN),
    ("TV2, 4.0.0: moved twice before it", ended(17, moved=2, begun=2, version=2), taken_over(400, 7), None, Cause.FENCED, CERTAIN),
    ("TV2: aborted before its first write", EMPTY_ABORT, (), None, Cause.CLIENT, CERTAIN),
    # Polling knows no versions: an epoch that moved says nothing.
    ("polled: epoch stays", ended(900, source=POLLED), (), None, Cause.CLIENT, CERTAIN),
    ("polled: epoch moved before the timeout", ended(900, moved=1, source=POLLED), (), None, Cause.CLIENT, LIKELY),
    ("polled: epoch moved after the timeout", ended(61_000, moved=1, source=POLLED), (), None, Cause.TIMEOUT, LIKELY),
    # Ours, and operators.
    ("our driver rolled back and told it", [*ROLLED_BACK, TOLD], (), None, Cause.CLIENT, LIKELY),
    ("an event claims a foreign one's", [*FENCED, run_started(0), TOLD_OF_FOREIGN], (), None, Cause.FENCED, CERTAIN),
    ("our driver rolled back, untold", ROLLED_BACK, (), None, Cause.CLIENT, LIKELY),
    ("our driver told it, the timeout had passed", [*OURS_LATE, TOLD], (), None, Cause.TIMEOUT, LIKELY),
    ("an operator's order", ended(890, moved=1, version=2), (), ORDER, Cause.OPERATOR, CERTAIN),
    ("an operator's decision", DECIDED_BY_OPERATOR, (), None, Cause.OPERATOR, LIKELY),
    ("an operator's commit order is no abort", ended(17), (), COMMIT_ORDER, Cause.CLIENT, CERTAIN),
    # Not all of it was seen.
    ("only the end was seen", ONLY_COMPLETE, (), None, Cause.CLIENT, GUESS),
    ("only the end was seen, and the id taken", ONLY_COMPLETE, taken_over(1_300, 6), None, Cause.FENCED, LIKELY),
    ("only the end was seen, after the timeout", ONLY_COMPLETE_LATE, (), None, Cause.TIMEOUT, LIKELY),
    ("only told", [run_started(0), TOLD], (), None, Cause.CLIENT, GUESS),
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
    clues = AbortClues(view=only_view(*observed), inits=inits, order=order)
    assert infer(clues) == (cause, certainty)
    assert explain(clues).why
