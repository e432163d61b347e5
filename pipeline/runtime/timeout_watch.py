"""Warns of a transaction that has used up a part of its timeout while there is time to do something, once each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.identity import Handle
from indoubt.pipeline.runtime.event_sender import EventSender

log = logging.getLogger(__name__)
WARNING_RATIO = 0.5
"""A transaction that has used up this part of its timeout is warned of."""


def report_timeout_near(events: EventSender, handle: Handle, batch: int, age_ms: int) -> None:
    """Say in the log and as an event that a transaction has used up much of its timeout."""
    log.warning("%s: %d ms of its timeout of %d ms have passed", handle.transaction, age_ms, handle.timeout_ms)
    events.transaction(EventType.TRANSACTION_TIMEOUT_NEAR, handle, batch, age_ms=age_ms, timeout_ms=handle.timeout_ms)


class TimeoutWatch:
    """Calls ``tell(handle, age_ms)`` once for each transaction that is still watched at WARNING_RATIO of its timeout.

    ``tell`` runs in a thread of the watch, so that rows which do not come, or a full queue, do not hold it up.
    """

    def __init__(self, tell: Callable[[Handle, int], None]) -> None:
        self._tell = tell
        self._timers: list[threading.Timer] = []
        self.started = False
        self.reported: frozenset[str] = frozenset()
        """Keys of the transactions that were warned of."""

    def start(self, handles: Iterable[Handle]) -> None:
        """Watch these transactions, from their first write on; those without a timeout are left out."""
        self.started = True
        for handle in handles:
            if handle.timeout_ms > 0:
                age_ms = now_ms() - handle.opened_at_ms
                timer = threading.Timer(
                    max(0.0, handle.timeout_ms * WARNING_RATIO - age_ms) / 1000, self._warn, (handle,)
                )
                timer.daemon = True
                timer.start()
                self._timers.append(timer)

    def stop(self) -> None:
        """Watch no longer; safe to call twice."""
        for timer in self._timers:
            timer.cancel()

    def _warn(self, handle: Handle) -> None:
        self.reported |= {handle.key}
        self._tell(handle, now_ms() - handle.opened_at_ms)
