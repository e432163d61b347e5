"""The desk behind "make trouble": causes faults in a running demo, and tells the page about them over loopback HTTP.

GET /faults -> {"faults": [{"name", "title", "what_happens", "ready"}], "log": [{"at_ms", "text"}], "start_pipeline"}
POST /faults/<name>, POST /start-pipeline -> {"accepted", "message"}
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from demo import topics
from demo.faults import DESCRIPTIONS, Fault
from demo.prerequisites import ROOT
from demo.run import DemoRun

ABANDON_LIMIT_S = 60.0
LOG_KEPT = 50


class TroubleDesk:
    """Causes one fault at a time; thread-safe. ``log``: what happened, oldest first, as (epoch ms, sentence)."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._log: list[tuple[int, str]] = []
        self._armed: Fault | None = None
        self._abandoned = 0
        self._start_is_asked = False

    def cause(self, fault: Fault) -> tuple[bool, str]:
        """Cause the fault; return (whether it was accepted, a sentence that says what follows)."""
        with self._lock:
            self._observe()
            if not self._ready(fault):
                return False, f"{fault.value} cannot be caused now: the pipeline does not run, or a fault is under way"
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
        """Have a pipeline that an order stopped started again, as its owner would."""
        with self._lock:
            if not self._run.pipeline_is_stopped:
                return False, "the pipeline was not stopped: there is nothing to start"
            self._start_is_asked = True
            return True, self._note("The pipeline is started again from its checkpoint (about 10 s)")

    def start_if_asked(self) -> None:
        """Start the pipeline when that was asked for. Called by the main thread: processes die with the thread that starts them."""
        with self._lock:
            if self._start_is_asked:
                self._start_is_asked = False
                self._run.start_pipeline()

    def struck(self, fault: Fault) -> bool:
        """Return whether a crash point that was armed for this fault has been reached."""
        with self._lock:
            self._observe()
        return self._file(fault, "reached").exists()

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows."""
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
            log = [{"at_ms": at_ms, "text": text} for at_ms, text in self._log[-LOG_KEPT:]]
            return {"faults": faults, "log": log, "start_pipeline": self._run.pipeline_is_stopped}

    def _ready(self, fault: Fault) -> bool:
        if fault not in DESCRIPTIONS:
            return False
        if DESCRIPTIONS[fault].crash_point is None:
            return True
        return self._armed is None and not self._frozen() and self._run.pipeline_status().state == "running"

    def _observe(self) -> None:
        """Notice that the armed point was reached, and say so once."""
        if self._armed is not None and self._file(self._armed, "reached").exists():
            point = DESCRIPTIONS[self._armed].crash_point
            deed = "stands still now" if point is not None and point.how == "freeze" else "is dead (kill -9)"
            self._armed = None
            self._note(f"The driver {deed}")

    def _frozen(self) -> bool:
        status = self._run.pipeline_status()
        return status.driver_pid is not None and _is_stopped(status.driver_pid)

    def _abandon(self) -> tuple[bool, str]:
        name = f"billing-export-{self._abandoned + 1}"
        command = [sys.executable, "-m", "demo.abandoned_producer", "--topic", topics.SINK]
        command += ["--bootstrap-servers", self._run.bootstrap_servers, "--transactional-id", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ABANDON_LIMIT_S)
        if done.returncode != -signal.SIGKILL:
            return False, f"{name} could not open its transaction: {done.stderr.strip()[-300:]}"
        self._abandoned += 1
        return True, self._note(f"{name} opened a transaction on {topics.SINK}, wrote to every partition, and died")

    def _file(self, fault: Fault, suffix: str) -> Path:
        point = DESCRIPTIONS[fault].crash_point
        return self._run.crash_points / f"{point.point if point else fault.value}.{suffix}"

    def _note(self, text: str) -> str:
        self._log.append((time.time_ns() // 1_000_000, text))
        return text


class TroubleServer:
    """The desk's loopback HTTP server, in threads of its own."""

    def __init__(self, desk: TroubleDesk) -> None:
        class Handler(_Handler):
            pass

        Handler.desk = desk
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="trouble", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    desk: TroubleDesk

    def do_GET(self) -> None:
        if self.path == "/faults":
            self._answer(200, self.desk.to_json())
        else:
            self._answer(404, {"error": f"no {self.path}; there is GET /faults"})

    def do_POST(self) -> None:
        if self.headers.get("Origin"):
            # Only the app's server calls this desk: a web page from elsewhere must not break a demo.
            self._answer(403, {"accepted": False, "message": "requests from a browser are refused"})
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        names = {f"/faults/{fault.value}": fault for fault in DESCRIPTIONS}
        if self.path == "/start-pipeline":
            accepted, message = self.desk.start_pipeline()
        elif self.path in names:
            accepted, message = self.desk.cause(names[self.path])
        else:
            self._answer(404, {"accepted": False, "message": f"no {self.path}; there are {', '.join(names)}"})
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
        """Keep the terminal for the demo's own lines."""


def _is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal (state T in /proc)."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
