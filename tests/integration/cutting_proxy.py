"""A proxy between every client and one broker, which can end something at the very moment a chosen request comes by."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from demo.broker import Broker
from demo.ports import free_port

END_TXN = 26
"""Kafka's number of the request that ends a transaction."""
_PIECE = 1 << 16


@dataclass(slots=True)
class Cut:
    """At the next request of this kind ``deed`` is done once; ``answer_lost``: after the broker has answered it.

    Nothing of the request (or of its answer) gets through.
    """

    api_key: int
    deed: Callable[[], None]
    answer_lost: bool
    done: threading.Event = field(default_factory=threading.Event)


class CuttingProxy:
    """Listens on a free loopback port and passes everything on to the broker's; a context manager."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._cut: Cut | None = None
        self._lock = threading.Lock()

    def at_next(self, api_key: int, deed: Callable[[], None], *, answer_lost: bool = False) -> Cut:
        """Arm a cut; its ``done`` is set once it was made."""
        self._cut = Cut(api_key, deed, answer_lost)
        return self._cut

    def __enter__(self) -> CuttingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._broker_port)) as broker:
            muted = threading.Event()
            answered = threading.Event()
            back = threading.Thread(target=_pass_back, args=(broker, client, muted, answered), daemon=True)
            back.start()
            while (request := _read_request(client)) is not None:
                cut = self._due(request)
                if cut is None:
                    broker.sendall(request)
                    continue
                if cut.answer_lost:
                    muted.set()
                    broker.sendall(request)
                    assert answered.wait(30.0), "the broker did not answer the request whose answer is to be lost"
                cut.deed()
                cut.done.set()
                return

    def _due(self, request: bytes) -> Cut | None:
        with self._lock:
            cut = self._cut
            if cut is None or struct.unpack_from(">h", request, 4)[0] != cut.api_key:
                return None
            self._cut = None
            return cut


@contextlib.contextmanager
def broker_behind_proxy(directory: Path) -> Iterator[tuple[Broker, CuttingProxy, str]]:
    """Run a broker that tells the proxy's address as its own; yield it, the proxy, and that address."""
    port = free_port()
    with CuttingProxy(port) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        with Broker(directory, port, {"advertised.listeners": f"PLAINTEXT://{address}"}) as broker:
            yield broker, proxy, address


def _read_request(client: socket.socket) -> bytes | None:
    """Return the next request with its length, None at the end."""
    head = _read(client, 4)
    body = _read(client, struct.unpack(">i", head)[0]) if head is not None else None
    return head + body if head is not None and body is not None else None


def _read(client: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        piece = client.recv(min(_PIECE, count - len(found)))
        if not piece:
            return None
        found += piece
    return bytes(found)


def _pass_back(broker: socket.socket, client: socket.socket, muted: threading.Event, answered: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while piece := broker.recv(_PIECE):
            if muted.is_set():
                answered.set()
            else:
                client.sendall(piece)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
