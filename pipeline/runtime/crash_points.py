"""Named points at which the pipeline can be made to die or stand still: how crash tests hit the step they mean.

A file named like the point, in the directory that the environment names, arms it. Its text is the deed (see Deed). A point
strikes once: the file is renamed first, so of several tasks that get there one is hit. ``<point>.reached`` then holds the
process id of that one, which is hit last: once it stands still or has ended, all others were hit.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from indoubt.lifecycle.child_processes import with_descendants

T = TypeVar("T")


class CrashPoint(Enum):
    """Where it can happen, in the order of the protocol."""

    BEFORE_BEGIN = "before-begin"
    """In a task: nothing is open yet."""
    WHILE_WRITING = "while-writing"
    """In a task: some rows are written, more may come."""
    AFTER_FLUSH = "after-flush"
    """In a task: the rows are with the resource manager, the marker is not. Without a transaction: all is delivered."""
    SLOT_PREPARED = "slot-prepared"
    """In a task: its transaction is prepared, and the driver does not know it yet."""
    AFTER_PREPARE = "after-prepare"
    """In the commit worker: every task has prepared, nothing is decided."""
    BEFORE_DECISION = "before-decision"
    """In the commit worker: every transaction was found ready, nothing is decided."""
    AFTER_DECISION = "after-decision"
    """In the commit worker: the commit decision counts, nothing is committed."""
    MID_COMMIT = "mid-commit"
    """In the commit worker: some handles are committed, some are not (with several resource managers: one has all of its)."""
    AFTER_COMMIT = "after-commit"
    """In the commit worker: everything is committed, Spark's commit log does not say so."""
    MID_RECOVERY = "mid-recovery"
    """In the driver: a part of what was decided is settled, nothing is rolled back yet."""


class Deed(Enum):
    """What happens to whom; the value is what the file says. Any other text kills the driver."""

    KILL = "kill"
    """SIGKILL to the driver and all its processes."""
    FREEZE = "freeze"
    """SIGSTOP to the driver and all its processes; they go on by SIGCONT."""
    KILL_WORKER = "kill-worker"
    """SIGKILL to the one Python process that got here."""
    FREEZE_WORKER = "freeze-worker"
    """SIGSTOP to the one Python process that got here."""

    @property
    def signal(self) -> signal.Signals:
        """Return the signal that does it."""
        return signal.SIGSTOP if self in (Deed.FREEZE, Deed.FREEZE_WORKER) else signal.SIGKILL

    @property
    def is_for_one(self) -> bool:
        """Say whether only the process that got here is hit."""
        return self in (Deed.KILL_WORKER, Deed.FREEZE_WORKER)


class Steps:
    """What the protocol calls at each of its points. Here nothing happens, as in any pipeline that is not tested."""

    __slots__ = ()

    def reach(self, point: CrashPoint) -> None:
        """Go on."""

    def in_parts(self, point: CrashPoint, items: Sequence[T], manager_of: Callable[[T], str]) -> Iterable[Sequence[T]]:
        """Yield the items in the parts in which they are worked off; ``point`` is reached between two parts."""
        return [items]


NO_STEPS = Steps()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoints(Steps):
    """The armed points of one pipeline; ``directory`` empty: none can be armed. ``pids``: the driver and its JVM."""

    directory: str
    pids: tuple[int, ...] = ()

    def is_armed(self, point: CrashPoint) -> bool:
        """Say whether the point would strike now."""
        return bool(self.directory) and (Path(self.directory) / point.value).exists()

    def reach(self, point: CrashPoint) -> None:
        """Strike when the point is armed; after a kill this call does not return, after a freeze only by SIGCONT."""
        if not self.is_armed(point):
            return
        file = Path(self.directory) / point.value
        try:
            text = file.read_text().strip()
            taken = file.rename(file.with_suffix(".taken"))
        except FileNotFoundError:
            # Another task got here first.
            return
        deed = Deed(text) if text in {known.value for known in Deed} else Deed.KILL
        taken.write_text(str(os.getpid()))
        taken.rename(file.with_suffix(".reached"))
        # This process last: POSIX has the signal delivered before kill() to oneself returns, so nothing goes on meanwhile.
        hit = [] if deed.is_for_one else [pid for pid in with_descendants(self.pids) if pid != os.getpid()]
        for pid in (*hit, os.getpid()):
            # A worker may end by itself meanwhile, or with the JVM.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, deed.signal)

    def in_parts(self, point: CrashPoint, items: Sequence[T], manager_of: Callable[[T], str]) -> Iterator[Sequence[T]]:
        """Yield all at once unless the point is armed; else those of the first item's resource manager, then the others.

        Of one resource manager alone: two halves.
        """
        if not self.is_armed(point):
            yield items
            return
        first = [item for item in items if manager_of(item) == manager_of(items[0])]
        others = [item for item in items if manager_of(item) != manager_of(items[0])]
        half = (len(items) + 1) // 2
        parts = (first, others) if others else (items[:half], items[half:])
        yield parts[0]
        self.reach(point)
        yield parts[1]
