"""The timeouts of the last day against what they had to outlast, gathered from history and from what is open now."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from collector import queries
from collector.clock import now_ms
from collector.current_state import CurrentState
from collector.facts import BrokerTransaction
from collector.store import Store
from collector.timeout_risk import EndedLengths, OpenNow, Timeout, application_of

DAY_MS = 24 * 3_600_000
RECOUNT_MS = 5_000


class LengthsNowAndThen:
    """How long transactions were open in the last 24 hours, counted at most every 5 s, however many pages ask. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._counted_ms = 0
        self._lengths: Sequence[EndedLengths] | None = None

    def at(self, at_ms: int) -> Sequence[EndedLengths]:
        """Return the lengths as of at most 5 s ago, one entry for each application, in no order. Raises StoreFailed."""
        with self._lock:
            if self._lengths is None or not 0 <= at_ms - self._counted_ms < RECOUNT_MS:
                rows = self._store.named_rows(queries.LENGTHS_SINCE, at_ms - DAY_MS)
                self._lengths = [EndedLengths(**row) for row in rows]
                self._counted_ms = at_ms
            return self._lengths


def timeouts(current: CurrentState, lengths: LengthsNowAndThen, assumed_recovery_ms: int) -> list[Timeout]:
    """Return the timeout of every application with a transaction in the last 24 hours or open now, in no order.

    Raises StoreFailed.
    """
    known = {one.application: one for one in lengths.at(now_ms())}
    opened = open_now(current.open_at_coordinators())
    for name, (_, timeout_ms) in opened.items():
        if name not in known and timeout_ms is not None:
            known[name] = EndedLengths(application=name, timeout_ms=timeout_ms)
    ours = current.pipelines(run.facts.pipeline for run in current.newest_runs())
    return [
        Timeout(
            lengths=one,
            open_now=opened[name][0] if name in opened else None,
            pipeline=ours.get(name),
            assumed_recovery_ms=assumed_recovery_ms,
        )
        for name, one in known.items()
    ]


def open_now(transactions: Iterable[BrokerTransaction]) -> dict[str, tuple[OpenNow, int | None]]:
    """Return of each application what is open, and the timeout of its oldest."""
    of_each: dict[str, list[BrokerTransaction]] = {}
    for one in transactions:
        of_each.setdefault(application_of(one.identity.transaction), []).append(one)
    return {name: _oldest(members) for name, members in of_each.items()}


def _oldest(members: Sequence[BrokerTransaction]) -> tuple[OpenNow, int | None]:
    oldest = min(members, key=lambda one: one.identity.start_ms)
    opened_ms, timeout_ms = oldest.identity.start_ms, oldest.timeout_ms
    deadline_ms = opened_ms + timeout_ms if timeout_ms is not None else None
    shown = OpenNow(
        count=len(members), oldest_key=oldest.key, oldest_opened_ms=opened_ms, oldest_deadline_ms=deadline_ms
    )
    return shown, timeout_ms


def timeout_row(timeout: Timeout) -> dict[str, Any]:
    """Return a row of GET /timeouts, in the columns and order of docs/api.md; lengths in ms, times epoch ms."""
    lengths, opened = timeout.lengths, timeout.open_now
    return {
        "pipeline": lengths.application,
        "ours": timeout.pipeline is not None,
        "risk": timeout.risk.value,
        "advice": timeout.advice,
        "timeout_ms": lengths.timeout_ms,
        "left_ms": timeout.left_ms,
        "recovery_ms": timeout.recovery_ms,
        "recovery": timeout.recovery,
        "transactions": lengths.ended + lengths.timed_out,
        "timed_out": lengths.timed_out,
        "p50_ms": lengths.p50_ms,
        "p95_ms": lengths.p95_ms,
        "p99_ms": lengths.p99_ms,
        "longest_ms": lengths.longest_ms,
        "longest_transaction": lengths.longest_transaction,
        "open": opened.count if opened is not None else 0,
        "oldest_key": opened.oldest_key if opened is not None else None,
        "oldest_opened_at_ms": opened.oldest_opened_ms if opened is not None else None,
        "oldest_deadline_ms": opened.oldest_deadline_ms if opened is not None else None,
    }
