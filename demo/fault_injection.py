"""Causes faults in a running demo, and serves their state to the page over loopback HTTP.

GET /faults -> {"faults": [{"name", "title", "what_happens", "ready"}], "log": [{"at_ms", "text"}], "start_pipeline",
"tour": [{"title", "text"}]}
POST /faults/<name>, POST /start-pipeline -> {"accepted", "message"}
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from demo import topics
from demo.faults import DESCRIPTIONS, Fault
from demo.prerequisites import ROOT
from demo.run import DemoRun
from demo.tour import STEPS
from indoubt.lifecycle.clock import now_ms

ABANDON_LIMIT_S = 60.0
LOG_KEPT = 50


class FaultDesk:
    """Causes one fault at a time; thread-safe."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._log: list[tuple[int, str]] = []
        self._armed: Fault | None = None
        self._abandoned = 0
        self._start_is_asked = False

    def cause(self, fault: Fault) -> tuple[bool, str]:
        """Cause the fault; return whether it was accepted, and a sentence that says what happens next."""
        with self._lock:
            self._observe()
            if not self._ready(fault):
                return (
                    False,
                    f"{fault.value} is not possible now: the pipeline does not run or has not committed a batch yet, or another "
                    "fault is in progress",
                )
            point = DESCRIPTIONS[fault].crash_point
            if point is None:
                return self._abandon()
            self._file(fault, "reached").unlink(missing_ok=True)
            draft = self._run.crash_points / ".armed"
            draft.write_text(point.how)
            draft.rename(self._run.crash_points / point.point)
            self._armed = fault
            return True, self._note(f"{DESCRIPTIONS[fault].title}: armed, strikes at the next checkpoint (within 5 s)")

    def start_pipeline(self) -> tuple[bool, str]:
        """Let the main thread start a pipeline again that an order stopped, as its owner would."""
        with self._lock:
            if not self._run.pipeline_is_stopped:
                return False, "the pipeline already runs"
            self._start_is_asked = True
            return True, self._note("The pipeline starts again from its checkpoint (about 10 s)")

    def start_if_asked(self) -> None:
        """Start the pipeline if the page asked for it. Only for the main thread: a process dies with the thread that starts it."""
        with self._lock:
            if self._start_is_asked:
                self._start_is_asked = False
                self._run.start_pipeline()

    def struck(self, fault: Fault) -> bool:
        """Return whether the driver has reached this fault's crash point."""
        with self._lock:
            self._observe()
        return self._file(fault, "reached").exists()

    def to_json(self) -> dict[str, Any]:
        """Return the state that the page shows."""
        with self._lock:
            self._observe()
            faults = [
                {
                    "name": fault.value,
                    "title": description.title,
                    "what_happens": description.what_happens,
                    "ready": self._ready(fault),
                }
                for fault, description in DESCRIPTIONS.items()
            ]
            entries = sorted([*self._log, *self._run.happened])
            log = [{"at_ms": at_ms, "text": text} for at_ms, text in entries[-LOG_KEPT:]]
            return {
                "faults": faults,
                "log": log,
                "start_pipeline": self._run.pipeline_is_stopped,
                "tour": [asdict(step) for step in STEPS],
            }

    def _ready(self, fault: Fault) -> bool:
        if fault not in DESCRIPTIONS:
            return False
        if DESCRIPTIONS[fault].crash_point is None:
            return True
        # Before its first batch is through, which takes Spark long, the next checkpoint is further away than the page says.
        runs = self._run.pipeline_status().state == "running" and self._run.pipeline_commits
        return self._armed is None and not self._frozen() and runs

    def _observe(self) -> None:
        """Log once that the driver has reached the armed crash point."""
        if self._armed is not None and self._file(self._armed, "reached").exists():
            point = DESCRIPTIONS[self._armed].crash_point
            effect = "is frozen" if point is not None and point.how == "freeze" else "is dead (kill -9)"
            self._armed = None
            self._note(f"The driver {effect}")

    def _frozen(self) -> bool:
        status = self._run.pipeline_status()
        return status.driver_pid is not None and _is_stopped(status.driver_pid)

    def _abandon(self) -> tuple[bool, str]:
        name = f"billing-export-{self._abandoned + 1}"
        command = [sys.executable, "-m", "demo.abandoned_producer", "--topic", topics.SINK]
        command += ["--bootstrap-servers", self._run.bootstrap_servers, "--transactional-id", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ABANDON_LIMIT_S)
        if done.returncode != -signal.SIGKILL:
            return False, f"{name} could not abandon its transaction: {done.stderr.strip()[-300:]}"
        self._abandoned += 1
        return True, self._note(f"{name} opened a transaction on {topics.SINK}, wrote to every partition, and died")

    def _file(self, fault: Fault, suffix: str) -> Path:
        point = DESCRIPTIONS[fault].crash_point
        return self._run.crash_points / f"{point.point if point else fault.value}.{suffix}"

    def _note(self, text: str) -> str:
        self._log.append((now_ms(), text))
        return text


class FaultServer:
    """The loopback HTTP server of a FaultDesk, in threads of its own."""

    def __init__(self, desk: FaultDesk) -> None:
        class Handler(_Handler):
            pass

        Handler.desk = desk
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="fault-server", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    desk: FaultDesk

    def do_GET(self) -> None:
        if self.path == "/faults":
            self._answer(200, self.desk.to_json())
        else:
            self._answer(404, {"error": f"no {self.path}; the only path for GET is /faults"})

    def do_POST(self) -> None:
        if self.headers.get("Origin"):
            # Only the app's server sends these requests: a foreign web page must not break the demo.
            self._answer(
                403, {"accepted": False, "message": "a browser must not call this address; use the page's buttons"}
            )
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = {f"/faults/{fault.value}": fault for fault in DESCRIPTIONS}
        if self.path == "/start-pipeline":
            accepted, message = self.desk.start_pipeline()
        elif self.path in names:
            accepted, message = self.desk.cause(names[self.path])
        else:
            self._answer(
                404,
                {"accepted": False, "message": f"no {self.path}; the paths are /start-pipeline, {', '.join(names)}"},
            )
            return
        self._answer(200, {"accepted": accepted, "message": message})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal is for the demo's own lines."""


def _is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal (state T in /proc)."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
