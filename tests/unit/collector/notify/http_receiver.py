"""A real HTTP server on loopback that takes notifications, and misbehaves when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT_S = 20.0


def wait_until(what: str, holds: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Return the first true answer of ``holds``; fail naming what was waited for."""
    deadline = time.monotonic() + limit_s
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain for: {what}"
        time.sleep(0.01)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """What came, and how the next requests are answered: ``status``, or not at all while ``hangs``, or drop by drop."""

    port: int = 0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    trickles: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return its address, with a secret in the path as Slack's have one."""
        return f"http://127.0.0.1:{self.port}/services/secret-in-the-path"

    def hang(self) -> None:
        """Take requests and answer none until ``release``."""
        self.released.clear()

    def release(self) -> None:
        """Answer, those that hang too."""
        self.released.set()


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """Run a receiver; at the end its port is closed and requests are refused."""
    state = Receiver()
    state.release()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.received.append(Received(path=self.path, headers=dict(self.headers), body=body))
            state.released.wait(LIMIT_S)
            if state.trickles:
                self.trickle()
                return
            self.send_response(state.status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def trickle(self) -> None:
            """Send a header that never ends, a character at a time, each well within any limit on one read."""
            self.close_connection = True
            try:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while state.trickles:
                    self.wfile.write(b"a")
                    time.sleep(0.02)
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield state
    finally:
        state.trickles = False
        state.release()
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
