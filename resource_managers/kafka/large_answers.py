"""Answers of brokers received in large pieces, where kafka-python takes 4 kB at a time and copies them twice.

It replaces one method of kafka-python's transports, for wire.py.
"""

from __future__ import annotations

import ssl
from typing import Any

from kafka import errors as kafka_errors

PIECE_BYTES = 64 << 10
_NOTHING_YET = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def receive_in_large_pieces(manager: Any) -> None:
    """Have every connection receive so that kafka-python's connection manager makes from now on."""
    build = manager._build_transport

    async def build_transport(node: Any, timeout_at: float | None = None) -> Any:
        transport = await build(node, timeout_at=timeout_at)
        transport._sock_recv = lambda: _receive(transport)
        return transport

    manager._build_transport = build_transport


def _receive(transport: Any) -> tuple[bytes, Exception | None]:
    """Return what has come and is for the parser to sort, or the error that ends the connection."""
    try:
        return _received(transport), None
    except (OSError, kafka_errors.KafkaConnectionError) as error:
        return b"", kafka_errors.KafkaConnectionError(error)


def _received(transport: Any) -> bytes:
    socket, parser = transport._sock, transport._protocol.parser
    # What TLS has decrypted already, no selector sees.
    pending = getattr(socket, "pending", lambda: 0)
    pieces: list[bytes] = []
    try:
        while True:
            answer = parser._rbuffer
            if not pieces and answer is not None and len(answer) - answer.tell() > PIECE_BYTES:
                # Straight into its place, but for the last byte: with that the parser is called.
                with memoryview(answer) as whole:
                    taken = socket.recv_into(whole[answer.tell() : -1])
                answer.seek(answer.tell() + taken)
            else:
                piece = socket.recv(PIECE_BYTES)
                taken = len(piece)
                pieces.append(piece)
            if not taken:
                raise kafka_errors.KafkaConnectionError("socket disconnected")
            if pieces and not pending():
                break
    except _NOTHING_YET:
        pass
    return b"".join(pieces)
