"""The whole demo as a process of its own, as ``make demo`` starts it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psutil

from demo.prerequisites import ROOT

T = TypeVar("T")
START_LIMIT_S = 150.0
STOP_LIMIT_S = 90.0


def wait_for(what: str, look: Callable[[], T], limit_s: float) -> T:
    """Return the first true answer of ``look``. Fails, naming ``what``, after ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain for {what}"
        time.sleep(0.2)
    return found


class DemoProcess:
    """``python -m demo`` with its page; ends with it, and with a check that it left no process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ready_file = directory / "ready.json"
        self._log_file = directory / "demo.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.app = self.bootstrap_servers = ""

    def __enter__(self) -> DemoProcess:
        self.start()
        try:
            ready = wait_for("the demo to be ready", self._ready, START_LIMIT_S)
        except BaseException:
            self.end(signal.SIGTERM)
            raise
        self.app, self.bootstrap_servers = ready["app"], ready["bootstrap_servers"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code, left = self.end(signal.SIGTERM)
        assert left == [], f"the demo left processes behind: {left}"
        assert code == 0, self._said()

    def start(self) -> None:
        """Start it and return at once."""
        command = [sys.executable, "-m", "demo", "--directory", str(self.directory / "run"), "--keep"]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", "0", "--ready-file", str(self._ready_file)], cwd=ROOT, stdout=log, stderr=log
            )

    def processes(self) -> list[psutil.Process]:
        """Return every process below the demo, children of children included."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def runs(self, word: str) -> bool:
        """Say whether one of them has this word in its command line; one that just ended has none."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word in part for part in process.cmdline()):
                    return True
        return False

    def end(self, how: signal.Signals) -> tuple[int, list[str]]:
        """Send the signal and return (exit code, what is left of its processes ten seconds after it ended)."""
        assert self._process is not None
        started = self.processes() if self._process.poll() is None else []
        if self._process.poll() is None:
            self._process.send_signal(how)
        code = self._process.wait(STOP_LIMIT_S)
        _, alive = psutil.wait_procs(started, timeout=10)
        return code, [f"{process.pid} {process.name()} {process.status()}" for process in alive]

    def _ready(self) -> dict[str, str]:
        assert self._process is not None
        assert self._process.poll() is None, f"the demo ended by itself:\n{self._said()}"
        return json.loads(self._ready_file.read_text()) if self._ready_file.exists() else {}

    def _said(self) -> str:
        return self._log_file.read_text(errors="replace")[-3000:]
