"""Ledgers of logs that are given whole."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import DecisionRecord


def fold(records: Iterable[tuple[int, DecisionRecord]]) -> DecisionLedger:
    """Return the ledger of (offset, record) pairs given in log order."""
    ledger = DecisionLedger()
    for offset, record in records:
        ledger.apply(offset, record)
    return ledger
