"""The processes of ``watch``: each is started again when it ends, and none outlives the process that started it."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.child_processes import die_with_parent

PAUSES = Backoff(0.5, 30.0)
HEALTHY_AFTER_S = 60.0
"""A part that ran this long begins a new row of pauses."""
STOP_LIMIT_S = 20.0
KILL_LIMIT_S = 10.0


class Part:
    """A process that runs a module of ours. Use it from the main thread: it dies with the thread that started it."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = [*_interpreter(), "-m", module, *arguments]
        self._environment = environment
        self._in_a_row = 0
        self._due_s: float | None = None
        self._start()

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, None while it runs; negative: the number of the signal that ended it."""
        return self._process.poll()

    def keep(self) -> str:
        """Start it again if it has ended and its pause is over; return a sentence about an end, or an empty text."""
        now_s = time.monotonic()
        if self._due_s is not None:
            if now_s >= self._due_s:
                self._start()
            return ""
        if self.exit_code is None:
            return ""
        if now_s - self._started_s > HEALTHY_AFTER_S:
            self._in_a_row = 0
        pause_s = PAUSES.pause_s(self._in_a_row)
        self._in_a_row += 1
        self._due_s = now_s + pause_s
        return f"{self.how_it_ended()}; it starts again in {pause_s:g} s"

    def wait_s(self, at_most_s: float) -> float:
        """Return how long nothing is to be done for it, unless it ends."""
        return at_most_s if self._due_s is None else min(at_most_s, max(0.0, self._due_s - time.monotonic()))

    def how_it_ended(self) -> str:
        """Return in words how it ended."""
        code = self.exit_code
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with code {code}"
        return f"the {self.name} ended {how}"

    def _start(self) -> None:
        self._started_s, self._due_s = time.monotonic(), None
        self._process = subprocess.Popen(
            self._command,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # Ctrl-C is for the parent, which ends its parts in order.
            start_new_session=True,
            preexec_fn=functools.partial(_begin, os.getpid()),
        )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def _wait(self, limit_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, limit_s))


def stop(parts: Iterable[Part]) -> None:
    """End all of them by SIGTERM at once, and what does not end in time by SIGKILL."""
    parts = list(parts)
    for number, limit_s in ((signal.SIGTERM, STOP_LIMIT_S), (signal.SIGKILL, KILL_LIMIT_S)):
        for part in parts:
            part.send(number)
        deadline_s = time.monotonic() + limit_s
        for part in parts:
            part._wait(deadline_s - time.monotonic())


def _begin(parent: int) -> None:
    """Prepare a new process (``preexec_fn``): it dies with its parent, and hears the signals that its parent waits for."""
    die_with_parent()
    # Until it listens: a SIGHUP would end it, and it is about to read its settings anyway.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if os.getppid() != parent:
        os._exit(1)  # the parent died before the system was asked


def _interpreter() -> list[str]:
    """Return the command of Python by which a part finds the package that runs here.

    It finds it in the working directory only where that is so here, too: another user's files may be there.
    """
    is_from_here = sys.path[:1] == [os.getcwd()]
    return [sys.executable] if is_from_here else [sys.executable, "-P"]
