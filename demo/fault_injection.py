"""Causes faults in a running demo, and serves their state to the page over loopback HTTP.

GET /faults -> {"faults": [{"name", "title", "what_happens", "ready"}], "log": [{"at_ms", "text"}], "start_pipeline",
"waits": {"why", "since_ms"} or null, "tour": [{"title", "text", "order", "since_ms", "done_ms"}]}: why faults of the driver are
not ready; of a step: the order that ends it since then, or when its fault struck (epoch ms).
POST /faults/<name>, POST /start-pipeline -> {"accepted", "message"}
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from demo import topics
from demo.faults import DESCRIPTIONS, STEPS, Fault
from demo.prerequisites import ROOT
from demo.run import DemoRun
from demo.server import process_state
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
        self._armed_ms = 0
        self._struck: dict[Fault, int] = {}
        self._waits: dict[str, Any] | None = None
        self._abandoned = 0
        self._start_is_asked = False

    def cause(self, fault: Fault) -> tuple[bool, str]:
        """Cause the fault; return whether it was accepted, and a sentence that says what happens next."""
        with self._lock:
            self._observe()
            if not self._ready(fault):
                return False, f"Not now. {self._why_not()}"
            point = DESCRIPTIONS[fault].crash_point
            if point is None:
                return self._abandon()
            self._file(fault, "reached").unlink(missing_ok=True)
            draft = self._run.crash_points / ".armed"
            draft.write_text(point.how)
            draft.rename(self._run.crash_points / point.point)
            self._armed, self._armed_ms = fault, now_ms()
            return True, self._note(f"{DESCRIPTIONS[fault].title}: pressed. It strikes at the next checkpoint")

    def start_pipeline(self) -> tuple[bool, str]:
        """Let the main thread start a pipeline again that an order stopped, as its owner would."""
        with self._lock:
            if not self._run.pipeline_is_stopped:
                return False, "The pipeline runs already"
            self._start_is_asked = True
            return True, self._note("The pipeline starts again from its checkpoint, usually within 90 s")

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
                "waits": self._waiting(),
                "tour": list(self._tour()),
            }

    def _tour(self) -> Iterator[dict[str, Any]]:
        since_ms = None
        for step in STEPS:
            done_ms = self._struck.get(step.fault) if step.fault is not None else None
            since_ms = done_ms if step.fault is not None else since_ms
            yield {
                "title": step.title,
                "text": step.text,
                "order": step.order.value if step.order is not None else None,
                "since_ms": since_ms,
                "done_ms": done_ms,
            }

    def _waiting(self) -> dict[str, Any] | None:
        """Return why no fault of the driver can be caused now, and since when that is so."""
        why = self._why_not()
        if not why:
            self._waits = None
        elif self._waits is None or self._waits["why"] != why:
            self._waits = {"why": why, "since_ms": self._armed_ms if self._armed is not None else now_ms()}
        return self._waits

    def _why_not(self) -> str:
        if self._run.pipeline_is_stopped:
            return "The pipeline is stopped: start it again first."
        if self._armed is not None:
            return "A fault is on its way: it strikes at the next checkpoint, usually within 5 s."
        if self._frozen():
            return "The driver is frozen: restart it on Overview first."
        if self._run.pipeline_status().state != "running" or not self._run.pipeline_commits:
            return "The driver starts. It can fail again after its first batch, usually within 90 s."
        return ""

    def _ready(self, fault: Fault) -> bool:
        if fault not in DESCRIPTIONS:
            return False
        if DESCRIPTIONS[fault].crash_point is None:
            return True
        # Before its first batch is through, which takes Spark long, the next checkpoint is further away than the page says.
        return not self._why_not()

    def _observe(self) -> None:
        """Log once that the driver has reached the armed crash point, and when."""
        if self._armed is None:
            return
        try:
            reached_ms = self._file(self._armed, "reached").stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return
        point = DESCRIPTIONS[self._armed].crash_point
        effect = "is frozen" if point is not None and point.how == "freeze" else "is dead (kill -9)"
        # A file's time may lag behind the clock by some milliseconds.
        struck_ms = max(reached_ms, self._armed_ms)
        after_s = (struck_ms - self._armed_ms) / 1000
        self._log.append((struck_ms, f"Struck, {after_s:.1f} s after the press: the driver {effect}"))
        self._struck[self._armed] = struck_ms
        self._armed = None

    def _frozen(self) -> bool:
        status = self._run.pipeline_status()
        return status.driver_pid is not None and process_state(status.driver_pid) == "T"

    def _abandon(self) -> tuple[bool, str]:
        name = f"billing-export-{self._abandoned + 1}"
        command = [sys.executable, "-m", "demo.abandoned_producer", "--topic", topics.SINK]
        command += ["--bootstrap-servers", self._run.bootstrap_servers, "--transactional-id", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ABANDON_LIMIT_S)
        if done.returncode != -signal.SIGKILL:
            return False, f"{name} could not abandon its transaction: {done.stderr.strip()[-300:]}"
        self._abandoned += 1
        self._struck[Fault.ABANDONED_PRODUCER] = now_ms()
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
