"""Runs: orders that a thread of their own carries out, whether or not anybody watches; those by filter one part after the other.

A run is in history before its first part, each part is an order of its own, and the end of the run is in history too. Where the
collector ends before a run is over, the rest is not sent: the next start says so, in the audit and of the run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from indoubt.collector.act.orders.audit import AuditRow, KeyLocks, OrderHistory
from indoubt.collector.act.orders.bulk_selection import Previewed, Previews, parts_of
from indoubt.collector.act.orders.run_progress import Run, after_part, all_refused
from indoubt.collector.act.orders.service import Actions
from indoubt.collector.assess.situation import RunUnderWay
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.records.orders import Order, OrderOutcome, OrderResult
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import IndoubtError, OrderRefused
from indoubt.lifecycle.rows.order_request import MAX_KEYS
from indoubt.lifecycle.rows.orders import OrderRun
from indoubt.lifecycle.rows.row_json import read_row, row_to_json

KEPT_S, MOST_KEPT = 3600.0, 100
"""How long runs that are over are listed, and how many of them."""
STOP_LIMIT_S = 30.0
CUT_SHORT = "The collector ended before all was sent."
log = logging.getLogger(__name__)


class OrderRuns:
    """The runs of this collector, by filter and by keys. Thread-safe.

    ``start`` ends the runs that were cut short; it follows that of the follow-up, which writes down the part that was under way.
    """

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        actions: Actions,
        previews: Previews,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._current, self._actions, self._previews, self._clock = current, actions, previews, clock
        self._history, self._keys = OrderHistory(store), KeyLocks()
        self._lock = threading.RLock()
        self._runs: dict[str, Run] = {}
        self._threads: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """End the runs that an earlier process, or leader, left in the middle. Raises StoreFailed."""
        with self._lock:
            self._runs = {}
        for who, digest, kept in self._history.runs_under_way():
            self._cut_short(who, digest, json.loads(kept))

    def stop(self) -> None:
        """Let no run send another part; returns when those under way have ended, after 30 s at most."""
        with self._lock:
            threads = list(self._threads.values())
            for run in self._runs.values():
                self._halt(run, CUT_SHORT)
        until_s = time.monotonic() + STOP_LIMIT_S
        for thread in threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def begin(self, order: Order, who: str) -> OrderRun:
        """Begin a run; the same order under the same key again begins none and returns that one.

        Raises OrderRefused when its preview is not kept (any more), or another text must be typed, StoreFailed when it cannot be
        written down.
        """
        order = order if order.idempotency_key else replace(order, idempotency_key=uuid4().hex)
        number = hashlib.sha256(f"{who} {order.idempotency_key}".encode()).hexdigest()[:16]
        with self._keys.held(number):
            if (before := self._given_before(number, order, who)) is not None:
                return before
            meant = (
                self._previews.find(order)
                if order.filter
                else Previewed(seen=order.seen, confirm="", what=order.subject)
            )
            if meant is None:
                raise self._refused(
                    order, who, "this preview is not kept (any more): ask for it again. Nothing was done"
                )
            if meant.confirm and order.confirm != meant.confirm and not order.dry_run:
                why = f"this order takes {meant.confirm!r} in 'confirm': repeat it. Nothing was done"
                raise self._refused(order, who, why)
            keys = tuple(meant.seen) if order.filter else order.keys
            run = Run(
                replace(order, keys=keys, seen=meant.seen, each=bool(order.filter), filter=None, fingerprint=""),
                OrderRun(
                    run=number,
                    begun_at_ms=now_ms(),
                    who=who,
                    action=order.action,
                    filter=order.filter.to_json() if order.filter else {},
                    what=meant.what,
                    reason=order.reason,
                    dry_run=order.dry_run,
                    transactions=len(keys),
                    parts=parts_of(keys) if order.filter else 1,
                ),
            )
            if not order.dry_run:
                kept = {"run": row_to_json(run.progress), "key": order.idempotency_key, "keys": keys}
                self._history.begin_run(order, who, json.dumps(kept))
            thread = threading.Thread(target=self._execute, args=(run,), name=f"order run {number}", daemon=True)
            with self._lock:
                self._forget_old()
                self._runs[number], self._threads[number] = run, thread
                thread.start()
            return replace(run.progress, steps=())

    def all(self, who: str | None = None) -> list[OrderRun]:
        """Return the runs, the newest first, without their steps; ``who``: of this caller only."""
        with self._lock:
            self._forget_old()
            found = [run for run in self._runs.values() if who in (None, run.progress.who)]
            return [replace(run.progress, steps=()) for run in reversed(found)]

    def under_way(self) -> list[RunUnderWay]:
        """Return those that send orders now, with what they are about."""
        with self._lock:
            runs = [run for run in self._runs.values() if not (run.progress.is_over or run.progress.dry_run)]
        return [
            RunUnderWay(
                keys=frozenset(run.order.keys),
                who=run.progress.who,
                done=run.progress.done,
                transactions=run.progress.transactions,
                begun_ms=run.progress.begun_at_ms,
            )
            for run in runs
        ]

    def find(self, number: str) -> OrderRun | None:
        """Return a run with its steps, None where there is none of that number."""
        with self._lock:
            run = self._runs.get(number)
            return run.progress if run is not None else None

    def stop_run(self, number: str, who: str) -> OrderRun | None:
        """Send no part of a run after the one that is under way; return the run, None where there is none."""
        with self._lock:
            run = self._runs.get(number)
            if run is None:
                return None
            self._halt(run, f"{who} stopped it.")
            return replace(run.progress, steps=())

    def _given_before(self, number: str, order: Order, who: str) -> OrderRun | None:
        with self._lock:
            run = self._runs.get(number)
        if run is None:
            found = self._history.run(who, order.idempotency_key)
            if found is None:
                return None
            run = Run(replace(order, digest=found[0]), read_row(OrderRun, json.loads(found[1])))
            run.ended_s = self._clock()
            with self._lock:
                self._runs[number] = run
        if run.order.digest != order.digest:
            why = f"idempotency key {order.idempotency_key!r} came with another order before: give each order a key of its own"
            raise self._refused(order, who, f"{why}. Nothing was done")
        return replace(run.progress, steps=())

    def _refused(self, order: Order, who: str, why: str) -> OrderRefused:
        self._actions.refuse(order, who, why)
        return OrderRefused(why)

    def _halt(self, run: Run, why: str) -> None:
        if not run.progress.is_over and not run.progress.halted:
            self._now(run, halted=why)

    def _now(self, run: Run, **changes: Any) -> None:
        with self._lock:
            run.progress = replace(run.progress, **changes)
        self._current.changed()

    def _execute(self, run: Run) -> None:
        try:
            while not run.progress.halted and run.progress.parts_sent < run.progress.parts:
                self._send(run, run.part(run.progress.parts_sent))
        except IndoubtError as error:
            if not run.order.each:
                # Its own audit row says so. Where history failed, it may have been sent.
                ended = OrderOutcome.REFUSED if isinstance(error, OrderRefused) else OrderOutcome.FAILED
                self._now(run, outcome=(OrderOutcome.PENDING if isinstance(error, StoreFailed) else ended).value)
            self._halt(run, str(error))
        except Exception as error:
            # A run whose thread is gone must not look as if it went on.
            log.exception("a run of an order halted")
            self._halt(run, f"The collector failed ({type(error).__name__}): its log says why.")
        self._end(run)

    def _send(self, run: Run, part: Order) -> None:
        try:
            answer = self._actions.give(part, run.progress.who)
        except OrderRefused as error:
            if not part.each:
                raise
            self._add(run, all_refused(part, str(error)))
        else:
            self._add(run, answer)

    def _add(self, run: Run, answer: OrderResult) -> None:
        self._now(run, **after_part(run, answer))

    def _end(self, run: Run) -> None:
        """Mark a run as over, in history first; what was not sent has an audit row, if none tells of it already."""
        progress, unsent = run.progress, run.order.keys[run.progress.sent :]
        over = replace(progress, is_over=True, halted=progress.halted if unsent else "")
        row = None
        if unsent and (run.order.each or not progress.outcome):
            row = AuditRow(
                who=progress.who,
                action=progress.action,
                keys=unsent[:MAX_KEYS],
                reason=f"{progress.reason} (an order for {progress.transactions:,}: {progress.what})"
                if run.order.each
                else progress.reason,
                outcome=OrderOutcome.REFUSED,
                detail=f"{progress.halted} For {len(unsent):,} of {progress.transactions:,} transactions nothing was sent",
            )
        try:
            if not progress.dry_run:
                kept = json.dumps(row_to_json(over))
                self._history.end_run(progress.who, run.order.idempotency_key, kept, row)
        except StoreFailed:
            # The next start finds it, and says what was not sent.
            log.exception("the end of a run of an order could not be written down")
        with self._lock:
            run.ended_s = self._clock()
            self._threads.pop(progress.run, None)
        self._now(run, is_over=True, halted=over.halted)

    def _cut_short(self, who: str, digest: str, kept: Mapping[str, Any]) -> None:
        progress, keys = read_row(OrderRun, kept["run"]), tuple(kept["keys"])
        order = Order(
            action=progress.action,
            keys=keys,
            seen={},
            reason=progress.reason,
            dry_run=False,
            confirm="",
            each=bool(progress.filter),
            idempotency_key=kept["key"],
            digest=digest,
        )
        run = Run(order, progress)
        while run.progress.parts_sent < progress.parts:
            part = run.part(run.progress.parts_sent)
            found = self._actions.answer(part.idempotency_key, who)
            if found.answer is None and found.refused is None:
                break
            self._add(run, found.answer or all_refused(part, found.refused or ""))
        self._runs[progress.run] = run
        self._halt(run, CUT_SHORT)
        self._end(run)

    def _forget_old(self) -> None:
        ended: Sequence[tuple[float, str]] = sorted(
            ((run.ended_s, number) for number, run in self._runs.items() if run.ended_s is not None), reverse=True
        )
        for place, (ended_s, number) in enumerate(ended):
            if place >= MOST_KEPT or self._clock() - ended_s >= KEPT_S:
                del self._runs[number]
