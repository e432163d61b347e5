"""Flink's REST API over real connections: one that is kept, and the proxy that the environment names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from indoubt.collector.observe.flink_http import FlinkHttp
from indoubt.lifecycle.errors import Unreachable


class Server(ThreadingHTTPServer):
    """Answers every request with its target; keeps what it was asked and by how many connections."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.connections: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.server.connections.add(self.client_address)
        body = b'{"jobs": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_one_connection_serves_all_requests(server: Server) -> None:
    with FlinkHttp("eu", server.url, None) as http:
        answers = [http.get(path) for path in ("/jobs/overview", "/jobs/a/metrics?get=numRestarts,fullRestarts")]
    assert answers == [{"jobs": []}] * 2
    assert [path for path, _ in server.asked] == ["/jobs/overview", "/jobs/a/metrics?get=numRestarts,fullRestarts"]
    assert {headers["accept"] for _, headers in server.asked} == {"application/json"}
    assert len(server.connections) == 1


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_the_proxy_of_the_environment_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, server.url)
    with FlinkHttp("eu", "http://flink.example:8081", None) as http:
        assert http.get("/jobs/overview") == {"jobs": []}
    assert [path for path, _ in server.asked] == ["http://flink.example:8081/jobs/overview"]


def test_a_host_that_the_environment_exempts_is_asked_itself(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with FlinkHttp("eu", server.url, None) as http:
        assert http.get("/jobs/overview") == {"jobs": []}
    monkeypatch.delenv("no_proxy")
    with FlinkHttp("eu", server.url, None) as http, pytest.raises(Unreachable, match="did not answer within 5 s"):
        http.get("/jobs/overview")
