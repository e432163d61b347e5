"""Checkpoints: a Spark micro-batch, a Flink checkpoint; named by pipeline and number."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckpointState(Enum):
    """Where a checkpoint stands."""

    STARTED = "started"
    """Its offsets are planned (Spark: a file in offsets/)."""
    COMPLETED = "completed"
    """It will not be replayed (Spark: a file in commits/)."""
    FAILED = "failed"
    """Its attempt ended without completing; the same number is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint of one pipeline. Times are epoch ms; None: not seen yet."""

    pipeline: str
    number: int
    state: CheckpointState
    started_at_ms: int | None = None
    ended_at_ms: int | None = None

    @property
    def duration_ms(self) -> int | None:
        """Return how long it took, or None while it runs or when its start was not seen."""
        if self.started_at_ms is None or self.ended_at_ms is None:
            return None
        return max(0, self.ended_at_ms - self.started_at_ms)
