"""The answer of POST /orders."""

from __future__ import annotations

from dataclasses import dataclass


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
