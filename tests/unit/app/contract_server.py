"""A collector that answers by docs/api.md from values a test sets: the page tests ask it instead of a real one.

It keeps the rules an app can run into (token, revisions, roles) and no others. The real collector is used by the browser tests.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from indoubt.lifecycle.persons import NAME_HEADER
from indoubt.lifecycle.rows.batches import OVER
from tests.unit.app.contract_answers import Answers, error

WAIT_LIMIT_S = 120.0
TABLES = (
    "transactions", "hanging", "blocked", "groups", "pipelines", "aborts", "checkpoints", "audit", "alerts", "silences",
    "receivers", "transaction-counts", "losses", "batches", "timeouts", "jobs", "ids", "quarantined", "standing-orders",
    "restores",
)  # fmt: skip


def _page(rows: list[dict[str, Any]], limit: int, first: int = 0) -> dict[str, Any]:
    """Return the rows from the place ``first`` on, which is the cursor."""
    more = max(0, len(rows) - first - limit)
    return {"rows": rows[first : first + limit], "more": more, "next": str(first + limit) if more else None}


def _at_ms(row: dict[str, Any]) -> int | None:
    at_ms: int | None = row.get("at_ms") or row.get("ended_at_ms") or row.get("started_at_ms")
    return at_ms


def _is_over(row: dict[str, Any]) -> bool:
    """Say whether an attempt at a batch or an alert is over."""
    return row["state"] == "resolved" if "rule" in row else row["verdict"] in OVER


class _Server(ThreadingHTTPServer):
    """It cuts what is connected when it goes, as a process that ends does: a connection that is kept alive would be answered."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connected: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connected.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connected.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that is cut."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._connected):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class ContractServer:
    """The answers, served on a free loopback port (or the given one) until the block ends."""

    def __init__(self, answers: Answers, port: int = 0) -> None:
        class Handler(_Handler):
            known = answers

        self._server = _Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ContractServer:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    known: Answers
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, query = unquote(urlsplit(self.path).path).removeprefix("/api/v1/"), parse_qs(urlsplit(self.path).query)
        self.known.asked.append(path)
        self.known.clusters_asked.add(self.headers.get(CLUSTER_HEADER, ""))
        if (refused := self._refused()) is not None:
            return self._answer(*refused)
        if path in self.known.raw:
            return self._answer(200, self.known.raw[path])
        if path == "changes":
            return self._stream_changes()
        if path in ("status", "overview"):
            return self._answer(200, getattr(self.known, path)())
        if path == "incidents":
            return self._answer(200, _page(self.known.incidents_about(query), int(query["limit"][0])))
        if path in TABLES:
            limit = int(query.get("limit", ["500"])[0])
            rows = self.known.table(path, query.get("words", [""])[0])
            if path == "audit":
                rows = self.known.orders_given(query)
            for name in ("transaction", "pipeline", "batch", "cause", "verdict", "state"):
                rows = [row for row in rows if name not in query or str(row[name]) in query[name]]
            if path in ("aborts", "losses", "checkpoints"):
                first_ms, last_ms = int(query.get("since_ms", ["0"])[0]), int(query.get("until_ms", [str(2**62)])[0])
                rows = [row for row in rows if first_ms <= (_at_ms(row) or 0) <= last_ms]
            for wanted in query.get("over", ()):
                rows = [row for row in rows if _is_over(row) is (wanted == "true")]
            return self._answer(200, _page(rows, limit, int(query.get("after", ["0"])[0])))
        if path == "series":
            return self._answer(200, self.known.series)
        if path == "trends":
            return self._answer(200, self.known.trends)
        if path == "series/groups":
            return self._answer(200, self.known.series_of_groups)
        if path.startswith("series/partitions/"):
            return self._answer(200, self.known.series_of_partition)
        if path == "checkpoints/gaps":
            return self._answer(200, _page(self.known.checkpoint_gaps, 500))
        if path == "aborts/counts":
            return self._answer(200, self.known.abort_counts)
        if path == "checkpoints/durations":
            return self._answer(200, _page(self.known.checkpoint_durations, 500))
        if path == "search":
            wanted = {name: values[0] for name, values in query.items()}
            self.known.searches.append(wanted)
            first, limit = int(wanted.get("after", "0")), int(wanted["limit"])
            rows = self.known.found[first : first + limit]
            behind = len(self.known.found) > first + limit
            return self._answer(
                200, {"rows": rows, "more": int(behind), "next": str(first + limit) if behind else None}
            )
        for table in ("events", "earlier"):
            if path.startswith("transactions/") and path.endswith(f"/{table}"):
                return self._answer(200, _page(getattr(self.known, table), 500))
        one = self.known.partition
        if one is not None and path == f"partitions/{one['topic']}/{one['partition']}":
            return self._answer(200, one)
        if path == "orders/runs":
            mine = [run for run in self.known.runs.rows.values() if run["who"] == self._person()]
            return self._answer(200, _page([run | {"steps": []} for run in reversed(mine)], 500))
        if (run := self.known.runs.rows.get(path.removeprefix("orders/runs/"))) is not None:
            return self._answer(200, run if "steps" in query else run | {"steps": []})
        if path == "orders/under-way":
            rows = [row for row in self.known.under_way if not set(query["key"]).isdisjoint(row["keys"])]
            return self._answer(200, _page(rows, 500))
        if path == "orders":
            nothing = {"answer": None, "refused": None}
            return self._answer(200, self.known.answers.get(query["idempotency_key"][0], nothing))
        if path.startswith("transactions/") and (found := self.known.detail(path.removeprefix("transactions/"))):
            return self._answer(200, found)
        return self._answer(404, error("not_found", f"{path} is not known"))

    def _stream_changes(self) -> None:
        """Tell each new version, and twenty signs of life a second, until the reader leaves or the server closes."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        told = -1
        self.known.streams += 1
        with contextlib.suppress(OSError):
            while not self.known.ends_streams:
                event = "alive" if told == self.known.version else "changed"
                told = self.known.version
                self.wfile.write(f"event: {event}\ndata: {{}}\n\n".encode())
                time.sleep(0.05)
        self.known.streams -= 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        if (refused := self._refused()) is not None:
            return self._answer(*refused)
        if self.known.loses == "order":
            return self._hang_up()
        by_path: dict[str, Any] = {
            "orders/runs": partial(self.known.begin_run, who=self._person()),
            "silences": self.known.silence,
            "standing-orders": self.known.switch,
            "orders/preview": self.known.preview,
        }
        path = urlsplit(self.path).path.removeprefix("/api/v1/")
        answer = by_path.get(path, self.known.give)(body)
        if self.known.loses:
            # Whoever asks then finds it carried out.
            self.known.runs.end()
            return self._hang_up()
        return self._answer(*answer)

    def _person(self) -> str:
        return self.headers.get(NAME_HEADER) or "anna"

    def do_DELETE(self) -> None:
        if (refused := self._refused()) is not None:
            return self._answer(*refused)
        if (run := self.known.runs.rows.get(self.path.rpartition("/")[2])) is not None:
            self.known.runs.stop(run, self._person())
            return self._answer(200, run | {"steps": []})
        return self._answer(*self.known.end_silence(int(urlsplit(self.path).path.rpartition("/")[2])))

    def _hang_up(self) -> None:
        self.close_connection = True

    def _refused(self) -> tuple[int, dict[str, Any]] | None:
        if self.headers.get("Authorization") != f"Bearer {self.known.token}":
            return 401, error(
                "unauthorized", "the token is not known; set INDOUBT_TOKEN to a viewer's or operator's token"
            )
        return (503, error("not_ready", "history is being loaded; ask again")) if self.known.loading else None

    def _answer(self, status: int, value: Any) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
