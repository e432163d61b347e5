"""Rows of GET /standing-orders, and the body and the answer of POST /standing-orders."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.rows.order_request import Reason, RequestBody


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOrderRow:
    """One standing order. ``state``: acts, dry run, held back or stopped; ``when``: what makes an act due, in words.

    ``acts`` and ``dry_runs``: of the last hour; ``held``: transactions that are due and held back now, ``why`` the first one is.
    ``switched_by`` and ``switched_at_ms``: who stopped or started all of them last. ``evaluated_at_ms``: when it was judged last
    what is due.
    """

    name: str
    state: str
    act: str
    applications: tuple[str, ...]
    when: str
    most_per_hour: int
    acts: int
    dry_runs: int
    held: int
    why: str
    last_at_ms: int | None
    owner: str
    switched_by: str
    switched_at_ms: int | None
    evaluated_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRequest(RequestBody):
    """Stop all standing orders, or let them go on."""

    stopped: bool
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAnswer:
    """How they stand now, and the audit row of it."""

    stopped: bool
    audit: int
