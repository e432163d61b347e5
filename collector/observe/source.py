"""What every observer is: a thread that polls its source, reports its status, and retries after a failure."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.history.store import Store
from indoubt.collector.observe.pace import Pace
from indoubt.collector.records.observations import Observation, Observed, Position
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.background import Background
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import IndoubtError, MissingTopic

RETRY_FIRST_S, RETRY_MAX_S = 0.25, 2.0
STOP_LIMIT_S = 10.0
log = logging.getLogger(__name__)


class ObserverState(Enum):
    """How an observer is; the value is what the API says."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    ABSENT = "absent"
    """The source does not exist yet; this is normal. ``error`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverStatus:
    """How an observer is at a moment. Times are epoch ms, ``delay_ms`` the age of its last successful poll."""

    kind: ObserverKind
    state: ObserverState
    delay_ms: int | None
    since_ms: int
    error: str
    records: int
    has_caught_up: bool = True
    """It has read everything that its source held when it began, and has not fallen behind since."""
    source_is_missing: bool = False
    """Its source does not exist."""
    rest_ms: int = 0
    """So long it rests between two polls, where it is one of very many."""
    instance: str = ""
    """Which of several: the name of the database, of the Flink cluster, or of the pipeline whose directory it is."""

    @property
    def name(self) -> str:
        """Return what pages and metrics call it."""
        return _name(self.kind, self.instance)


class Observer(Background):
    """Subclasses poll in ``observe`` until they are stopped, and raise when they cannot."""

    kind: ObserverKind

    def __init__(self, current: CurrentState, instance: str = "") -> None:
        self.name = _name(self.kind, instance)
        super().__init__(self.name, STOP_LIMIT_S)
        self.current = current
        self.instance = instance
        self._retry = Backoff(first_s=RETRY_FIRST_S, max_s=RETRY_MAX_S)
        self._state = ObserverState.STARTING
        # By the monotonic clock: how long ago does not change with the machine's time.
        self._since_s = time.monotonic()
        self._polled_s: float | None = None
        self._error = ""
        self._is_missing = False
        self._records = 0
        self.limit = ""
        """What limits it while it is up, as of the last poll."""
        self.rest_s = 0.0
        """So long it rests between two polls, where that is longer than usual."""

    @abstractmethod
    def observe(self) -> None:
        """Poll until ``stopping`` is set. Raises whatever keeps it from polling."""

    def failed(self, error: Exception) -> None:
        """Called when a poll fails; for what a subclass must withdraw until it succeeds again."""

    @property
    def is_listed(self) -> bool:
        """Say whether the status page shows it."""
        return True

    @property
    def has_caught_up(self) -> bool:
        """Say whether all that the source held at the start was seen: after one successful poll, unless a subclass knows better."""
        return self._polled_s is not None

    @property
    def absence(self) -> str:
        """Return what it means that the source does not exist, where this is normal; else empty."""
        return ""

    @property
    def note(self) -> str:
        """Return what limits the observer while it is up: shown where an error would be."""
        return self.limit

    @property
    def status(self) -> ObserverStatus:
        """Return how it is now."""
        at_s, polled_s = time.monotonic(), self._polled_s
        return ObserverStatus(
            kind=self.kind,
            instance=self.instance,
            state=self._state,
            delay_ms=None if polled_s is None else round((at_s - polled_s) * 1000),
            since_ms=now_ms() - round((at_s - self._since_s) * 1000),
            error=self._error or (self.note if self._state is ObserverState.UP else ""),
            records=self._records,
            has_caught_up=self.has_caught_up,
            source_is_missing=self._is_missing,
            rest_ms=round(self.rest_s * 1000),
        )

    @property
    def has_ended(self) -> bool:
        """Say whether its thread has ended, or never began."""
        return not self._thread.is_alive()

    def repeat(self, poll: Callable[[], None], interval_s: float, pace: Pace | None = None) -> None:
        """Poll until stopped, and rest for so long after each poll, at a ``pace`` for longer. Raises what ``poll`` raises."""
        self.stopping.wait(pace.begin_s() if pace is not None else 0.0)
        while not self.stopping.is_set():
            began_s = time.thread_time()
            poll()
            self.polled()
            if pace is not None:
                pace.spent(time.thread_time() - began_s)
            self.stopping.wait(pace.rest_s(interval_s) if pace is not None else interval_s)

    def arrived(self, observed: list[Observed]) -> None:
        """Hand over what was seen."""
        self.current.observe(observed)
        self.count(len(observed))

    def count(self, records: int) -> None:
        """Count records that were handed over."""
        self._records += records

    def polled(self) -> None:
        """Note a successful poll: the source answered."""
        self._polled_s = time.monotonic()
        self._is_missing = False
        self._become(ObserverState.UP, "")

    def poll_failed(self, error: Exception) -> None:
        """Note why a poll failed."""
        self._is_missing = isinstance(error, MissingTopic)
        self.failed(error)
        self._become(*self._state_after(error))

    def _run(self) -> None:
        pauses = self._retry.pauses()
        while not self.stopping.is_set():
            before = self._polled_s
            try:
                self.observe()
            except Exception as error:  # an observer fails alone, whatever the reason
                if not isinstance(error, IndoubtError):
                    log.exception("observer %s failed", self.name)
                self.poll_failed(error)
                if isinstance(error, MissingTopic) or self._polled_s != before:
                    pauses = self._retry.pauses()
                self.stopping.wait(next(pauses))

    def _state_after(self, error: Exception) -> tuple[ObserverState, str]:
        if self._is_missing and (absence := self.absence):
            return ObserverState.ABSENT, f"not there yet: {absence}"
        return ObserverState.DOWN, str(error) or type(error).__name__

    def _become(self, state: ObserverState, error: str) -> None:
        if (state, error) == (self._state, self._error):
            return
        if state is not self._state:
            self._since_s = time.monotonic()
            log.log(
                logging.WARNING if state is ObserverState.DOWN else logging.INFO,
                "%s: %s %s",
                self.name,
                state.value,
                error,
            )
        self._state, self._error = state, error
        self.current.changed()


class CountingObserver(Observer):
    """One whose source has no offsets: what it tells is counted, on from where history ends."""

    def __init__(self, current: CurrentState, store: Store, instance: str = "") -> None:
        super().__init__(current, instance)
        self._next_offset = store.next_offsets(self.name).get(0, 0)

    def tell(self, seen: Iterable[Observation]) -> None:
        """Hand over what was seen, if anything was."""
        observed = [
            Observed(position=Position(source=self.name, partition=0, offset=offset), observation=each)
            for offset, each in enumerate(seen, self._next_offset)
        ]
        self._next_offset += len(observed)
        if observed:
            self.arrived(observed)


def _name(kind: ObserverKind, instance: str) -> str:
    return f"{kind.value} {instance}" if instance else kind.value
