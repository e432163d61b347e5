"""The collector's clock: this machine's time, but a step of it is not believed at once.

Machines' clocks are stepped (NTP, a virtual machine that was resumed), mostly towards the truth and sometimes away from it.
A step of more than a second is believed once a record that a broker has just written is nearer to the new time than to the
old one, or when it has stood for a minute without such a record. Until then time goes on as it did. Whoever keeps times of
this clock to measure from must move them by ``shifted_ms`` when a step was believed; what only measures uses the monotonic
clock.
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


def _steady_ns() -> int:
    # On Linux with the time that the machine was suspended: it wakes up and no step is seen.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)


class Clock:
    """Thread-safe. ``wall_ns``: epoch; ``steady_ns``: from anywhere, never stepped."""

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = _steady_ns) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._lock = threading.Lock()
        wall_ms, steady_ms = self._read()
        self._ahead_ms = wall_ms - steady_ms
        self._step_ms = 0
        self._stands_since_ms = 0
        self._shifted_ms = 0

    def now_ms(self) -> int:
        """Return epoch milliseconds, UTC."""
        with self._lock:
            return self._now_ms()

    @property
    def shifted_ms(self) -> int:
        """Return the sum of the steps that were believed since this clock began."""
        return self._shifted_ms

    @property
    def is_in_doubt(self) -> bool:
        """Say whether a step of the machine's clock is seen that is not believed yet."""
        with self._lock:
            self._now_ms()
            return self._step_ms != 0

    def observe_broker_time(self, broker_ms: int) -> None:
        """Judge a step by the time that a broker has just given a record; without a step it says nothing."""
        if broker_ms <= 0:
            return
        with self._lock:
            # Looks for a step itself: the next record may be the only one, and the time may not have been asked for since the step.
            now_ms = self._now_ms()
            if not self._step_ms:
                return
            if abs(now_ms + self._step_ms - broker_ms) < abs(now_ms - broker_ms):
                self._believe("the brokers' times agree with it")
            else:
                self._stands_since_ms = self._read()[1]

    def _now_ms(self) -> int:
        wall_ms, steady_ms = self._read()
        step_ms = wall_ms - steady_ms - self._ahead_ms
        if abs(step_ms) <= TOLERATED_MS:
            if self._step_ms:
                log.warning("this machine's clock is back from its step of %+.1f s", self._step_ms / 1000)
            self._ahead_ms, self._step_ms = self._ahead_ms + step_ms, 0
        elif abs(step_ms - self._step_ms) > TOLERATED_MS:
            log.warning(
                "this machine's clock was stepped by %+.1f s: it is believed once the brokers' times agree, or in %d s",
                step_ms / 1000,
                HOLD_MS // 1000,
            )
            self._step_ms, self._stands_since_ms = step_ms, steady_ms
        else:
            self._step_ms = step_ms
            if steady_ms - self._stands_since_ms >= HOLD_MS:
                self._believe(f"it has stood for {HOLD_MS // 1000} s")
        return steady_ms + self._ahead_ms

    def _believe(self, why: str) -> None:
        log.warning("this machine's clock is believed, %+.1f s from what it was: %s", self._step_ms / 1000, why)
        self._ahead_ms += self._step_ms
        self._shifted_ms += self._step_ms
        self._step_ms = 0

    def _read(self) -> tuple[int, int]:
        return self._wall_ns() // 1_000_000, self._steady_ns() // 1_000_000


CLOCK = Clock()
"""The one of this process."""


def now_ms() -> int:
    """Return epoch milliseconds, UTC, by this process's clock."""
    return CLOCK.now_ms()
