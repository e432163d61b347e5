"""The answers of POST /orders and of its preview, and rows of GET /orders/under-way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lifecycle.orders import Action
from lifecycle.rows.transactions import TransactionRow
from lifecycle.verdicts import Certainty, Evidence, Verdict


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
    """What must be typed for these transactions of an order by filter, empty: nothing; and what is known of them."""

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
    """What an order by filter would be about: ``keys`` most urgent first, ``seen`` their revisions.

    ``confirm`` is that of the only condition; where there are several, each takes an order of its own. ``rows`` and ``left_out``:
    the first of them, as many as one order takes.
    """

    action: Action
    filter: Mapping[str, Any]
    fingerprint: str
    rows: tuple[TransactionRow, ...]
    left_out: tuple[LeftOut, ...]
    keys: tuple[str, ...]
    seen: Mapping[str, str]
    confirm: str
    conditions: tuple[PreviewedCondition, ...]
    summary: tuple[PreviewedVerdict, ...]
    left_out_total: int
