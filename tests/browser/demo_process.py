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
from typing import Any, TypeVar

import httpx
import psutil

from demo.prerequisites import ROOT

T = TypeVar("T")
START_LIMIT_S = 150.0
STOP_LIMIT_S = 90.0
ASK_LIMIT_S = 30.0


def wait_for(what: str, check: Callable[[], T], limit_s: float) -> T:
    """Return the first true answer of ``check``. Fails, naming ``what``, after ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while not (answer := check()):
        assert time.monotonic() < deadline, f"no success after waiting {limit_s:.0f} s for {what}"
        time.sleep(0.2)
    return answer


class DemoProcess:
    """``python -m demo`` with its pages; at the end of its context it checks that no process is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ready_file = directory / "ready.json"
        self._log_file = directory / "demo.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.app = self.bootstrap_servers = ""
        self.addresses: dict[str, str] = {}

    def __enter__(self) -> DemoProcess:
        self.start()
        try:
            ready = wait_for("the demo to be ready", self._ready, START_LIMIT_S)
        except BaseException:
            self.end(signal.SIGTERM)
            raise
        self.addresses = ready
        self.app, self.bootstrap_servers = ready["app"], ready["bootstrap_servers"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code, left = self.end(signal.SIGTERM)
        assert left == [], f"the demo left processes behind: {left}"
        assert code == 0, self._said()

    def start(self) -> None:
        """Start the demo and return at once."""
        command = [sys.executable, "-m", "demo", "--directory", str(self.directory / "run"), "--keep"]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", "0", "--ready-file", str(self._ready_file)], cwd=ROOT, stdout=log, stderr=log
            )

    def processes(self) -> list[psutil.Process]:
        """Return every descendant process of the demo."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def running(self, word: str) -> list[psutil.Process]:
        """Return the processes with this word in their command line; a process that has just ended has none."""
        matches = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word in part for part in process.cmdline()):
                    matches.append(process)
        return matches

    def runs(self, word: str) -> bool:
        """Return whether a process has this word in its command line."""
        return bool(self.running(word))

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit's rows, newest first, as the demo's operator reads them."""
        (collector,) = self.running("--start-command")
        token = collector.environ()["INDOUBT_OPERATOR_TOKEN"].partition(":")[2]
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{self.addresses['collector']}/api/v1/audit", headers=headers, timeout=ASK_LIMIT_S)
        found: list[dict[str, Any]] = answer.raise_for_status().json()["rows"]
        return found

    def end(self, how: signal.Signals) -> tuple[int, list[str]]:
        """Send the signal; return the exit code and the processes that are left ten seconds after the end."""
        assert self._process is not None
        started = self.processes() if self._process.poll() is None else []
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._wait_end(started)

    def wait_end(self) -> tuple[int, list[str]]:
        """Wait until the demo ends by itself; return the same as ``end``."""
        return self._wait_end(self.processes())

    def _wait_end(self, started: list[psutil.Process]) -> tuple[int, list[str]]:
        assert self._process is not None
        code = self._process.wait(STOP_LIMIT_S)
        _, alive = psutil.wait_procs(started, timeout=10)
        return code, [f"{process.pid} {process.name()} {process.status()}" for process in alive]

    def _ready(self) -> dict[str, str]:
        assert self._process is not None
        assert self._process.poll() is None, f"the demo ended by itself:\n{self._said()}"
        return json.loads(self._ready_file.read_text()) if self._ready_file.exists() else {}

    @property
    def pid(self) -> int:
        """Return the process id of the demo itself."""
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        """Return everything that the demo has printed."""
        return self._log_file.read_text(errors="replace")

    def _said(self) -> str:
        return self.said[-3000:]
