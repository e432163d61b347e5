"""Why a transaction was aborted, told from times, epochs and orders; a captured case beside each inference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.records.facts import Init
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import DecisionSeen, Observation, OperatorOrder
from indoubt.collector.verdicts.abort_causes import AbortClues, explain, infer
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import AbortCause as Cause
from indoubt.lifecycle.verdicts import Certainty
from tests.unit.collector.observations import (
    T0,
    TIMEOUT_MS,
    batch_attempt,
    broker_record,
    decided,
    handle,
    only_view,
    run_started,
    transaction_event,
)
from tests.unit.collector.verdicts.case_tables import table

FOREIGN = "flink-orders-3"
LOG, POLLED = "__transaction_state", "transaction polling"


def ended(
    at: int,
    *,
    moved: int = 0,
    begun: int = 0,
    version: int = 0,
    transaction: str = FOREIGN,
    source: str = LOG,
    has_timeout: bool = True,
) -> list[Observation]:
    """Return a transaction of epoch 4 that was aborted ``at`` ms after its opening, its epoch ``moved`` on.

    ``begun`` is the writer's transaction version, ``version`` that of the end's records.
    """
    records = [
        broker_record(BrokerStatus.ONGOING, 0, transaction=transaction, version=begun),
        broker_record(BrokerStatus.PREPARE_ABORT, at, transaction=transaction, epoch=4 + moved, version=version),
        broker_record(BrokerStatus.COMPLETE_ABORT, at + 4, transaction=transaction, epoch=4 + moved, version=version),
    ]
    timeout_ms = TIMEOUT_MS if has_timeout else None
    return [replace(record, source=source, timeout_ms=timeout_ms) for record in records]


def only_end(
    at: int, *, version: int = 0, transaction: str = FOREIGN, has_timeout: bool = True, **fields: Any
) -> list[Observation]:
    """Return what shows of an aborted transaction where its opening was not seen."""
    end = broker_record(BrokerStatus.COMPLETE_ABORT, at, version=version, transaction=transaction, **fields)
    return [end if has_timeout else replace(end, timeout_ms=None)]


def taken_over(at: int, epoch: int, producer_id: int = 0) -> tuple[Init, ...]:
    return (Init(at_ms=T0 + at, producer_id=producer_id, producer_epoch=epoch),)


OURS = "ip-count-0-1"
TOLD = transaction_event(EventType.TRANSACTION_ABORTED, 900)
TOLD_OPENED = transaction_event(EventType.TRANSACTION_OPENED, 0)
ORDER = OperatorOrder(key="k", action="abort", who="anna", at_ms=T0 + 890, audit=1)
COMMIT_ORDER = OperatorOrder(key="k", action="commit", who="anna", at_ms=T0 + 890, audit=1)
ROLLED_BACK = [*ended(890, moved=1, version=2, transaction=OURS), run_started(0)]
LATE = ended(60_850, moved=1)
TAKEN = ended(157, moved=1, version=2)
OURS_LATE = [*ended(61_000, moved=1, version=2, transaction=OURS), run_started(0)]
FENCED = ended(157, moved=1)
TOLD_OF_FOREIGN = transaction_event(EventType.TRANSACTION_ABORTED, 900, handle(FOREIGN))
ONLY_COMPLETE = only_end(900)
ONLY_COMPLETE_OF_OURS = [*only_end(900, transaction=OURS), run_started(0), TOLD]
ONLY_COMPLETE_OF_OURS_LATE = [*only_end(66_000, transaction=OURS), run_started(0), TOLD]
OPEN_OF_OURS = [run_started(0), broker_record(BrokerStatus.ONGOING, 0)]
OURS_OF_VERSION_2 = [*ended(890, moved=1, begun=2, version=2, transaction=OURS), run_started(0)]
EMPTY_ABORT = [
    broker_record(status, 5, start=5, epoch=5, version=2, partitions=(), transaction=FOREIGN)
    for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
]


def decided_by(who: str, ruling: Ruling) -> list[Observation]:
    """Return one of ours that was rolled back, and the first decision about its attempt."""
    decision = replace(decided(1, handle(), ruling=ruling).record, who=who, batch_attempt=batch_attempt())
    opened = transaction_event(EventType.TRANSACTION_OPENED, 0, handle=handle().to_json())
    return [*ROLLED_BACK, opened, DecisionSeen(offset=1, record=decision)]


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
    ("an operator's decision", decided_by("operator:anna", Ruling.ABORT), (), None, Cause.OPERATOR, LIKELY),
    ("an operator decided to commit it", decided_by("operator:anna", Ruling.COMMIT), (), None, Cause.CLIENT, LIKELY),
    ("its run decided to abort it", decided_by("run-1", Ruling.ABORT), (), None, Cause.CLIENT, LIKELY),
    ("an operator's commit order is no abort", ended(17), (), COMMIT_ORDER, Cause.CLIENT, CERTAIN),
    # Not all of it was seen.
    ("only the end was seen", ONLY_COMPLETE, (), None, Cause.CLIENT, GUESS),
    ("only the end was seen, and the id taken", ONLY_COMPLETE, taken_over(1_300, 6), None, Cause.FENCED, LIKELY),
    ("only the end was seen, after the timeout", only_end(66_000), (), None, Cause.TIMEOUT, LIKELY),
    ("only the end was seen, its driver told it", ONLY_COMPLETE_OF_OURS, (), None, Cause.CLIENT, LIKELY),
    ("only the end, after the timeout, its driver told it", ONLY_COMPLETE_OF_OURS_LATE, (), None, Cause.TIMEOUT, GUESS),
    ("only the end was seen, its timeout is not known", only_end(900, has_timeout=False), (), None, Cause.CLIENT, GUESS),
    ("only told", [run_started(0), TOLD], (), None, Cause.CLIENT, GUESS),
    ("only its opening was told", [run_started(0), TOLD_OPENED], (), None, Cause.UNKNOWN, GUESS),
    ("open at the broker", OPEN_OF_OURS, (), None, Cause.UNKNOWN, GUESS),
    ("open at the broker, its driver told the abort", [*OPEN_OF_OURS, TOLD], (), None, Cause.CLIENT, GUESS),
    # An end that opens it, but is not the abort before the first write.
    ("opened by its end, of version 1", only_end(5, start=5, version=1, partitions=()), (), None, Cause.CLIENT, GUESS),
    ("opened by its end, with a partition", only_end(5, start=5, version=2), (), None, Cause.CLIENT, GUESS),
    ("ended empty 1 ms later", only_end(6, start=5, version=2, partitions=()), (), None, Cause.CLIENT, GUESS),
    # At the limits: the timeout (60 s), the coordinator's timer 12 s later, two clocks 1 s apart.
    ("coordinator: at the timeout", ended(60_000, moved=1), (), None, Cause.TIMEOUT, CERTAIN),
    ("coordinator: as late as the timer", ended(72_000, moved=1), (), None, Cause.TIMEOUT, CERTAIN),
    ("coordinator: later than the timer", ended(72_001, moved=1), (), None, Cause.TIMEOUT, LIKELY),
    ("coordinator: 1 s before the timeout", ended(59_000, moved=1), (), None, Cause.TIMEOUT, GUESS),
    ("coordinator: more than 1 s before it", ended(58_999, moved=1), (), None, Cause.FENCED, CERTAIN),
    ("either: just before the timeout", ended(59_999, moved=1, begun=2, version=2), (), None, Cause.CLIENT, LIKELY),
    ("either: at the timeout", ended(60_000, moved=1, begun=2, version=2), (), None, Cause.TIMEOUT, LIKELY),
    ("either: as late as the timer", ended(72_000, moved=1, begun=2, version=2), (), None, Cause.TIMEOUT, LIKELY),
    ("either: later than the timer", ended(72_001, moved=1, begun=2, version=2), (), None, Cause.TIMEOUT, GUESS),
    ("only the end: just before the timeout", only_end(59_999), (), None, Cause.CLIENT, GUESS),
    ("only the end: at the timeout", only_end(60_000), (), None, Cause.TIMEOUT, LIKELY),
    ("only the end: as late as the timer", only_end(72_000), (), None, Cause.TIMEOUT, LIKELY),
    ("only the end: later than the timer", only_end(72_001), (), None, Cause.TIMEOUT, GUESS),
    # Its timeout is not known: polling cannot always describe it.
    ("coordinator: no timeout known", ended(157, moved=1, has_timeout=False), (), None, Cause.FENCED, GUESS),
    ("either: no timeout known", ended(157, moved=1, begun=2, has_timeout=False), (), None, Cause.CLIENT, LIKELY),
    # Who took the id, and when: 2 s at most. A taken id makes sure that it was fenced.
    ("the id taken as it ended", TAKEN, taken_over(157, 6), None, Cause.FENCED, CERTAIN),
    ("the id taken before it ended", TAKEN, taken_over(156, 6), None, Cause.FENCED, LIKELY),
    ("the id taken within 2 s", TAKEN, taken_over(2_157, 6), None, Cause.FENCED, CERTAIN),
    ("the id taken later than that", TAKEN, taken_over(2_158, 6), None, Cause.FENCED, LIKELY),
    ("the epoch of its end took nothing", TAKEN, taken_over(400, 5), None, Cause.FENCED, LIKELY),
    ("a new producer id took it", TAKEN, taken_over(400, 0, 9), None, Cause.FENCED, CERTAIN),
    ("a new producer id that has moved on took nothing", TAKEN, taken_over(400, 1, 9), None, Cause.FENCED, LIKELY),
    # What our driver told outweighs who took its id.
    ("told, and the id taken", [*ROLLED_BACK, TOLD], taken_over(1_300, 6), None, Cause.CLIENT, LIKELY),
    ("TV2: told, and the id taken", [*OURS_OF_VERSION_2, TOLD], taken_over(1_300, 6), None, Cause.CLIENT, LIKELY),
    ("only the end and told, and the id taken", ONLY_COMPLETE_OF_OURS, taken_over(1_300, 6), None, Cause.CLIENT, LIKELY),
]  # fmt: skip


@table("observed, inits, order, cause, certainty", CASES)
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
