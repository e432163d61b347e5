"""A JobManager's REST API: a real Flink's answers with another job and its checkpoints in them, until it dies."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.integration.collector_process import LIMIT_S
from tests.unit.collector.flink_recordings import recorded


class JobManager:
    """It has one running job, which was started a minute before; first without any checkpoint."""

    def __init__(self) -> None:
        self.now_ms, self._job, self._checkpoints = round(time.time() * 1000), "", list[dict[str, Any]]()
        self._others = list[tuple[str, str]]()
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(manager.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def take(self, directory: Path, *, completed: bool = True, triggered_ms: int | None = None) -> None:
        """Report the checkpoint in this directory, ``JOB/chk-NUMBER``, also as of another time than now (epoch ms)."""
        self._job = directory.parent.name
        status = "COMPLETED" if completed else "IN_PROGRESS"
        seen = next(row for row in recorded("first_checkpoints")["history"] if row["status"] == status)
        took_ms = seen["latest_ack_timestamp"] - seen["trigger_timestamp"]
        at_ms = triggered_ms if triggered_ms is not None else self.now_ms
        seen |= {"id": int(directory.name.removeprefix("chk-")), "external_path": f"file:{directory}"}
        seen |= {"trigger_timestamp": at_ms, "latest_ack_timestamp": at_ms + took_ms}
        self._checkpoints.append(seen)

    def submit(self, job: str, name: str) -> None:
        """Report one more job, which runs and has just begun."""
        self._others.append((job, name))

    def die(self) -> None:
        """Stop listening: the next request is refused. Twice is as once."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(LIMIT_S)

    def answer(self, path: str) -> Any:
        """Return a recorded answer, about this job and its checkpoints."""
        if path.startswith("/jobs/overview"):
            answer = recorded("first_jobs_overview")
            if not self._job:
                return {"jobs": []}
            at_ms = self.now_ms - 60_000
            # Its clock is this machine's: a collector reads it from the duration.
            started = {"start-time": at_ms, "last-modification": at_ms, "duration": round(time.time() * 1000) - at_ms}
            first = answer["jobs"][0] | {"jid": self._job, "name": "orders", **started}
            return {"jobs": [first, *(first | {"jid": job, "name": name} for job, name in self._others)]}
        if "/metrics" in path:
            return recorded("restored_restarts")
        answer = recorded("first_checkpoints")
        completed = next((seen for seen in reversed(self._checkpoints) if seen["status"] == "COMPLETED"), None)
        answer["latest"] = {"completed": completed, "failed": None, "savepoint": None, "restored": None}
        return {**answer, "history": self._checkpoints}
