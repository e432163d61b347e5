"""A real collector process for a benchmark: started, asked, ended."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 60.0


class RunningCollector:
    """Runs while its context is open, in its own directory; ``ready_s``: seconds from its start to its readiness."""

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        module: str = "indoubt.collector",
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        self.url = ""
        self.token = secrets.token_urlsafe(16)
        self._command = [sys.executable, "-m", module, "--bootstrap-servers", bootstrap_servers]
        self._command += ["--directory", str(directory), "--port", "0", *arguments]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("INDOUBT_")}
        self._environment = {**inherited, "INDOUBT_VIEWER_TOKEN": f"benchmark:{self.token}", **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self.client = httpx.Client()
        self.ready_s, self._start_limit_s = 0.0, start_limit_s

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> RunningCollector:
        started = time.monotonic()
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = url = next((line.strip() for line in self._process.stdout if line.startswith("http")), "")
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=url, headers=headers, timeout=30.0)
        while time.monotonic() < started + self._start_limit_s and self._process.poll() is None:
            if self.client.get("/api/v1/health").status_code == 200:
                self.ready_s = time.monotonic() - started
                return self
            time.sleep(0.02)
        self._process.kill()
        raise RuntimeError(f"the collector was not ready within {self._start_limit_s:.0f} s")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self.client.close()
        self._process.terminate()
        try:
            self._process.wait(START_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def get(self, path: str) -> Any:
        """Return an answer's JSON. Raises httpx.HTTPError."""
        return self.client.get(f"/api/v1/{path}").raise_for_status().json()
