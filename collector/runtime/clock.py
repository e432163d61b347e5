"""The collector's clock: the brokers' time where it is measured (clock_offsets.py), else this machine's.

Ages and deadlines of transactions are of the brokers' clocks. So where this machine's is off by more than a second from theirs,
theirs is followed. Machines' clocks are also stepped (NTP, a virtual machine that was resumed), mostly towards the truth and
sometimes away from it: while no broker was measured, a step of more than a second is believed once it has stood for a minute,
and afterwards never. Until then time goes on as it did. Whoever keeps times of this clock to measure from must move them by
``shifted_ms``; what only measures uses the monotonic clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

TOLERATED_MS = 1_000
"""A difference up to this is followed at once: clocks drift, and are slewed."""
HOLD_MS = 60_000
log = logging.getLogger(__name__)


def steady_ns() -> int:
    """Return nanoseconds from anywhere, never stepped."""
    # On Linux with the time that the machine was suspended: it wakes up and no step is seen.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)


class Clock:
    """Thread-safe. ``wall_ns``: epoch; ``steady_ns``: from anywhere, never stepped."""

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = steady_ns) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._lock = threading.Lock()
        wall_ms, steady_ms = self._read()
        self._ahead_ms = wall_ms - steady_ms
        self._step_ms = 0
        self._stands_since_ms = 0
        self._shifted_ms = 0
        self._follows_brokers = False

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        with self._lock:
            return self._now_ms()

    @property
    def shifted_ms(self) -> int:
        """Return the sum of the steps that were believed since this clock began."""
        return self._shifted_ms

    def wall_ms(self) -> int:
        """Return the machine's own time, right or wrong (epoch ms)."""
        return self._read()[0]

    def steady_ms(self) -> int:
        """Return milliseconds that no step changes, from anywhere."""
        return self._read()[1]

    def follow(self, ahead_ms: int, error_ms: int) -> None:
        """Take the brokers' time, which is ``ahead_ms`` ± ``error_ms`` before the steady one, where this clock is off from it."""
        with self._lock:
            self._now_ms()
            off_ms = ahead_ms - self._ahead_ms
            if abs(off_ms) > TOLERATED_MS + error_ms:
                self._move(off_ms, "so the brokers' clocks were measured")
            self._follows_brokers = True

    def _now_ms(self) -> int:
        wall_ms, steady_ms = self._read()
        step_ms = wall_ms - steady_ms - self._ahead_ms
        if abs(step_ms) <= TOLERATED_MS:
            if self._step_ms:
                log.warning("this machine's clock is back from its step of %+.1f s", self._step_ms / 1000)
            self._ahead_ms, self._step_ms = self._ahead_ms + step_ms, 0
        elif abs(step_ms - self._step_ms) > TOLERATED_MS:
            log.warning(
                "this machine's clock is stepped by %+.1f s: without brokers' clocks to measure it is believed in %d s",
                step_ms / 1000,
                HOLD_MS // 1000,
            )
            self._step_ms, self._stands_since_ms = step_ms, steady_ms
        else:
            self._step_ms = step_ms
            if not self._follows_brokers and steady_ms - self._stands_since_ms >= HOLD_MS:
                self._move(step_ms, f"this machine's clock has stood so for {HOLD_MS // 1000} s")
        return steady_ms + self._ahead_ms

    def _move(self, by_ms: int, why: str) -> None:
        log.warning("the time is %+.1f s from what it was: %s", by_ms / 1000, why)
        self._ahead_ms += by_ms
        self._shifted_ms += by_ms
        self._step_ms -= by_ms

    def _read(self) -> tuple[int, int]:
        return self._wall_ns() // 1_000_000, self._steady_ns() // 1_000_000


CLOCK = Clock()
"""The one of this process."""


def now_ms() -> int:
    """Return epoch milliseconds, UTC, by this process's clock."""
    return CLOCK.now_ms()
