"""Attempts that did not end a transaction: until when it is left alone, and why."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from collector.records.orders import OrderOutcome

RETRY_AFTER_S = 10.0
"""A transaction is left alone for so long after an attempt that did nothing, or whose end is not known."""
RETRY_LIMIT_S = 80.0
"""Refused again and again, it is left alone for twice as long each time, up to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    until_s: float
    pause_s: float
    why: str


class FailedAttempts:
    """For one thread; by the monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, _Waiting] = {}

    def add(self, key: str, outcome: OrderOutcome, why: str) -> None:
        """Note an attempt: the evidence refused it, it failed, or its end is not known."""
        last, pause_s = self._last.get(key), RETRY_AFTER_S
        if last is not None and outcome is OrderOutcome.REFUSED:
            pause_s = min(2 * last.pause_s, RETRY_LIMIT_S)
        self._last[key] = _Waiting(until_s=self._clock() + pause_s, pause_s=pause_s, why=why)

    def waiting(self) -> dict[str, str]:
        """Return the transactions that are left alone now, and why."""
        now_s = self._clock()
        # One that was due again and was not tried since needs no longer pause any more.
        self._last = {key: last for key, last in self._last.items() if last.until_s + RETRY_LIMIT_S > now_s}
        return {key: last.why for key, last in self._last.items() if last.until_s > now_s}
