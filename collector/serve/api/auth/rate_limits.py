"""Token buckets: how often one caller may ask and order, and how often one address may fail to say who it is."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from indoubt.collector.serve.api.auth.authentication import Caller
from indoubt.lifecycle.errors import IndoubtError

MAX_KEYS = 10_000
"""Callers or addresses that are kept in mind; the one that was longest away is forgotten first."""


class TooManyRequests(IndoubtError):
    """A caller or an address asked more often than it may; the message says which limit and when to ask again."""

    def __init__(self, what: str, wait_s: float) -> None:
        self.retry_after_s = max(1, math.ceil(wait_s))
        super().__init__(f"too many {what}: ask again in {self.retry_after_s} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many a second in the long run, and ``burst`` at once after a pause."""

    per_s: float
    burst: float


class Buckets:
    """One bucket per key, full at first. Thread-safe."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one from the bucket of ``key``; return 0, or the seconds until there is one, and then nothing is taken."""
        with self._lock:
            level = self._level(key)
            wait_s = max(0.0, (1 - level) / self._rate.per_s)
            self._levels[key] = (level if wait_s else level - 1, self._clock())
            self._levels.move_to_end(key)
            if len(self._levels) > MAX_KEYS:
                self._levels.popitem(last=False)
            return wait_s

    def wait_s(self, key: str) -> float:
        """Return 0, or the seconds until there is one in the bucket of ``key``; nothing is taken."""
        with self._lock:
            return max(0.0, (1 - self._level(key)) / self._rate.per_s)

    def _level(self, key: str) -> float:
        level, at_s = self._levels.get(key, (self._rate.burst, 0.0))
        return min(self._rate.burst, level + (self._clock() - at_s) * self._rate.per_s)


class RequestLimits:
    """The three limits of the API. Bursts: 10 s of requests, a minute of orders, a minute of failed authentications.

    Persons that share an app's token have a limit each. Who looks too often can still give orders: in an incident many look, and
    one of them acts.
    """

    def __init__(
        self,
        *,
        requests_per_second: int = 300,
        orders_per_minute: int = 120,
        failed_authentications_per_minute: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        def per_minute(number: int) -> Buckets:
            return Buckets(Rate(per_s=number / 60, burst=number), clock)

        self._requests = Buckets(Rate(per_s=requests_per_second, burst=10 * requests_per_second), clock)
        self._orders = per_minute(orders_per_minute)
        self._failures = per_minute(failed_authentications_per_minute)

    def admit(self, caller: Caller, *, changes_something: bool) -> None:
        """Count one request of a caller. Raises TooManyRequests."""
        buckets, what = (self._orders, "orders") if changes_something else (self._requests, "requests")
        wait_s = buckets.take(caller.name)
        if wait_s:
            raise TooManyRequests(f"{what} by {caller.name}", wait_s)

    def check_address(self, address: str, caller: Caller | None) -> None:
        """Shut an address out that failed too often, also when it guessed right this time. Raises TooManyRequests.

        A token that cannot be guessed is let in all the same: whoever shares an address with an attacker can still work.
        """
        wait_s = self._failures.wait_s(address)
        if wait_s and (caller is None or caller.is_guessable):
            raise TooManyRequests("failed authentications from this address", wait_s)

    def failed(self, address: str) -> None:
        """Count one failed authentication of an address."""
        self._failures.take(address)
