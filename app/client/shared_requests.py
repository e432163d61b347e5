"""One request to the collector serves all who want its answer at that moment: fifty tabs ask as often as a few."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class _SharedRequest:
    asked_s: float
    answer: Future[Any] = field(default_factory=Future)


class SharedRequests:
    """Keeps each answer for ``for_s`` seconds after it was asked for; whoever asks while one is under way waits for it.

    Thread-safe. A failure is raised to all who waited, and not kept.
    """

    def __init__(self, for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._for_s, self._clock = for_s, clock
        self._lock = threading.Lock()
        self._requests: dict[Hashable, _SharedRequest] = {}

    def get(self, what: Hashable, ask: Callable[[], Any]) -> Any:
        """Return the answer to ``what``, by ``ask`` where no fresh one is there. Raises what ``ask`` raises."""
        with self._lock:
            shared, is_mine = self._requests.get(what), False
            if shared is None or self._is_over(shared):
                shared, is_mine = _SharedRequest(self._clock()), True
                self._requests = {key: kept for key, kept in self._requests.items() if not self._is_over(kept)}
                self._requests[what] = shared
        if not is_mine:
            return shared.answer.result()
        try:
            shared.answer.set_result(ask())
        except BaseException as error:
            with self._lock:
                if self._requests.get(what) is shared:
                    del self._requests[what]
            shared.answer.set_exception(error)
            raise
        return shared.answer.result()

    def forget(self) -> None:
        """Keep no answer from before now: an order may have changed any of them."""
        with self._lock:
            self._requests = {}

    def _is_over(self, shared: _SharedRequest) -> bool:
        return shared.answer.done() and self._clock() - shared.asked_s >= self._for_s
