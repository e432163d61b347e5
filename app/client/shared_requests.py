"""One look at the collector for all who want it at that moment: fifty open tabs ask as often as a few."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class _Look:
    asked_s: float
    answer: Future[Any] = field(default_factory=Future)


class SharedLooks:
    """Keeps each answer for ``for_s`` seconds after it was asked for; whoever asks while one is under way waits for it.

    Thread-safe. A failure is raised to all who waited, and not kept.
    """

    def __init__(self, for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._for_s, self._clock = for_s, clock
        self._lock = threading.Lock()
        self._looks: dict[Hashable, _Look] = {}

    def get(self, what: Hashable, ask: Callable[[], Any]) -> Any:
        """Return the answer to ``what``, by ``ask`` where no fresh one is there. Raises what ``ask`` raises."""
        with self._lock:
            look, is_mine = self._looks.get(what), False
            if look is None or self._is_over(look):
                look, is_mine = _Look(self._clock()), True
                self._looks = {key: kept for key, kept in self._looks.items() if not self._is_over(kept)}
                self._looks[what] = look
        if not is_mine:
            return look.answer.result()
        try:
            look.answer.set_result(ask())
        except BaseException as error:
            with self._lock:
                if self._looks.get(what) is look:
                    del self._looks[what]
            look.answer.set_exception(error)
            raise
        return look.answer.result()

    def forget(self) -> None:
        """Keep no answer from before now: an order may have changed any of them."""
        with self._lock:
            self._looks = {}

    def _is_over(self, look: _Look) -> bool:
        return look.answer.done() and self._clock() - look.asked_s >= self._for_s
