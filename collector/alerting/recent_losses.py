"""Recent losses of foreign transactions, computed at intervals because it takes a pass over all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from collector.verdicts.data_loss import Loss, LossVerdict

TOLD_MS = 3_600_000
"""How long after its end a loss raises an alert; GET /losses keeps it."""
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
            self._found = tuple(loss for loss in seen if loss.verdict is LossVerdict.LOST and not loss.view.ours)
            self._looked_s = self._clock()
        return self._found
