"""Reads one store of Flink's checkpoints in a thread of its own, so that a store that hangs holds up no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from indoubt.collector.observe.flink_checkpoint_store import CheckpointStore, Reported
from indoubt.collector.records.formats.flink_records import FlinkCommittables, UnreadCheckpoint
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.runtime.time_format import utc
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.errors import ResourceManagerError

SLOW_AFTER_S = 10.0
"""A store that says nothing for so long in the middle of a look counts as one that does not answer."""
REST_TIMES, MAX_INTERVALS = 45, 2
"""A look takes longer with each job: the next begins so many times its processor time later, but not after more intervals."""
log = logging.getLogger(__name__)


class FlinkStoreReader:
    """One look at a time: ``begin`` starts it and never waits, ``wait`` waits for its end.

    ``name``: what a person knows the store by. ``hand_over`` is called in the reader's own thread, with what was read and the URIs
    of what is deleted.
    """

    def __init__(
        self,
        name: str,
        store: CheckpointStore,
        hand_over: Callable[[list[FlinkCommittables], list[str]], None],
        *,
        interval_s: float,
        remote_interval_s: float,
        retry: Backoff,
    ) -> None:
        self.name, self.store = name, store
        self.reported: Sequence[Reported] = ()
        """What REST reported, that lies here."""
        self.cost_s = 0.0
        """The processor time of the newest look that ended."""
        self.error = ""
        """Why the newest look that ended failed."""
        self.has_answered = False
        self.unread: list[UnreadCheckpoint] = []
        self.out_of_reach: dict[tuple[str, int | None], str] = {}
        self.left_out: dict[str, int] = {}
        """What the store said of these at the end of the newest look; ``unread``: of the newest that did not fail."""
        self._hand_over = hand_over
        self._interval_s, self._remote_interval_s, self._retry = interval_s, remote_interval_s, retry
        self._idle = threading.Event()
        self._idle.set()
        self._due_s = 0.0
        self._failures = 0
        self._is_waited_for = True
        self._silent_since_ms: int | None = None

    def begin(self) -> None:
        """Start a look, if one is due and none is under way."""
        if not self._idle.is_set() or time.monotonic() < self._due_s:
            return
        self._idle.clear()
        self._is_waited_for = True
        self.store.answered()
        threading.Thread(target=self._look, args=(self.reported,), name=f"reads {self.name}", daemon=True).start()

    def wait(self, limit_s: float) -> None:
        """Wait for the end of a look, but not again for one that took longer than the limit before."""
        if self._is_waited_for:
            self._is_waited_for = self._idle.wait(max(0.0, limit_s))

    @property
    def is_idle(self) -> bool:
        """Say whether no look is under way."""
        return self._idle.is_set()

    @property
    def next_s(self) -> float:
        """Return in how many seconds it is to be asked to begin again."""
        return max(0.0, self._due_s - time.monotonic()) if self.is_idle else self._interval_s

    @property
    def silence(self) -> str:
        """Return since when the store does not answer, in words; empty while it does."""
        if self.is_idle or time.monotonic() - self.store.answered_s < SLOW_AFTER_S:
            self._silent_since_ms = None
            return ""
        if self._silent_since_ms is None:
            self._silent_since_ms = now_ms() - round((time.monotonic() - self.store.answered_s) * 1000)
        return f"{self.name} has not answered since {utc(self._silent_since_ms)}"

    def _look(self, reported: Sequence[Reported]) -> None:
        began_s = time.thread_time()
        try:
            new = self.store.read_new(reported)
            if new or self.store.gone:
                self._hand_over(new, self.store.gone)
        except Exception as error:  # a store fails alone, whatever the reason
            if not isinstance(error, ResourceManagerError):
                log.exception("%s failed", threading.current_thread().name)
            self.error = str(error) or type(error).__name__
            self._due_s = time.monotonic() + self._retry.pause_s(self._failures)
            self._failures += 1
        else:
            self.error, self._failures, self.has_answered, self.unread = "", 0, True, self.store.unread
            pause_s = self._remote_interval_s if self.store.is_remote else self._interval_s
            self._due_s = time.monotonic() + rest_s(pause_s, time.thread_time() - began_s)
        finally:
            self.cost_s = time.thread_time() - began_s
            store = self.store
            self.out_of_reach, self.left_out = store.out_of_reach, store.left_out
            self._idle.set()


def rest_s(interval_s: float, look_s: float) -> float:
    """Return how long to rest after a look that took so much processor time; seconds."""
    return max(interval_s, min(MAX_INTERVALS * interval_s, REST_TIMES * look_s))
