"""The last answers of the collector, for parts of a page that go on showing them while it is away."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

MOST = 100
"""So many answers are kept, the last ones."""


class LastAnswers:
    """Keeps what is asked in a block of ``keeping``, and gives it again in one of ``looking_back``. Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._here = threading.Lock(), threading.local()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

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

    def get(self, what: Hashable, ask: Callable[[], Any]) -> Any:
        """Return the answer to ``what``: the kept one while looking back, else by ``ask``. Raises what ``ask`` raises."""
        mode = getattr(self._here, "mode", "")
        with self._lock:
            if mode == "look back" and what in self._answers:
                return self._answers[what]
        answer = ask()
        if mode == "keep":
            with self._lock:
                self._answers[what] = answer
                self._answers.move_to_end(what)
                while len(self._answers) > MOST:
                    self._answers.popitem(last=False)
        return answer

    @contextlib.contextmanager
    def _mode(self, mode: str) -> Iterator[None]:
        self._here.mode = mode
        try:
            yield
        finally:
            self._here.mode = ""
