"""What became of standing orders, as pages, alerts and metrics show it."""

from __future__ import annotations

from dataclasses import dataclass, field

from indoubt.lifecycle.orders import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAct:
    """One order given without a person, or tried in a dry run, and how it ended (``accepted``, ``refused``, ``dry_run``, …).

    ``application`` is empty, and ``audit`` None, where they are not known: after a restart, and of one that was refused.
    """

    key: str
    application: str
    at_ms: int
    audit: int | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A transaction whose act is due and is not done now: ``why`` says what holds it back."""

    key: str
    application: str
    deadline_ms: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """One standing order: acts and dry runs of the last hour, oldest first, what is held back now, counts since the start."""

    name: str
    act: Action
    acts: tuple[StandingAct, ...] = ()
    dry_runs: tuple[StandingAct, ...] = ()
    held: tuple[HeldBack, ...] = ()
    acted: int = 0
    failed: int = 0
    """Acts that were refused or did not end as ordered."""
    dry_run_count: int = 0
    held_back: int = 0
    """Transactions that were held back at least once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Whether all standing orders are stopped; who said so last, when and why (empty: they never were)."""

    stopped: bool = False
    who: str = ""
    at_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingReport:
    """All standing orders, in the order of their file. ``evaluated_at_ms`` None: not yet."""

    switch: Switch = field(default_factory=Switch)
    orders: tuple[OrderReport, ...] = ()
    evaluated_at_ms: int | None = None


NO_STANDING_ORDERS = StandingReport()
