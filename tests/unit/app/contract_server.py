"""A collector that answers by docs/api.md from values a test sets: the page tests ask it instead of a real one.

It keeps the rules an app can run into (token, revisions, roles) and no others. The real collector is used by the browser tests.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from lifecycle.orders import common_beginning
from lifecycle.persons import NAME_HEADER
from lifecycle.rows.batches import OVER
from tests.unit.app.contract_rows import now_ms, series, silence

TOKEN = "operator-token-of-the-test"
WAIT_LIMIT_S = 30.0
TABLES = (
    "transactions", "hanging", "blocked", "pipelines", "aborts", "checkpoints", "audit", "alerts", "silences", "receivers",
    "transaction-counts", "losses", "batches", "timeouts", "jobs", "ids", "quarantined", "standing-orders",
)  # fmt: skip


def _is_set() -> Event:
    event = Event()
    event.set()
    return event


@dataclass
class Answers:
    """What the collector knows; a test changes it between two polls."""

    transactions: list[dict[str, Any]] = field(default_factory=list)
    hanging: list[dict[str, Any]] = field(default_factory=list)
    blocked: list[dict[str, Any]] = field(default_factory=list)
    pipelines: list[dict[str, Any]] = field(default_factory=list)
    aborts: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    timeouts: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    ids: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    standing_orders: list[dict[str, Any]] = field(default_factory=list)
    attention: list[dict[str, Any]] = field(default_factory=list)
    """Cards beside those of the transactions."""
    history_error: str = ""
    audit: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    silences: list[dict[str, Any]] = field(default_factory=list)
    receivers: list[dict[str, Any]] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    under_way: list[dict[str, Any]] = field(default_factory=list)
    switches: list[dict[str, Any]] = field(default_factory=list)
    """What was sent to stop or start the standing orders."""
    answers: dict[str, Any] = field(default_factory=dict)
    """What became of each order, by its idempotency key."""
    loses: str = ""
    """``answer``: an order is carried out and its sender is not told; ``order``: it is not even received."""
    may_answer: Event = field(default_factory=_is_set)
    """Orders wait for it."""
    order_came: Event = field(default_factory=Event)
    given_by: list[str | None] = field(default_factory=list)
    """The person of each order, as the app named it."""
    role: str = "operator"
    read_only: bool = False
    token: str = TOKEN
    loading: bool = False
    asked: list[str] = field(default_factory=list)
    """The path of every look, in the order of their arrival."""
    version: int = 0
    """A test counts it up to have a change told."""
    ends_streams: bool = False
    streams: int = 0
    """How many readers of changes are connected."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of every transaction that is asked for."""
    series: dict[str, Any] = field(default_factory=series)
    checkpoint_gaps: list[dict[str, Any]] = field(default_factory=list)
    found: list[dict[str, Any]] = field(default_factory=list)
    """What a search finds, in pages of their own: the cursor of each is its place."""
    searches: list[dict[str, str]] = field(default_factory=list)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    partition: dict[str, Any] | None = None
    """The only one that is known."""
    raw: dict[str, bytes] = field(default_factory=dict)
    """Path -> body to answer instead, whatever it is."""

    def status(self) -> dict[str, Any]:
        observers = [
            {"name": name, "state": "up", "delay_ms": 120, "since_ms": now_ms() - 60_000, "error": "", "records": 9}
            for name in ("lifecycle topic", "decision log", "transaction log")
        ]
        observers.append(
            {
                "name": "checkpoints",
                "state": "down",
                "delay_ms": None,
                "since_ms": now_ms() - 9000,
                "error": "no such directory",
                "records": 0,
            }
        )
        return {
            "now_ms": now_ms(), "cluster": "orders-eu", "bootstrap": "127.0.0.1:9092", "name": "anna", "role": self.role,
            "read_only": self.read_only, "quarantined": len(self.quarantined), "events": 8812,
            "history": {"error": self.history_error, "waiting": 3 if self.history_error else 0, "set_aside": []},
            "observers": observers,
        }  # fmt: skip

    def table(self, path: str, words: str) -> list[dict[str, Any]]:
        """Return the rows of a table; of transactions, and of how many there are, those that have all of the words."""
        if path not in ("transactions", "transaction-counts"):
            found: list[dict[str, Any]] = getattr(self, path.replace("-", "_"))
            return found
        names = ("transaction", "pipeline", "resource_manager", "partitions")
        rows = [
            row
            for row in self.transactions
            if all(word in str([row[name] for name in names]).casefold() for word in words.casefold().split())
        ]
        return rows if path == "transactions" else self._counts(rows)

    def orders_given(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Return the rows of the audit that have the words that are asked for, and any of the keys."""
        words, keys = query.get("words", [""])[0].casefold(), set(query.get("key", ()))
        return [
            row
            for row in self.audit
            if words in str(list(row.values())).casefold() and (not keys or keys & set(row["keys"]))
        ]

    def _counts(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in rows:
            found.setdefault((row["application"]["kind"], row["pipeline"], row["verdict"]), []).append(row)
        return [
            {"pipeline": name, "kind": kind, "verdict": verdict, "transactions": len(rows),
             "oldest_opened_at_ms": min(row["opened_at_ms"] for row in rows), "deadline_ms": None}
            for (kind, name, verdict), rows in found.items() if verdict != "settled"
        ]  # fmt: skip

    def attention_about(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        kinds, keys = query.get("kind"), set(query.get("key", ()))
        return [
            card
            for card in self.overview()["attention"]
            if (not kinds or card["kind"] in kinds)
            and (not keys or keys & {*card["keys"], *card["alerts"], card["target"]})
        ]

    def overview(self) -> dict[str, Any]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        shown = [{**row, "pipeline": row["application"]["name"], "batch": None, "rows": None, "deadline_ms": None, "partitions": []}
                 for row in self.hanging]  # fmt: skip
        for row in (*shown, *self.transactions):
            if row["verdict"] not in ("in progress", "settled"):
                groups.setdefault((row["verdict"], row["pipeline"], row["batch"]), []).append(row)
        minute = now_ms() // 60_000 * 60_000
        return {
            "now_ms": now_ms(),
            "action_required": [
                {
                    "verdict": verdict, "pipeline": pipeline, "batch": number, "keys": [row["key"] for row in rows],
                    "rows": sum(row["rows"] or 0 for row in rows) or None, "decided_at_ms": now_ms() - 18_000 if number else None,
                    "deadline_ms": min((row["deadline_ms"] for row in rows if row["deadline_ms"]), default=None),
                    "headline": f"{verdict}: {len(rows)} of {pipeline}",
                    "partitions": [name for row in rows for name in row["partitions"]],
                }
                for (verdict, pipeline, number), rows in groups.items()
            ],
            "counts": {"open": len(self.transactions), "prepared": 4, "committed_per_minute": 48, "aborted_per_minute": 2,
                       "blocked_partitions": len(self.blocked), "waiting_groups": len(self.blocked),
                       "hanging": len(self.hanging)},
            "oldest_open_at_ms": min((row["opened_at_ms"] for row in self.transactions), default=None),
            "quiet_since_ms": None if groups else now_ms() - 10_800_000,
            "attention": [*[_card(*group, rows) for group, rows in groups.items()], *self.attention],
            "attention_total": len(groups) + len(self.attention),
            "alerts_firing": sum(row["state"] == "firing" and row["silenced_by"] is None for row in self.alerts),
            "all_well_since_ms": None if groups or self.attention else now_ms() - 10_800_000,
            "pipelines_alive": 1, "observers_up": 3, "observers": 4, "in_progress": [], "in_progress_total": 0,
            "per_minute": [
                {"minute_ms": minute - i * 60_000, "committed": 40 + i % 7, "aborted": int(i % 11 == 3) * 4, "lost": int(i == 30)}
                for i in range(59, -1, -1)
            ],
            "checkpoints": {"p50_ms": 1180, "p99_ms": 2010, "failed": 1, "total": 720},
        }  # fmt: skip

    def detail(self, key: str) -> dict[str, Any] | None:
        row = next((row for row in self.transactions if row["key"] == key), None)
        if row is None:
            return None
        opened = row["opened_at_ms"]
        return {
            **row,
            "timeline": [
                {"at_ms": opened, "what": "opened", "source": "transaction log"},
                {"at_ms": opened + 640, "what": "prepared", "source": "lifecycle topic"},
                {"at_ms": opened + 655, "what": "decided: commit", "source": "decision log"},
            ],
            "siblings": [
                other["key"] for other in self.transactions
                if other is not row and row["batch"] is not None and other["batch"] == row["batch"]
            ],
            "decision": {"offset": 88213, "at_ms": opened + 655, "who": "run 7f3a", "ruling": "commit"} if row["ours"] else None,
            "handle": {name: row[name] for name in ("transaction", "producer_id", "rows")} if row["ours"] else None,
            "broker": {"state": "Ongoing", "producer_id": row["producer_id"], "producer_epoch": row["producer_epoch"],
                       "timeout_ms": row["timeout_ms"], "started_at_ms": opened},
            "last_seen_ms": opened + 700 if row["ours"] else None,
        }  # fmt: skip

    def give(self, order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; what is accepted settles the transactions. A key that came before gets its first answer."""
        self.orders.append(order)
        key = order.get("idempotency_key", "")
        before = self.answers.get(key, {}).get("answer") if key else None
        if before is not None:
            return 200, before
        status, answer = self._result(order)
        refused = answer["error"]["message"] if status == 409 else None
        self.answers[key] = {
            "answer": answer if status == 200 else None,
            "refused": refused,
        }
        return status, answer

    def silence(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; the alerts whose labels match are silenced."""
        if len(body["reason"]) < 3 or not body["matchers"]:
            return 422, _error("unprocessable", "'reason' takes 3 to 2000 characters: say why")
        made = silence(len(self.silences) + 1, matchers=body["matchers"], reason=body["reason"], author="anna",
                       ends_at_ms=now_ms() + body["duration_ms"])  # fmt: skip
        self.silences.append(made)
        for one in self.alerts:
            if body["matchers"].items() <= one["labels"].items():
                one["silenced_by"] = made["silence"]
        return 200, made

    def end_silence(self, number: int) -> tuple[int, dict[str, Any]]:
        """Return status and body; what it silenced is not silenced any more."""
        found = next((one for one in self.silences if one["silence"] == number), None)
        if found is None:
            return 404, _error("not_found", f"there is no silence {number}: GET /api/v1/silences lists them")
        found["state"] = "ended"
        for one in self.alerts:
            one["silenced_by"] = None if one["silenced_by"] == number else one["silenced_by"]
        return 200, found

    def switch(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; all standing orders are stopped or go on."""
        if self.history_error:
            return 503, _error("unavailable", f"history cannot be written: {self.history_error}")
        self.switches.append(body)
        for row in self.standing_orders:
            row |= {
                "state": "stopped" if body["stopped"] else "acts",
                "switched_by": "anna",
                "switched_at_ms": now_ms(),
            }
        return 200, {"stopped": body["stopped"], "audit": len(self.switches)}

    def preview(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body; a filter means what has each of its values."""
        wanted, may = body["filter"], f"may_{body['action']}"
        found = [row for row in self.transactions if all(row[name] == value for name, value in wanted.items())]
        chosen = [row for row in found if row[may]]
        risky = [row["transaction"] for row in chosen if row["loses_data"]]
        summary = [
            {"verdict": chosen[0]["verdict"], "rule": 6, "transactions": len(chosen), "loses_data": len(risky), "pipelines": 1,
             "example": chosen[0]["transaction"], "evidence": chosen[0]["evidence"]}
        ] if chosen else []  # fmt: skip
        takes: dict[str, list[str]] = {}
        for row in chosen:
            confirm = common_beginning(risky) if body["action"] == "abort" else row["commit_confirmation"]
            takes.setdefault(confirm, []).append(row["key"])
        conditions = [
            {"confirm": confirm, "keys": keys, "summary": [row | {"transactions": len(keys)} for row in summary]}
            for confirm, keys in takes.items()
        ]
        return 200, {
            **body, "fingerprint": "f", "keys": [row["key"] for row in chosen],
            "seen": {row["key"]: row["revision"] for row in chosen},
            "confirm": conditions[0]["confirm"] if len(conditions) == 1 else "", "conditions": conditions,
            "summary": summary, "rows": chosen[:1000], "left_out": [], "left_out_total": len(found) - len(chosen),
        }  # fmt: skip

    def _result(self, order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.role != "operator":
            return 403, _error("forbidden", "anna is a viewer; orders need an operator token")
        rows = {row["key"]: row for row in (*self.transactions, *self.hanging, *self.pipelines, *self.batches)}
        refused = [key for key in order["keys"] if order.get("each") and order["seen"][key] != rows[key]["revision"]]
        order = {**order, "keys": [key for key in order["keys"] if key not in refused]}
        for key in order["keys"]:
            if key not in rows or order["seen"].get(key) != rows[key]["revision"]:
                was = rows.get(key, {}).get("state", "not known any more")
                return 409, _error(
                    "order_refused", f"transaction {key} changed since it was shown: it is {was} now; look again"
                )
        words = {
            "commit": "committed",
            "abort": "aborted",
            "restart": "restarted",
            "start": "started",
            "stop": "stopped",
            "settle": "committed",
        }
        dry, word = order["dry_run"], words[order["action"]]
        if not dry:
            self.transactions = [row for row in self.transactions if row["key"] not in order["keys"]]
            self.hanging = [row for row in self.hanging if row["key"] not in order["keys"]]
            self.batches = [row for row in self.batches if row["key"] not in order["keys"]]
        steps = [
            {
                "key": key,
                "description": f"EndTxn({order['action']})",
                "outcome": "dry run" if dry else word,
                "detail": "",
            }
            for key in order["keys"]
        ]
        steps += [
            {"key": key, "description": "nothing", "outcome": "refused", "detail": "it changed since"}
            for key in refused
        ]
        number = 512 + len(self.audit)
        self.audit.insert(0, {
            "audit": number, "at_ms": now_ms(), "who": "anna", "action": order["action"], "keys": order["keys"],
            "reason": order["reason"], "outcome": "dry_run" if dry else "accepted",
            "detail": f"{word} {len(steps)} of {len(steps)}",
            "evidence": [{"fact": "decision 88213 lists this handle", "source": "decision log", "at_ms": None}],
        })  # fmt: skip
        return 200, {"audit": number, "outcome": "dry_run" if dry else "accepted", "took_ms": 31, "steps": steps}


def _card(verdict: str, pipeline: str, number: int | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [row["key"] for row in rows]
    return {
        "key": f"{verdict}/{pipeline}/{number}", "kind": "transactions", "badge": verdict, "verdict": verdict,
        "severity": "critical", "pipeline": pipeline, "batch": number, "keys": keys,
        "headline": f"{verdict}: {len(rows)} of {pipeline}",
        "waits": [{"group": "dashboard", "lag": 40, "since_ms": now_ms() - 8_000, "partitions": 4}], "since_ms": now_ms() - 18_000,
        "deadline_ms": min((row["deadline_ms"] for row in rows if row["deadline_ms"]), default=None),
        "consequence": "The broker aborts it, and decided rows are lost.",
        "remedy": next((act for act in ("commit", "abort") if any(row[f"may_{act}"] for row in rows)), "open"),
        "target": "", "rows": sum(row["rows"] or 0 for row in rows) or None,
        "partitions": [name for row in rows for name in row["partitions"]], "alerts": [],
    }  # fmt: skip


def _page(rows: list[dict[str, Any]], limit: int, first: int = 0) -> dict[str, Any]:
    """Return the rows from the place ``first`` on, which is the cursor."""
    more = max(0, len(rows) - first - limit)
    return {"rows": rows[first : first + limit], "more": more, "next": str(first + limit) if more else None}


def _is_over(row: dict[str, Any]) -> bool:
    """Say whether an attempt at a batch or an alert is over."""
    return row["state"] == "resolved" if "rule" in row else row["verdict"] in OVER


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


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
        if (refused := self._refused()) is not None:
            return self._answer(*refused)
        if path in self.known.raw:
            return self._answer(200, self.known.raw[path])
        if path == "changes":
            return self._stream_changes()
        if path in ("status", "overview"):
            return self._answer(200, getattr(self.known, path)())
        if path == "attention":
            return self._answer(200, _page(self.known.attention_about(query), int(query["limit"][0])))
        if path in TABLES:
            limit = int(query.get("limit", ["500"])[0])
            rows = self.known.table(path, query.get("words", [""])[0])
            if path == "audit":
                rows = self.known.orders_given(query)
            for name in ("transaction", "pipeline", "batch", "cause", "verdict"):
                rows = [row for row in rows if name not in query or str(row[name]) in query[name]]
            for wanted in query.get("over", ()):
                rows = [row for row in rows if _is_over(row) is (wanted == "true")]
            return self._answer(200, _page(rows, limit, int(query.get("after", ["0"])[0])))
        if path == "series":
            return self._answer(200, self.known.series)
        if path == "checkpoints/gaps":
            return self._answer(200, _page(self.known.checkpoint_gaps, 500))
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
        if path == "orders/under-way":
            rows = [row for row in self.known.under_way if not set(query["key"]).isdisjoint(row["keys"])]
            return self._answer(200, _page(rows, 500))
        if path == "orders":
            nothing = {"answer": None, "refused": None}
            return self._answer(200, self.known.answers.get(query["idempotency_key"][0], nothing))
        if path.startswith("transactions/") and (found := self.known.detail(path.removeprefix("transactions/"))):
            return self._answer(200, found)
        return self._answer(404, _error("not_found", f"{path} is not known"))

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
        by_path = {
            "silences": self.known.silence,
            "standing-orders": self.known.switch,
            "orders/preview": self.known.preview,
        }
        path = urlsplit(self.path).path.removeprefix("/api/v1/")
        if path == "orders":
            self.known.order_came.set()
            self.known.may_answer.wait(WAIT_LIMIT_S)
            self.known.given_by.append(self.headers.get(NAME_HEADER))
        answer = by_path.get(path, self.known.give)(body)
        return self._hang_up() if self.known.loses else self._answer(*answer)

    def do_DELETE(self) -> None:
        if (refused := self._refused()) is not None:
            return self._answer(*refused)
        return self._answer(*self.known.end_silence(int(urlsplit(self.path).path.rpartition("/")[2])))

    def _hang_up(self) -> None:
        self.close_connection = True

    def _refused(self) -> tuple[int, dict[str, Any]] | None:
        if self.headers.get("Authorization") != f"Bearer {self.known.token}":
            return 401, _error(
                "unauthorized", "the token is not known; set INDOUBT_TOKEN to a viewer's or operator's token"
            )
        return (503, _error("not_ready", "history is being loaded; ask again")) if self.known.loading else None

    def _answer(self, status: int, value: Any) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
