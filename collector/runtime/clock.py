"""The collector's clock: the brokers' time where it is measured, else this machine's.

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
from dataclasses import dataclass

from indoubt.lifecycle.durations import duration

TOLERATED_MS = 1_000
"""A difference up to this is followed at once: clocks drift, and are slewed."""
HOLD_MS = 60_000
log = logging.getLogger(__name__)
MOST_MS = 1_000
"""A clock that is off by more is told; a measurement that leaves more open is none."""
KEPT_MS = 120_000
"""A bound that is so much older than its owner's newest counts no more: clocks drift, 60 ms in this time at the very most."""
SLACK_MS = 60
BROKERS = "brokers"
"""The owner where single brokers cannot be asked; else they are ``broker 1`` and so on."""
NOT_MEASURED = "how far this machine's clock is from the brokers' clocks is not measured yet"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """By how much this machine's clock is ahead of the owner's (negative: behind), and how wrong that may be (ms)."""

    owner: str
    ahead_ms: int
    error_ms: int

    @property
    def is_off(self) -> bool:
        """Say whether it is off for certain by more than is tolerated."""
        return abs(self.ahead_ms) - self.error_ms > MOST_MS

    @property
    def fact(self) -> str:
        """Return it in words."""
        way = "ahead of" if self.ahead_ms > 0 else "behind"
        # Rounded, so that the text stands while it is measured again and again.
        off = duration(round(abs(self.ahead_ms), -2 if abs(self.ahead_ms) < 10_000 else -3))
        return f"this machine's clock is {off} {way} the clock of {self.owner} (± {self.error_ms / 1000:.1f} s)"


class _Bounds:
    """Bounds of (the owner's clock - the steady clock), each with when it was seen, newest last."""

    def __init__(self) -> None:
        self.low: list[tuple[int, int]] = []
        self.high: list[tuple[int, int]] = []

    def add(self, low_ms: int | None, high_ms: int | None, at_ms: int) -> None:
        self.low += [(low_ms, at_ms)] if low_ms is not None else []
        self.high += [(high_ms, at_ms)] if high_ms is not None else []
        self.low = [each for each in self.low if at_ms - each[1] <= KEPT_MS]
        self.high = [each for each in self.high if at_ms - each[1] <= KEPT_MS]
        found = self.found()
        if found is not None and found[0] > found[1] + SLACK_MS:
            # Its clock was stepped, or several answer with different clocks: what was seen before says nothing of now.
            self.low = [(low_ms, at_ms)] if low_ms is not None else []
            self.high = [(high_ms, at_ms)] if high_ms is not None else []

    def found(self) -> tuple[int, int] | None:
        if not self.low or not self.high:
            return None
        return max(value for value, _ in self.low), min(value for value, _ in self.high)


class ClockOffsets:
    """How far this machine's clock is from the clocks of those whose times it is compared with: measured, never assumed.

    A measurement says: the owner's clock stood at this time at a moment between two readings of the steady clock, here. Each
    reading is a bound of the difference; the newest bounds enclose it. Without both bounds, near each other, it is not measured.
    The collector's time follows the brokers' where they can be measured. Thread-safe.
    """

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._bounds: dict[str, _Bounds] = {}

    def saw(self, owner: str, owners_ms: int, *, after_ms: int | None = None, before_ms: int | None = None) -> None:
        """Note that the owner's clock stood at ``owners_ms`` at a moment after and before these readings of ``steady_ms()``."""
        with self._lock:
            low_ms = owners_ms - before_ms if before_ms is not None else None
            high_ms = owners_ms - after_ms if after_ms is not None else None
            self._bounds.setdefault(owner, _Bounds()).add(low_ms, high_ms, self._clock.steady_ms())
            leading = self._brokers()
        if leading and owner in leading:
            middle = sorted(leading.values())[len(leading) // 2]
            self._clock.follow(*middle)

    def middle_ms(self, owner: str) -> int | None:
        """Return the middle of what is known of (the owner's clock - the steady clock), or None where it is not measured."""
        with self._lock:
            found = self._measured(owner)
        return found[0] if found is not None else None

    def all(self) -> tuple[ClockOffset, ...]:
        """Return what is measured, by owner."""
        wall_ms = self._clock.wall_ms() - self._clock.steady_ms()
        with self._lock:
            brokers = self._brokers()
            owners = [owner for owner in sorted(self._bounds) if owner in brokers or not _is_broker(owner)]
            found = [(owner, measured) for owner in owners if (measured := self._measured(owner)) is not None]
        return tuple(ClockOffset(owner=owner, ahead_ms=wall_ms - at, error_ms=error) for owner, (at, error) in found)

    def doubt(self) -> str:
        """Return why an age or the time left should not be relied on, or nothing."""
        found = self.all()
        if not any(_is_broker(each.owner) for each in found):
            return NOT_MEASURED
        return "; ".join(each.fact for each in found if each.is_off)

    def _measured(self, owner: str) -> tuple[int, int] | None:
        """Return (middle, error) of what is known of an owner's clock."""
        bounds = self._bounds.get(owner)
        found = bounds.found() if bounds is not None else None
        if found is None or (error_ms := max(0, found[1] - found[0] + 1) // 2) > MOST_MS:
            return None
        return (found[0] + found[1]) // 2, error_ms

    def _brokers(self) -> dict[str, tuple[int, int]]:
        """Return what is measured of brokers: of each alone, and of all together only where none alone could be asked."""
        found = {o: measured for o in self._bounds if _is_broker(o) and (measured := self._measured(o)) is not None}
        return {owner: each for owner, each in found.items() if owner != BROKERS or len(found) == 1}


def _is_broker(owner: str) -> bool:
    return owner.startswith("broker")
