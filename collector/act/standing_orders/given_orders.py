"""What standing orders remember: what each has done, which attempts ended nothing, and the verdicts of the last minute.

What was done is read from the audit at the start: so a restart forgets none of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from indoubt.collector.history import sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.orders import DRY_RUN, STANDING_ORDER, OrderOutcome
from indoubt.collector.records.standing_orders import StandingAct
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle.verdicts import Verdict

HOUR_S = 3_600.0
DONE = frozenset({OrderOutcome.ACCEPTED.value})
"""Outcomes after which a transaction needs nothing more. What is pending may never have arrived: while the transaction is still
open, and the verdict still asks for it, the same order is given again."""
NOT_COUNTED = frozenset({OrderOutcome.REFUSED.value})
"""Outcomes of attempts that changed nothing: they use up no limit."""
RETRY_AFTER_S = 10.0
"""A transaction is left alone for so long after an attempt that did nothing, or whose end is not known."""
RETRY_LIMIT_S = 80.0
"""Refused again and again, it is left alone for twice as long each time, up to this."""
WINDOW_S = 60.0
"""So long verdicts are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    at_s: float
    is_dry_run: bool
    act: StandingAct


class GivenOrders:
    """For one thread. Acts are counted by the monotonic clock: a stepped clock opens no limit early."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: dict[str, list[_Given]] = {}
        self._acted: set[str] = set()
        self._dry_run_keys: dict[str, set[str]] = {}

    def load(self, store: Store) -> None:
        """Read what the audit has. Raises StoreFailed."""
        at_ms = now_ms()
        for audit, given_ms, _, keys, outcome, evidence in store.rows(sql.STANDING_ORDERS_GIVEN):
            marker = json.loads(evidence)[0]
            for key in json.loads(keys):
                act = StandingAct(key=key, application="", at_ms=given_ms, audit=audit, outcome=outcome)
                given_s = self._clock() - max(0, at_ms - given_ms) / 1000
                self._add(str(marker[STANDING_ORDER]), act, given_s, is_dry_run=bool(marker.get(DRY_RUN)))

    def add(self, order: str, act: StandingAct, *, is_dry_run: bool) -> None:
        """Note what was given now."""
        self._add(order, act, self._clock(), is_dry_run=is_dry_run)

    def _add(self, order: str, act: StandingAct, at_s: float, *, is_dry_run: bool) -> None:
        if is_dry_run:
            self._dry_run_keys.setdefault(order, set()).add(act.key)
        elif act.outcome in DONE:
            self._acted.add(act.key)
        kept = [given for given in self._given.get(order, ()) if given.at_s > self._clock() - HOUR_S]
        given = _Given(at_s=at_s, is_dry_run=is_dry_run, act=act)
        self._given[order] = [*kept, given]

    def done(self, order: str, *, dry_run: bool) -> frozenset[str]:
        """Return the keys of which the order has nothing more to do: any order acted on it, or this one tried it in a dry run."""
        return frozenset(self._dry_run_keys.get(order, ()) if dry_run else self._acted)

    def counted(self, order: str, *, dry_run: bool) -> frozenset[str]:
        """Return the keys that its limit counts: those of the last hour, each once, without those that were refused."""
        found = self.last_hour(order, dry_run=dry_run)
        return frozenset(act.key for act in found if act.outcome not in NOT_COUNTED)

    def last_hour(self, order: str, *, dry_run: bool) -> tuple[StandingAct, ...]:
        """Return what it gave within the last hour, oldest first."""
        since_s = self._clock() - HOUR_S
        found = (g for g in self._given.get(order, ()) if g.is_dry_run is dry_run and g.at_s > since_s)
        return tuple(given.act for given in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    until_s: float
    pause_s: float
    why: str


class FailedAttempts:
    """Attempts that did not end a transaction: until when it is left alone, and why. For one thread; by the monotonic clock."""

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


class VerdictHistory:
    """Which verdicts each transaction had within the last minute; times are seconds of a monotonic clock.

    For one thread, which feeds it with every evaluation.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, Verdict]]] = {}
        self._last_s: dict[str, float] = {}

    def see(self, verdicts: Mapping[str, Verdict], at_s: float) -> None:
        """Note the verdicts of this moment, by the transactions' keys."""
        for key, verdict in verdicts.items():
            seen = self._seen.setdefault(key, [])
            if not seen or seen[-1][1] is not verdict:
                seen.append((at_s, verdict))
            # The verdict that was in force when the minute began counts too: its change lies within it.
            while len(seen) > 1 and seen[1][0] <= at_s - WINDOW_S:
                seen.pop(0)
            self._last_s[key] = at_s
        for key in [key for key, last_s in self._last_s.items() if last_s < at_s - WINDOW_S]:
            del self._seen[key], self._last_s[key]

    def of(self, key: str) -> tuple[Verdict, ...]:
        """Return the verdicts of a transaction within the last minute, oldest first, the present one last."""
        return tuple(verdict for _, verdict in self._seen.get(key, ()))
