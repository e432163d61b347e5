"""Rows of GET /transactions/{key}/events and of GET /transactions/{key}/earlier."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.rows.row_json import Json
from indoubt.lifecycle.states import TransactionState

EARLIER_COUNTED = 100
"""Of one id no more transactions than so many are counted behind a page: to count all takes a pass over all of history."""


class EventKind(Enum):
    """Who told of an event; the value is the API's word."""

    BROKER = "broker"
    """The coordinator: its log, or an answer of it."""
    DECISION = "decision log"
    LIFECYCLE = "lifecycle"
    CHECKPOINT = "checkpoints"
    """A file of the checkpoint directory."""
    DATABASE = "database"
    ORDER = "orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEventRow:
    """One record about a transaction as it was read: where it stands in its source, and all that it says.

    ``source``, ``partition``, ``offset``: an order has its audit number as its offset and no partition.
    """

    at_ms: int
    kind: EventKind
    what: str
    source: str
    partition: int | None
    offset: int
    raw: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransactionRow:
    """A transaction that came before: how it ended, how long it was open, and where it wrote. None: not known.

    ``written_again_at_ms``: when its batch was written again after it was lost.
    """

    key: str
    transaction: str
    pipeline: str
    batch: int | None
    slot: int | None
    state: TransactionState
    opened_at_ms: int | None
    ended_at_ms: int | None
    open_ms: int | None
    written_again_at_ms: int | None
    rows: int | None
    partitions: tuple[str, ...]
