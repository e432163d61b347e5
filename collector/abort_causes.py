"""Why a transaction was aborted. The coordinator stores no reason, so it is inferred, with how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from collector.facts import BrokerTransaction, Init
from collector.fold import OPERATOR
from collector.observations import OperatorOrder
from collector.transaction_view import TransactionView
from lifecycle.decisions import Ruling
from lifecycle.events import EventType

FENCE_WINDOW_MS = 2_000
"""A producer that takes an id aborts its open transaction first and gets the id at its next try (librdkafka: 500 ms later)."""


class Cause(Enum):
    """Who ended it."""

    TIMEOUT = "timeout"
    FENCED = "fenced"
    CLIENT = "client"
    OPERATOR = "operator"
    UNKNOWN = "unknown"


class Certainty(Enum):
    """How sure that is."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortClues:
    """An aborted or lost transaction, the newest inits of its id, and an operator's order about it."""

    view: TransactionView
    inits: tuple[Init, ...] = ()
    order: OperatorOrder | None = None


def infer(clues: AbortClues) -> tuple[Cause, Certainty]:
    """Return the cause of an abort and how sure it is."""
    view, broker = clues.view, clues.view.broker
    if clues.order is not None and clues.order.action == "abort":
        return Cause.OPERATOR, Certainty.CERTAIN
    first = view.first_decision
    if first is not None and first[1].ruling is Ruling.ABORT and first[1].who.startswith(OPERATOR):
        return Cause.OPERATOR, Certainty.LIKELY
    told_abort = view.told is not None and EventType.TRANSACTION_ABORTED in view.told.told
    if broker is None or broker.ended_ms is None:
        return (Cause.CLIENT, Certainty.LIKELY) if told_abort else (Cause.UNKNOWN, Certainty.GUESS)
    timed_out = broker.timeout_ms is not None and broker.ended_ms - broker.identity.start_ms >= broker.timeout_ms
    taken_over = any(_took_over(init, broker) for init in clues.inits)
    # Where only the end was seen, its own time is known but not who asked for it.
    sure = Certainty.GUESS if broker.prepare_abort_ms is None else Certainty.LIKELY
    if timed_out:
        return Cause.TIMEOUT, Certainty.CERTAIN if _epoch_moved(broker) and not taken_over and not told_abort else sure
    if told_abort:
        return Cause.CLIENT, Certainty.CERTAIN
    if taken_over:
        return Cause.FENCED, Certainty.CERTAIN if _epoch_moved(broker) else sure
    # Our own drivers roll back by EndTxn from another process, which moves the epoch too.
    if _epoch_moved(broker) and not view.ours:
        return Cause.FENCED, sure
    return Cause.CLIENT, sure


def _epoch_moved(broker: BrokerTransaction) -> bool:
    """True when the writer's own client cannot have moved the epoch: below transaction version 2 only others do."""
    if broker.ongoing_epoch is None or broker.end_epoch is None or broker.ongoing_version is None:
        return False
    return broker.ongoing_version < 2 and broker.end_epoch > broker.ongoing_epoch


def _took_over(init: Init, broker: BrokerTransaction) -> bool:
    ended, epoch = broker.ended_ms, broker.end_epoch
    if ended is None or epoch is None or init.producer_id != broker.identity.producer_id:
        return False
    return init.producer_epoch > epoch and 0 <= init.at_ms - ended <= FENCE_WINDOW_MS
