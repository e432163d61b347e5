"""What each standing order has done, from the audit at the start and from memory since: so a restart forgets nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from collector.history import sql
from collector.history.store import Store
from collector.records.orders import REHEARSAL, STANDING_ORDER, OrderOutcome
from collector.records.standing_orders import StandingAct
from collector.runtime.clock import now_ms

HOUR_S = 3_600.0
DONE = frozenset({OrderOutcome.ACCEPTED.value})
"""Outcomes after which a transaction needs nothing more. What is pending may never have arrived: while the transaction is still
open, and the verdict still asks for it, the same order is given again."""
NOT_COUNTED = frozenset({OrderOutcome.REFUSED.value})
"""Outcomes of attempts that changed nothing: they use up no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    at_s: float
    is_rehearsal: bool
    act: StandingAct


class GivenOrders:
    """For one thread. Acts are counted by the monotonic clock: a stepped clock opens no limit early."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: dict[str, list[_Given]] = {}
        self._acted: set[str] = set()
        self._rehearsed: dict[str, set[str]] = {}

    def load(self, store: Store) -> None:
        """Read what the audit has. Raises StoreFailed."""
        at_ms = now_ms()
        for audit, given_ms, _, keys, outcome, evidence in store.rows(sql.STANDING_ORDERS_GIVEN):
            marker = json.loads(evidence)[0]
            for key in json.loads(keys):
                act = StandingAct(key=key, application="", at_ms=given_ms, audit=audit, outcome=outcome)
                given_s = self._clock() - max(0, at_ms - given_ms) / 1000
                self._add(str(marker[STANDING_ORDER]), act, given_s, is_rehearsal=bool(marker.get(REHEARSAL)))

    def add(self, order: str, act: StandingAct, *, is_rehearsal: bool) -> None:
        """Note what was given now."""
        self._add(order, act, self._clock(), is_rehearsal=is_rehearsal)

    def _add(self, order: str, act: StandingAct, at_s: float, *, is_rehearsal: bool) -> None:
        if is_rehearsal:
            self._rehearsed.setdefault(order, set()).add(act.key)
        elif act.outcome in DONE:
            self._acted.add(act.key)
        kept = [given for given in self._given.get(order, ()) if given.at_s > self._clock() - HOUR_S]
        given = _Given(at_s=at_s, is_rehearsal=is_rehearsal, act=act)
        self._given[order] = [*kept, given]

    def done(self, order: str, *, rehearses: bool) -> frozenset[str]:
        """Return the keys of which the order has nothing more to do: any order acted on it, or this one rehearsed it."""
        return frozenset(self._rehearsed.get(order, ()) if rehearses else self._acted)

    def counted(self, order: str, *, rehearses: bool) -> frozenset[str]:
        """Return the keys that its limit counts: those of the last hour, each once, without those that were refused."""
        found = self.last_hour(order, rehearses=rehearses)
        return frozenset(act.key for act in found if act.outcome not in NOT_COUNTED)

    def last_hour(self, order: str, *, rehearses: bool) -> tuple[StandingAct, ...]:
        """Return what it gave within the last hour, oldest first."""
        since_s = self._clock() - HOUR_S
        found = (g for g in self._given.get(order, ()) if g.is_rehearsal is rehearses and g.at_s > since_s)
        return tuple(given.act for given in found)
