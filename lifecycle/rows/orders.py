"""The answers to orders, to previews and runs of orders by filter, and rows of GET /orders/under-way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.verdicts import Certainty, Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStep:
    """What was sent for one transaction, in words, and its outcome."""

    key: str
    description: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """The outcome of an order: ``accepted``, ``pending``, ``dry_run`` or ``failed``, and its steps."""

    audit: int
    outcome: str
    took_ms: int
    steps: tuple[OrderStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWayRow:
    """An order that is being carried out, or whose end is looked up; ``keys``: of what has not ended as far as is known.

    ``audit``: the number of the row that says so much; None while the order is carried out.
    """

    at_ms: int
    who: str
    action: str
    keys: tuple[str, ...]
    reason: str
    audit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedVerdict:
    """What is known of an order's transactions of one verdict, certainty and rule.

    ``evidence`` is that of ``example``, the most urgent.
    """

    verdict: Verdict
    certainty: Certainty
    rule: int
    transactions: int
    loses_data: int
    """How many of them hold what an abort may lose."""
    pipelines: int
    example: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedCondition:
    """What must be typed for these transactions of an order by filter, empty: nothing; and what is known of them.

    ``fingerprint``: by which an order names them; it takes so many ``parts``.
    """

    fingerprint: str
    parts: int
    confirm: str
    keys: tuple[str, ...]
    summary: tuple[PreviewedVerdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A transaction that fits the filter, and that may not be ended so."""

    key: str
    transaction: str
    verdict: Verdict
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreview:
    """What an order by filter would be about: ``keys`` most urgent first; each of the ``conditions`` takes an order of its own.

    ``rows`` and ``left_out``: the first 1,000 of them.
    """

    action: Action
    filter: Mapping[str, Any]
    rows: tuple[TransactionRow, ...]
    left_out: tuple[LeftOut, ...]
    keys: tuple[str, ...]
    conditions: tuple[PreviewedCondition, ...]
    summary: tuple[PreviewedVerdict, ...]
    left_out_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRun:
    """An order that the collector carries out by itself, and how far it is: one by filter in parts, another at once."""

    run: str
    begun_at_ms: int
    who: str
    action: Action
    filter: Mapping[str, Any]
    """Empty where the order named its keys."""
    what: str
    """The filter in words, and which of its conditions, where it means several; or the subject that the order named."""
    reason: str
    dry_run: bool
    transactions: int
    """So many are ordered."""
    parts: int
    """In so many orders, one after the other."""
    parts_sent: int = 0
    sent: int = 0
    """Transactions of those parts."""
    done: int = 0
    """Of them those that ended as ordered; in a dry run those that would be sent."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How many steps have each outcome."""
    outcome: str = ""
    """That of the worst part; empty before the first one. ``refused`` and ``failed`` with ``halted``: an order by its
    keys, and nothing was done; ``pending`` with it: that is not known."""
    took_ms: int = 0
    audits: tuple[int, ...] = ()
    is_over: bool = False
    halted: str = ""
    """Why the rest is not sent, or why an order by its keys was not carried out; empty: it goes on, or all is sent."""
    steps: tuple[OrderStep, ...] = ()
    """Only where they were asked for."""
