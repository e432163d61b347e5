"""Work in a thread of its own, from a start to a stop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """``_run`` works until ``stopping`` is set. A stop waits for it, no longer than ``stop_limit_s`` where there is one."""

    def __init__(self, name: str, stop_limit_s: float | None = None) -> None:
        self.stopping, self._stop_limit_s = threading.Event(), stop_limit_s
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._stop_limit_s)

    @abstractmethod
    def _run(self) -> None: ...
