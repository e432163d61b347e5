"""Recent losses and duplicates of foreign transactions, computed at intervals: it takes a pass over all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from collector.verdicts.data_loss import Loss, LossVerdict

RECENT_MS = 3_600_000
"""How long after its end a loss raises an alert, and after the restore a duplicate; GET /losses keeps both."""
CHECK_EVERY_S = 10.0
Source = Callable[[int], Sequence[Loss]]


class RecentLosses:
    """For one thread. ``losses_since``: what became of transactions that ended since a time (epoch ms).

    ``duplicates_since``: committed ones that are written again after a restore since then.
    """

    def __init__(
        self, losses_since: Source, duplicates_since: Source, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._losses_since, self._duplicates_since, self._clock = losses_since, duplicates_since, clock
        self._read_s = -math.inf
        self._found: tuple[Loss, ...] = ()

    def at(self, now_ms: int) -> tuple[Loss, ...]:
        """Return what is lost or written twice, not ours, within the last hour, as of at most 10 s ago."""
        if self._clock() - self._read_s >= CHECK_EVERY_S:
            since_ms = now_ms - RECENT_MS
            lost = (loss for loss in self._losses_since(since_ms) if loss.verdict is LossVerdict.LOST)
            self._found = (*(loss for loss in lost if not loss.view.ours), *self._duplicates_since(since_ms))
            self._read_s = self._clock()
        return self._found
