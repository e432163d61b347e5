"""A server of the demo and the tests: a process with its own directory and log, on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from demo.waiting import DemoFailed
from indoubt.lifecycle.child_processes import die_with_parent, with_descendants

STOP_LIMIT_S = 30.0
CHECK_EVERY_S = 0.05


class ServerFailed(DemoFailed):
    """A server did not start or stop; the message has the end of its log."""


class Server(ABC):
    """Start, stop, kill, and start again on the same data; a context manager that starts and stops it."""

    what: str
    """What it is called in messages."""
    failure: ClassVar[type[ServerFailed]] = ServerFailed
    start_limit_s: ClassVar[float] = 60.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it answers. Raises ServerFailed."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether it does what it was started for."""

    @property
    @abstractmethod
    def log_file(self) -> Path:
        """Return its log."""

    @property
    def pid(self) -> int | None:
        """Return the process id, or None while it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of its log."""
        if not self.log_file.exists():
            return "(no log)"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def _run(self, command: Sequence[str | Path], **more: Any) -> None:
        """Start the process, with ``more`` for Popen, and wait until it answers. Raises ServerFailed."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
                **more,
            )
        deadline = time.monotonic() + self.start_limit_s
        while not self._answers():
            ended = f"the end of {self.log_file}:\n{self.log_tail()}"
            if self._process.poll() is not None:
                raise self.failure(f"the {self.what} ended with code {self._process.returncode}; {ended}")
            if time.monotonic() > deadline:
                self.kill()
                raise self.failure(f"the {self.what} did not answer in {self.start_limit_s:.0f} s; {ended}")
            time.sleep(CHECK_EVERY_S)

    def stop(self) -> None:
        """End it in order, after 30 s by SIGKILL; safe to call twice."""
        if self.pid is None or self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and all that it started by SIGKILL, as a power cut would, and wait until they are gone."""
        if self.pid is None or self._process is None:
            return
        family = with_descendants([self._process.pid])
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(STOP_LIMIT_S)
        deadline = time.monotonic() + STOP_LIMIT_S
        # A zombie has ended; its parent has not read its exit code yet.
        while any(process_state(pid) not in ("", "Z", "X") for pid in family):
            if time.monotonic() > deadline:
                raise self.failure(f"processes {family} of the killed {self.what} still run: end them by hand")
            time.sleep(CHECK_EVERY_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def process_state(pid: int) -> str:
    """Return a process's state as /proc has it: ``T`` where a signal stopped it; an empty text where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
