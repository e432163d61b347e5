"""Orders that were given: each is sent by a thread of its own, so that a page shows at once that it is under way.

They live as long as the app's process: their persons find them again after a reload of the page. After a restart of the app the
page of what an order is about still shows it, because the collector knows it (screens/objects).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from app.client.collector_client import CollectorClient, CollectorError, Failure
from app.client.collector_rows import Orderable
from app.settings import Settings
from lifecycle.orders import Action
from lifecycle.persons import Person
from lifecycle.rows.orders import OrderResult

KEPT_S = 3600.0
"""How long one that has its answer is kept, unless it was seen."""
log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class SentOrder:
    """One order, and its answer once it is there. ``subject``: what it is about, in words; ``sent_at_ms``: when (epoch ms)."""

    action: Action
    subject: str
    shown: Sequence[Orderable]
    reason: str
    confirm: str
    person: Person | None
    sent_at_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    idempotency_key: str = field(default_factory=lambda: uuid4().hex)
    """With it the app asks for a result whose answer never came."""
    answer: OrderResult | CollectorError | None = None
    _has_answer: threading.Event = field(default_factory=threading.Event)

    def wait(self, limit_s: float) -> None:
        """Wait for the answer, for so long at most."""
        self._has_answer.wait(limit_s)

    def send(self, settings: Settings) -> None:
        """Send it, and keep what is answered."""
        try:
            client = CollectorClient(settings, asking_person=lambda: self.person)
            try:
                self.answer = client.order(
                    self.action,
                    self.shown,
                    reason=self.reason,
                    dry_run=False,
                    confirm=self.confirm,
                    idempotency_key=self.idempotency_key,
                )
            finally:
                client.close()
        except CollectorError as error:
            self.answer = error
        except Exception as error:
            # One whose thread is gone must not look as if it were under way.
            log.exception("an order failed in the app")
            why = (
                f"the app failed ({type(error).__name__}), and its log says why; Audit says whether the order was given"
            )
            self.answer = CollectorError(Failure.NO_ANSWER_TO_ORDER, why)
        self._has_answer.set()


class SentOrders:
    """The orders of one process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._orders: list[SentOrder] = []

    def send(self, order: SentOrder, settings: Settings) -> None:
        """Begin to send an order; nothing waits for it."""
        with self._lock:
            self._orders.append(order)
        threading.Thread(target=order.send, args=(settings,), name="order", daemon=True).start()

    def of(self, person: Person | None) -> tuple[SentOrder, ...]:
        """Return those that this person gave and has not seen the answer of, the newest first; without sign-in, all."""
        with self._lock:
            oldest_ms = int((self._clock() - KEPT_S) * 1000)
            self._orders = [one for one in self._orders if one.answer is None or one.sent_at_ms >= oldest_ms]
            return tuple(one for one in reversed(self._orders) if _name(one.person) == _name(person))

    def dismiss(self, order: SentOrder) -> None:
        """Forget an order whose answer was seen."""
        with self._lock:
            self._orders = [one for one in self._orders if one is not order]


SENT = SentOrders()
"""Those of this process. They are not in Streamlit's cache: whoever empties that must not lose them."""


def _name(person: Person | None) -> str | None:
    return person.name if person is not None else None
