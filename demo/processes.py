"""The demo's child processes: each runs in its own process group and ends with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.guard import MARK
from demo.prerequisites import ROOT
from demo.waiting import DemoFailed
from indoubt.lifecycle.child_processes import die_with_parent

LOG_TAIL_LINES = 12
STOP_LIMIT_S = 20.0
KILL_LIMIT_S = 10.0
RESTARTS_IN_A_ROW = 5
FIRST_PAUSE_S = 0.5
"""The pause doubles with each restart in a row: the sixth end comes about 16 s after the first."""
HEALTHY_AFTER_S = 60.0
"""A part that ran this long resets the count of restarts in a row."""


class Child:
    """A process of the demo with its log file. Start it from the main thread: it dies with the thread that started it."""

    def __init__(self, name: str, command: Sequence[str], log_file: Path, environment: Mapping[str, str]) -> None:
        self.name, self.log_file = name, log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                cwd=ROOT,
                env={**_inherited(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """Return its process id, which is also its process group's."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.poll()

    def check_running(self) -> None:
        """Raise DemoFailed with the end of its log if it has ended."""
        if self.exit_code is not None:
            raise DemoFailed(
                f"{self.name} ended with code {self.exit_code}; the end of {self.log_file}:\n{self.tail()}"
            )

    def tail(self) -> str:
        """Return the last lines of its log."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-LOG_TAIL_LINES:])

    def stop(self, limit_s: float) -> None:
        """End it by SIGTERM, and after ``limit_s`` seconds its whole group by SIGKILL; safe to call twice."""
        if self.exit_code is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(limit_s)
        # A process with the number of a child that has ended is a stranger: the group was gone, and the number given again.
        if self.exit_code is None or not Path(f"/proc/{self.pid}").exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(KILL_LIMIT_S)


class Part:
    """A child that restarts when it ends, with growing pauses and a limited number of times. Use it from the main thread."""

    def __init__(self, name: str, command: Sequence[str], log_file: Path, environment: Mapping[str, str]) -> None:
        self._name, self._command, self._log_file, self._environment = name, command, log_file, environment
        self._in_a_row = 0
        self._due_s: float | None = None
        self.child = self._start()

    def keep(self) -> str:
        """Start it again if it has ended and its pause is over; return a sentence about an end or a start, or an empty text.

        Raises DemoFailed if it ended too often in a row.
        """
        now_s = time.monotonic()
        if self._due_s is not None:
            if now_s < self._due_s:
                return ""
            self._due_s, self.child = None, self._start()
            return f"{self._name} starts again"
        code = self.child.exit_code
        if code is None:
            return ""
        if now_s - self._started_s > HEALTHY_AFTER_S:
            self._in_a_row = 0
        if self._in_a_row >= RESTARTS_IN_A_ROW:
            self.child.check_running()
        # Its own child processes must not disturb the next start.
        self.child.stop(STOP_LIMIT_S)
        pause_s = FIRST_PAUSE_S * 2**self._in_a_row
        self._in_a_row += 1
        self._due_s = now_s + pause_s
        return f"{self._name} ended with code {code}: it starts again in {pause_s:g} s"

    def _start(self) -> Child:
        self._started_s = time.monotonic()
        return Child(self._name, self._command, self._log_file, self._environment)


def _inherited() -> dict[str, str]:
    """Return this process's environment without indoubt's settings: a user's own must not affect the demo."""
    return {name: text for name, text in os.environ.items() if not name.startswith("INDOUBT_") or name == MARK}
