"""Orders by filter that were given: each is sent in parts by a thread of its own, whether or not a page shows it.

They live as long as the app's process. What a process that ends has not sent is not sent by the next.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from app.client.collector_client import CollectorClient, CollectorError, Failure
from app.settings import Settings
from lifecycle.orders import Action
from lifecycle.persons import Person
from lifecycle.rows.order_request import PART
from lifecycle.rows.orders import OrderPreview, OrderStep

KEPT_S = 3600.0
"""How long a run that ended, or halted, is kept."""
MOST_KEPT = 100
"""Of those; one that is being sent is always kept."""
STOPPED = "You stopped it."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOrder:
    """An order for everything that a filter meant in its preview."""

    action: Action
    filter: Mapping[str, str]
    preview: OrderPreview
    reason: str
    confirm: str
    dry_run: bool
    is_of_one_condition: bool = False
    """Of several that its filter means: what was typed says which."""

    @property
    def words(self) -> str:
        """Return in words what it is about."""
        which = f", {self.confirm or 'without a text to type'}" if self.is_of_one_condition else ""
        return in_words(self.filter) + which


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is at one moment."""

    parts_sent: int = 0
    steps: tuple[OrderStep, ...] = ()
    audits: tuple[int, ...] = ()
    is_sending: bool = False
    halted: str = ""
    """Why it does not go on; empty: it does, or all is sent."""


class FilterRun:
    """The parts of an order, and what became of them. Each has one idempotency key, however often it is sent. Thread-safe."""

    def __init__(
        self,
        order: FilterOrder,
        person: Person | None,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.order, self.person, self.id = order, person, uuid4().hex
        self._settings, self._clock = settings, clock
        self._changed = threading.Condition()
        self._progress = Progress()
        self._ended_s = clock()

    @property
    def parts(self) -> int:
        """Return how many requests it takes."""
        return parts_of(self.order.preview)

    @property
    def progress(self) -> Progress:
        """Return how far it is now."""
        with self._changed:
            return self._progress

    @property
    def ended_s(self) -> float | None:
        """Return by the clock when it ended or halted, None while it is being sent."""
        with self._changed:
            return None if self._progress.is_sending else self._ended_s

    def wait(self, seen: Progress, limit_s: float) -> Progress:
        """Wait until it is further than ``seen``, for so long at most; return how far it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._progress is not seen, limit_s)
            return self._progress

    def go_on(self, person: Person | None) -> None:
        """Send what is left in the name of this person; nothing, where it is being sent or all is sent.

        A part whose answer never came is sent under its key again: it gets its first answer, and nothing is done twice.
        """
        with self._changed:
            if self._progress.parts_sent == self.parts:
                return
            was_sending = self._progress.is_sending
            self._now(replace(self._progress, is_sending=True, halted=""))
        if not was_sending:
            name = f"filter order {self.id[:8]}"
            threading.Thread(target=self._send_the_rest, args=(person,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Send no part after the one that is under way."""
        with self._changed:
            if self._progress.is_sending:
                self._now(replace(self._progress, halted=STOPPED))

    def _now(self, progress: Progress) -> None:
        self._progress = progress
        self._changed.notify_all()

    def _send_the_rest(self, person: Person | None) -> None:
        try:
            client = CollectorClient(self._settings, asking_person=lambda: person)
            try:
                while self._has_more_to_send():
                    self._send_part(client)
            finally:
                client.close()
        except Exception as error:
            # A run whose thread is gone must not look as if it were being sent.
            log.exception("an order by filter halted")
            with self._changed:
                self._ended_s = self._clock()
                why = f"The app failed ({type(error).__name__}): its log says why."
                self._now(replace(self._progress, is_sending=False, halted=why))

    def _has_more_to_send(self) -> bool:
        """Say whether another part is to be sent; if not, mark it as ended under the same lock."""
        with self._changed:
            is_whole = self._progress.parts_sent == self.parts
            if not is_whole and not self._progress.halted:
                return True
            self._ended_s = self._clock()
            halted = "" if is_whole else self._progress.halted
            self._now(replace(self._progress, is_sending=False, halted=halted))
            return False

    def _send_part(self, client: CollectorClient) -> None:
        order, number = self.order, self.progress.parts_sent
        keys = order.preview.keys[number * PART : (number + 1) * PART]
        of_all = f"an order for {len(order.preview.keys):,}: {order.words}"
        try:
            result = client.order_each(
                order.action,
                {key: order.preview.seen[key] for key in keys},
                reason=f"{order.reason} (part {number + 1} of {self.parts} of {of_all})",
                dry_run=order.dry_run,
                confirm=order.confirm,
                idempotency_key="" if order.dry_run else f"{self.id}-{number}",
            )
        except CollectorError as error:
            if error.failure is not Failure.REFUSED:
                with self._changed:
                    self._now(replace(self._progress, halted=str(error)))
                return
            steps, audits = _refused(keys, str(error)), []
        else:
            steps, audits = result.steps, [result.audit]
        with self._changed:
            so_far = self._progress
            all_steps, all_audits = (*so_far.steps, *steps), (*so_far.audits, *audits)
            self._now(replace(so_far, parts_sent=number + 1, steps=all_steps, audits=all_audits))


class FilterRuns:
    """The runs of one process, which their persons find again after a reload of the page. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._runs: list[FilterRun] = []

    def begin(self, order: FilterOrder, person: Person | None, settings: Settings) -> FilterRun:
        """Start to send an order in the name of this person, None: of the token's holder."""
        run = FilterRun(order, person, settings, self._clock)
        run.go_on(person)
        with self._lock:
            self._runs.append(run)
        return run

    def of(self, person: Person | None) -> tuple[FilterRun, ...]:
        """Return the runs that this person gave, the newest first; without sign-in, all."""
        with self._lock:
            self._forget_old()
            return tuple(run for run in reversed(self._runs) if _name(run.person) == _name(person))

    def dismiss(self, run: FilterRun) -> None:
        """Forget a run, whose person has seen how it ended; one that is being sent is kept."""
        with self._lock:
            self._runs = [kept for kept in self._runs if kept is not run or kept.ended_s is None]

    def _forget_old(self) -> None:
        ended = [(ended_s, run) for run in self._runs if (ended_s := run.ended_s) is not None]
        newest = sorted(ended, key=lambda pair: pair[0], reverse=True)[:MOST_KEPT]
        kept = {id(run) for ended_s, run in newest if self._clock() - ended_s < KEPT_S}
        gone = {id(run) for _, run in ended} - kept
        self._runs = [run for run in self._runs if id(run) not in gone]


RUNS = FilterRuns()
"""Those of this process. They are not in Streamlit's cache: whoever empties that must not lose them."""


def in_words(wanted: Mapping[str, str]) -> str:
    """Return a filter in words."""
    return " and ".join(f"{name.replace('_', ' ')} {value}" for name, value in wanted.items())


def parts_of(preview: OrderPreview) -> int:
    """Return how many requests an order for all of these takes."""
    return -(-len(preview.keys) // PART)


def _refused(keys: tuple[str, ...], why: str) -> tuple[OrderStep, ...]:
    return tuple(OrderStep(key=key, description="nothing", outcome="refused", detail=why) for key in keys)


def _name(person: Person | None) -> str | None:
    return person.name if person is not None else None
