"""The collector's answers that are used more than once: one that is fresh serves all who ask, the last ones outlive an outage."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

MOST = 100
"""So many answers are kept for an outage, the last ones."""


@dataclass(frozen=True, slots=True)
class _SharedRequest:
    asked_s: float
    answer: Future[Any] = field(default_factory=Future)


class KeptAnswers:
    """Shares each answer for ``for_s`` seconds after it was asked for; whoever asks while one is under way waits for it.

    What is asked in a block of ``keeping`` is given again in one of ``looking_back``, however old. Thread-safe. A failure is raised
    to all who waited, and not kept.
    """

    def __init__(self, for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._for_s, self._clock = for_s, clock
        self._lock, self._here = threading.Lock(), threading.local()
        self._requests: dict[Hashable, _SharedRequest] = {}
        self._last: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, what: Hashable, ask: Callable[[], Any]) -> Any:
        """Return the answer to ``what``, by ``ask`` where none may be used again. Raises what ``ask`` raises."""
        mode = getattr(self._here, "mode", "")
        with self._lock:
            if mode == "look back" and what in self._last:
                return self._last[what]
            shared, is_mine = self._requests.get(what), False
            if shared is None or self._is_over(shared):
                shared, is_mine = _SharedRequest(self._clock()), True
                self._requests = {key: kept for key, kept in self._requests.items() if not self._is_over(kept)}
                self._requests[what] = shared
        if is_mine:
            self._ask(what, shared, ask)
        answer = shared.answer.result()
        if mode == "keep":
            self._keep(what, answer)
        return answer

    def forget(self) -> None:
        """Share no answer from before now: an order may have changed any of them."""
        with self._lock:
            self._requests = {}

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the answers to what this thread asks in the block."""
        with self._mode("keep"):
            yield

    @contextlib.contextmanager
    def looking_back(self) -> Iterator[None]:
        """Answer what this thread asks in the block as before; what was never kept is asked."""
        with self._mode("look back"):
            yield

    def _ask(self, what: Hashable, shared: _SharedRequest, ask: Callable[[], Any]) -> None:
        try:
            shared.answer.set_result(ask())
        except BaseException as error:
            with self._lock:
                if self._requests.get(what) is shared:
                    del self._requests[what]
            shared.answer.set_exception(error)
            raise

    def _keep(self, what: Hashable, answer: Any) -> None:
        with self._lock:
            self._last[what] = answer
            self._last.move_to_end(what)
            while len(self._last) > MOST:
                self._last.popitem(last=False)

    def _is_over(self, shared: _SharedRequest) -> bool:
        return shared.answer.done() and self._clock() - shared.asked_s >= self._for_s

    @contextlib.contextmanager
    def _mode(self, mode: str) -> Iterator[None]:
        self._here.mode = mode
        try:
            yield
        finally:
            self._here.mode = ""
