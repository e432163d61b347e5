"""A way to the collector that passes on so many orders, and loses the answers from then on."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.integration.collector_process import ORDER_LIMIT_S


class HaltingProxy:
    """Answers requests as the collector does. The order after ``passes`` is carried out unanswered, those after it are lost."""

    def __init__(self, collector_url: str, passes: int) -> None:
        self.url = ""
        self.passes: int | None = passes
        """None: all."""
        self.client = httpx.Client(base_url=collector_url, timeout=ORDER_LIMIT_S)
        self._orders = 0

    def answer(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> httpx.Response | None:
        """Return the collector's answer, None where it is lost."""
        number = 0
        if request.command == "POST" and request.path == "/api/v1/orders":
            self._orders += 1
            number = self._orders
        if self.passes is not None and number > self.passes + 1:
            return None
        headers = {name: value for name, value in request.headers.items() if name in ("Authorization", "Content-Type")}
        answer = self.client.request(request.command, request.path, content=body, headers=headers)
        return None if self.passes is not None and number > self.passes else answer


@contextmanager
def halting_proxy(collector_url: str, passes: int) -> Iterator[HaltingProxy]:
    """Run one on a free port of the loopback device."""
    proxy = HaltingProxy(collector_url, passes)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = proxy.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, proxy.client:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
