"""Where a checkpoint stands: a Spark micro-batch, or a Flink checkpoint."""

from __future__ import annotations

from enum import Enum


class CheckpointState(Enum):
    """Where a checkpoint stands."""

    STARTED = "started"
    """Its offsets are planned (Spark: a file in offsets/)."""
    COMPLETED = "completed"
    """It will not be replayed (Spark: a file in commits/)."""
    FAILED = "failed"
    """Its attempt ended without completing; the same number is tried again."""
