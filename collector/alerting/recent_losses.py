"""What transactions that are not ours lost of late: looked at now and then, because telling it takes a look at all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from collector.data_loss import Loss, LossVerdict

TOLD_MS = 3_600_000
"""How long after its end a loss is told that nobody can undo any more; GET /losses keeps it."""
LOOK_EVERY_S = 10.0


class RecentLosses:
    """For one thread. ``look`` returns the losses of transactions that ended since a time (epoch ms)."""

    def __init__(self, look: Callable[[int], Sequence[Loss]], clock: Callable[[], float] = time.monotonic) -> None:
        self._look, self._clock = look, clock
        self._looked_s = -math.inf
        self._found: tuple[Loss, ...] = ()

    def at(self, now_ms: int) -> tuple[Loss, ...]:
        """Return what is lost, not ours, and ended within the last hour, as of at most 10 s ago."""
        if self._clock() - self._looked_s >= LOOK_EVERY_S:
            seen = self._look(now_ms - TOLD_MS)
            self._found = tuple(one for one in seen if one.verdict is LossVerdict.LOST and not one.view.ours)
            self._looked_s = self._clock()
        return self._found
