"""Why a transaction was aborted. The coordinator stores no reason, so it is inferred, with how sure that is.

What tells (TransactionCoordinator.endTransaction, TransactionMetadata of Kafka 3.6 to 4.x; e is the epoch at Ongoing):

| who ended it | writer below transaction version 2 | writer of version 2 (KIP-890, from 4.0) |
| --- | --- | --- |
| its own client, by EndTxn | e stays, the record has the writer's version | e + 1 |
| the coordinator: timeout, or an InitProducerId | e + 1, the record has the broker's version | e + 1; 4.0.0: e + 2 (KAFKA-19367) |

So an epoch that stays proves the client, one that moved without version 2 proves the coordinator, and under version 2 only the
times and who took the id afterwards tell. What its driver reported in an event makes nothing certain: any
client that may write to that topic can claim it. Polling knows no versions. A timeout is found by a timer that runs every 10 s by
default (transaction.abort.timed.out.transaction.cleanup.interval.ms): never before the timeout, seldom later than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.collector.facts.fold import OPERATOR
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.facts import BrokerTransaction, Init
from indoubt.collector.records.observations import OperatorOrder
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.lifecycle.decisions import Ruling
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.verdicts import AbortCause, Certainty

FENCE_WINDOW_MS = 2_000
"""A producer that takes an id aborts its open transaction first and gets the id at its next try (librdkafka: 500 ms later)."""
TIMER_MS = 12_000
"""The coordinator looks for timeouts every 10 s by default; 2 s for what it does then."""
CLOCK_SKEW_MS = 1_000
"""Start and end are by two brokers' clocks where the coordinator moved in between."""


class EndedBy(Enum):
    """What epochs and versions say about who ended it."""

    CLIENT = "client"
    """The producer that held its epoch."""
    COORDINATOR = "coordinator"
    EITHER = "either"
    UNSEEN = "unseen"
    """Its beginning or its end was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortClues:
    """An aborted or lost transaction, the newest inits of its id, and an operator's order about it."""

    view: TransactionView
    inits: tuple[Init, ...] = ()
    order: OperatorOrder | None = None


@dataclass(frozen=True, slots=True)
class Inference:
    """A cause, how sure it is, and one sentence that says from what."""

    cause: AbortCause
    certainty: Certainty
    why: str


def infer(clues: AbortClues) -> tuple[AbortCause, Certainty]:
    """Return the cause of an abort and how sure it is."""
    found = explain(clues)
    return found.cause, found.certainty


def explain(clues: AbortClues) -> Inference:
    """Return the cause of an abort, how sure it is, and why."""
    view, broker = clues.view, clues.view.broker
    if clues.order is not None and clues.order.action == "abort":
        return Inference(
            AbortCause.OPERATOR, Certainty.CERTAIN, f"{clues.order.who} ordered it (audit {clues.order.audit})"
        )
    first = view.first_decision
    if first is not None and first[1].ruling is Ruling.ABORT and first[1].who.startswith(OPERATOR):
        return Inference(AbortCause.OPERATOR, Certainty.LIKELY, f"{first[1].who} decided to abort its batch")
    reported = view.reported is not None and EventType.TRANSACTION_ABORTED in view.reported.event_times
    if broker is None or broker.ended_ms is None:
        if reported:
            return Inference(
                AbortCause.CLIENT,
                Certainty.GUESS,
                "its driver reported the rollback; the broker's record of the end was not seen",
            )
        return Inference(AbortCause.UNKNOWN, Certainty.GUESS, "the broker's record of its end was not seen")
    match ended_by(broker):
        case EndedBy.CLIENT:
            return Inference(
                AbortCause.CLIENT,
                Certainty.CERTAIN,
                "its epoch did not change: only its own producer can end it that way",
            )
        case EndedBy.COORDINATOR:
            return _by_coordinator(clues, broker, reported)
        case EndedBy.EITHER:
            return _by_either(clues, broker, reported)
        case EndedBy.UNSEEN:
            return _unseen(clues, broker, reported)


def ended_by(broker: BrokerTransaction) -> EndedBy:
    """Say who ended it, as far as epochs and versions show."""
    began, ended, version = broker.ongoing_epoch, broker.end_epoch, broker.ongoing_version
    if began is None:
        # Version 2 lets a client abort before its first write: the transaction then opens with its end, and is empty.
        empty = broker.ended_ms == broker.identity.start_ms and not broker.partitions and (broker.end_version or 0) >= 2
        return EndedBy.CLIENT if empty else EndedBy.UNSEEN
    if ended is None or version is None:
        return EndedBy.UNSEEN
    moved = ended - began
    if moved <= 0:
        return EndedBy.CLIENT
    if broker.source == ObserverKind.TRANSACTION_POLLING.value:
        return EndedBy.EITHER
    return EndedBy.COORDINATOR if version < 2 or moved >= 2 else EndedBy.EITHER


def _by_coordinator(clues: AbortClues, broker: BrokerTransaction, reported: bool) -> Inference:
    """The epoch moved although the writer's own end leaves it: a timeout, another producer, or an end sent for it with a handle."""
    taken, over_ms = _taken_over(clues.inits, broker), _over_timeout_ms(broker)
    if over_ms is not None and over_ms >= 0:
        if taken:
            return Inference(
                AbortCause.TIMEOUT, Certainty.LIKELY, f"{_late(over_ms)}, and another producer took its id just after"
            )
        if reported:
            return Inference(AbortCause.TIMEOUT, Certainty.LIKELY, f"{_late(over_ms)}; its driver rolled back too")
        certainty = Certainty.CERTAIN if over_ms <= TIMER_MS else Certainty.LIKELY
        return Inference(AbortCause.TIMEOUT, certainty, f"the coordinator ended it {_late(over_ms)}")
    if reported:
        return Inference(AbortCause.CLIENT, Certainty.LIKELY, "its driver reported that it rolled it back")
    if taken:
        return Inference(AbortCause.FENCED, Certainty.CERTAIN, "another producer took its id while it was open")
    if clues.view.managed:
        # Our own drivers roll back by EndTxn from another process, which moves the epoch too.
        return Inference(
            AbortCause.CLIENT,
            Certainty.LIKELY,
            "before its timeout, and no producer took its id: its driver rolled it back",
        )
    if over_ms is not None and over_ms >= -CLOCK_SKEW_MS:
        return Inference(AbortCause.TIMEOUT, Certainty.GUESS, "the coordinator ended it within a second of its timeout")
    if over_ms is None:
        return Inference(
            AbortCause.FENCED, Certainty.GUESS, "the coordinator ended it; it has no timeout, or none is known"
        )
    # An end sent with the handle by request version 5 looks the same where the broker has transaction version 2.
    certainty = Certainty.CERTAIN if (broker.end_version or 0) < 2 else Certainty.LIKELY
    return Inference(
        AbortCause.FENCED,
        certainty,
        "the coordinator ended it before its timeout, as it does when another producer takes the id",
    )


def _by_either(clues: AbortClues, broker: BrokerTransaction, reported: bool) -> Inference:
    """Under version 2 (or polling) every end moves the epoch: times and the next producer tell."""
    over_ms = _over_timeout_ms(broker)
    if over_ms is not None and over_ms >= 0:
        certainty = Certainty.LIKELY if over_ms <= TIMER_MS else Certainty.GUESS
        return Inference(AbortCause.TIMEOUT, certainty, f"it ended {_late(over_ms)}")
    if reported:
        return Inference(AbortCause.CLIENT, Certainty.LIKELY, "its driver reported that it rolled it back")
    if _taken_over(clues.inits, broker):
        return Inference(
            AbortCause.FENCED,
            Certainty.LIKELY,
            "a producer took its id just after; its own client may have aborted first",
        )
    return Inference(AbortCause.CLIENT, Certainty.LIKELY, "before its timeout, and no producer took its id")


def _unseen(clues: AbortClues, broker: BrokerTransaction, reported: bool) -> Inference:
    """Its times are known, but not what the epoch was before."""
    over_ms = _over_timeout_ms(broker)
    if over_ms is not None and over_ms >= 0:
        certainty = Certainty.LIKELY if over_ms <= TIMER_MS and not reported else Certainty.GUESS
        return Inference(AbortCause.TIMEOUT, certainty, f"it ended {_late(over_ms)}; its beginning was not seen")
    if reported:
        return Inference(AbortCause.CLIENT, Certainty.LIKELY, "its driver reported that it rolled it back")
    if _taken_over(clues.inits, broker):
        return Inference(
            AbortCause.FENCED, Certainty.LIKELY, "a producer took its id just after; its beginning was not seen"
        )
    return Inference(
        AbortCause.CLIENT,
        Certainty.GUESS,
        "before its timeout, and no producer took its id; its beginning was not seen",
    )


def _over_timeout_ms(broker: BrokerTransaction) -> int | None:
    """Return how long after its timeout it ended (negative: before), or None where that is not known."""
    if not broker.timeout_ms or broker.ended_ms is None:
        return None
    return broker.ended_ms - broker.identity.start_ms - broker.timeout_ms


def _taken_over(inits: tuple[Init, ...], broker: BrokerTransaction) -> bool:
    return any(_took_over(init, broker) for init in inits)


def _took_over(init: Init, broker: BrokerTransaction) -> bool:
    ended, epoch = broker.ended_ms, broker.end_epoch
    if ended is None or epoch is None or not 0 <= init.at_ms - ended <= FENCE_WINDOW_MS:
        return False
    same = init.producer_id == broker.identity.producer_id
    # A producer id without epochs left is changed by the take-over.
    return (
        init.producer_epoch > epoch
        if same
        else init.producer_id > broker.identity.producer_id and init.producer_epoch == 0
    )


def _late(over_ms: int) -> str:
    return f"{duration(over_ms)} after its timeout"
