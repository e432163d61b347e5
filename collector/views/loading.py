"""Loads history beside what else a start does, then starts what observes; a start that fails ends the process."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from indoubt.collector.history.store import StoreFailed
from indoubt.collector.views.current_state import CurrentState

log = logging.getLogger(__name__)


class Part(Protocol):
    """What runs once history is loaded, in threads of its own."""

    def start(self) -> None:
        """Start."""

    def stop(self) -> None:
        """Stop; returns when its threads have ended."""


class Loading:
    """Loads history while its context is open, then starts what ``go_on`` names; stops all of it at the end.

    ``failure``: why it could not, None while nothing failed.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._next: Callable[[], None] = lambda: None
        self._give_up: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self._going_on, self._stopping = threading.Event(), threading.Event()
        self._started: list[Part] = []
        self._thread = threading.Thread(target=self._load, name="load history")

    def __enter__(self) -> Loading:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._going_on.set()
        self._thread.join()
        # What judges ends before what it judges: an observer that was stopped is not down.
        for part in reversed(self._started):
            part.stop()

    def go_on(
        self,
        ready: threading.Event,
        running: Callable[[], Sequence[Part]],
        afterwards: Callable[[], object],
        give_up: Callable[[], None],
    ) -> None:
        """Have these start once history is loaded; then all is ready.

        ``afterwards``: reads of history what a request would wait for, once it is ready. ``give_up``: called where it is not
        loaded, or one of them does not start.
        """

        def start() -> None:
            for part in running():
                if self._stopping.is_set():
                    return
                part.start()
                self._started.append(part)
            ready.set()
            with contextlib.suppress(StoreFailed):  # whoever asks for it reads it then, or is told why not
                afterwards()

        self._next, self._give_up = start, give_up
        self._going_on.set()

    def _load(self) -> None:
        try:
            self._current.load()
            self._going_on.wait()
            # What stands in memory now stays: the collector of garbage need not look through it.
            gc.collect()
            gc.freeze()
            if not self._stopping.is_set():
                self._next()
        except Exception as error:
            if not isinstance(error, StoreFailed):
                log.exception("the collector could not begin")
            self.failure = error
            self._going_on.wait()
            self._give_up()
