"""The demo's own child processes: started in a group of their own, watched, and ended with everything they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.children import die_with_parent
from demo.guard import MARK
from demo.prerequisites import ROOT
from demo.waiting import DemoFailed

LOG_TAIL_LINES = 12


class Child:
    """One process of the demo with its log file. Start it from the main thread: it dies with the thread that started it."""

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
        """Return how it ended, or None while it runs."""
        return self._process.poll()

    def check_running(self) -> None:
        """Raise DemoFailed with the end of its log when it has ended."""
        if self.exit_code is not None:
            raise DemoFailed(
                f"{self.name} ended with code {self.exit_code}; the end of {self.log_file}:\n{self.tail()}"
            )

    def tail(self) -> str:
        """Return the last lines of its log."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-LOG_TAIL_LINES:])

    def stop(self, limit_s: float) -> None:
        """End it by SIGTERM, after ``limit_s`` seconds its whole group by SIGKILL; safe to call twice."""
        if self.exit_code is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(limit_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(limit_s)


def _inherited() -> dict[str, str]:
    """Return this process's environment without settings of indoubt: a user's own must not reach into the demo."""
    return {name: text for name, text in os.environ.items() if not name.startswith("INDOUBT_") or name == MARK}
