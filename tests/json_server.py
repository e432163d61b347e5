"""A real HTTP server that answers what a test tells it to, as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
"""Status and JSON."""


@contextmanager
def answering(answer: Callable[[str, Mapping[str, str]], Answer]) -> Iterator[str]:
    """Serve while the context is open; yield the address. ``answer`` takes the path with its query, and the headers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet: else each answer waits 40 ms for an acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            status, value = answer(self.path, dict(self.headers))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
