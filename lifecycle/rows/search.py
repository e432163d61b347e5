"""Rows of GET /search: transactions of all history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.lifecycle.rows.events import EndedTransactionRow
from indoubt.lifecycle.verdicts import AbortCause


class SearchOutcome(Enum):
    """How a transaction stands; the value is the API's word."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Lost ones too: their ``state`` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTransactionRow(EndedTransactionRow):
    """A transaction that a search found; ``cause`` and ``certainty``: who aborted it, None where it was not aborted."""

    cause: AbortCause | None
    certainty: str | None
