"""Recent losses of foreign transactions, computed at intervals because it takes a pass over all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from collector.verdicts.data_loss import Loss, LossVerdict

RECENT_MS = 3_600_000
"""How long after its end a loss raises an alert; GET /losses keeps it."""
CHECK_EVERY_S = 10.0


class RecentLosses:
    """For one thread. ``losses_since`` returns the losses of transactions that ended since a time (epoch ms)."""

    def __init__(
        self, losses_since: Callable[[int], Sequence[Loss]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._losses_since, self._clock = losses_since, clock
        self._read_s = -math.inf
        self._found: tuple[Loss, ...] = ()

    def at(self, now_ms: int) -> tuple[Loss, ...]:
        """Return what is lost, not ours, and ended within the last hour, as of at most 10 s ago."""
        if self._clock() - self._read_s >= CHECK_EVERY_S:
            seen = self._losses_since(now_ms - RECENT_MS)
            self._found = tuple(loss for loss in seen if loss.verdict is LossVerdict.LOST and not loss.view.ours)
            self._read_s = self._clock()
        return self._found
