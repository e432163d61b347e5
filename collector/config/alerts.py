"""When alert rules answer, and when receivers are notified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

Whole = Annotated[int, Field(gt=0)]
NO_SETTINGS = frozenset({"observer_down_ms", "resolved_kept_ms"})
"""Fields of AlertSettings that no environment variable sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """Limits of the rules, then times of notifications. The setting's name is the field's behind ``alert_``."""

    commit_overdue_ms: Whole = 10_000
    foreign_recovery_ms: Whole = 20_000
    blocked_ms: Whole = 30_000
    aborts: Whole = 5
    aborts_window_ms: Whole = 600_000
    checkpoint_failures: Whole = 3
    checkpoint_stalled_ms: Whole = 60_000
    observer_down_ms: Whole = 15_000
    keep_firing_ms: Whole = 15_000
    """How long an alert must be gone before it is resolved."""
    group_wait_ms: Whole = 2_000
    """How long a group's first alert waits for others."""
    group_interval_ms: Whole = 15_000
    """The least time between two notifications of one group."""
    repeat_ms: Whole = 3_600_000
    """How often a notification of an unchanged group is repeated."""
    resolved_kept_ms: Whole = 86_400_000
    """How long resolved alerts are shown."""
