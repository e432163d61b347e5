"""Named points at which the driver can be made to die or stand still: how crash tests hit the step they mean.

A file named like the point, in the directory that the environment names, arms it: its text is ``kill`` (SIGKILL) or
``freeze`` (SIGSTOP). A point strikes once: the file is renamed to ``<point>.reached`` first.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class CrashPoint(Enum):
    """Where it can happen, in the order of the protocol."""

    AFTER_PREPARE = "after-prepare"
    """Every task has prepared, nothing is decided."""
    AFTER_DECISION = "after-decision"
    """The commit decision counts, nothing is committed."""
    MID_COMMIT = "mid-commit"
    """Some handles are committed, some are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoints:
    """The armed points of one pipeline; ``directory`` empty: none can be armed. ``pids``: the driver's processes."""

    directory: str
    pids: tuple[int, ...]

    def is_armed(self, point: CrashPoint) -> bool:
        """Say whether the point would strike now."""
        return bool(self.directory) and (Path(self.directory) / point.value).exists()

    def reach(self, point: CrashPoint) -> None:
        """Strike when the point is armed; after ``kill`` this call does not return, after ``freeze`` only by SIGCONT."""
        if not self.is_armed(point):
            return
        file = Path(self.directory) / point.value
        deed = signal.SIGSTOP if file.read_text().strip() == "freeze" else signal.SIGKILL
        file.rename(file.with_suffix(".reached"))
        # This process last: POSIX has the signal delivered before kill() to oneself returns, so nothing goes on meanwhile.
        for pid in (*self.pids, os.getpid()):
            os.kill(pid, deed)
