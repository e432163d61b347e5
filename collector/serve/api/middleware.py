"""Around every request: an id, a limit on its body, headers that browsers heed, one log line, and an answer whatever happens."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indoubt.collector.runtime.logs import REQUEST_ID
from indoubt.collector.serve.api.errors import problem

SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
MAX_BODY_BYTES = 4_194_304
STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
log = logging.getLogger(__name__)


class RequestGuard:
    """ASGI middleware. A body longer than MAX_BODY_BYTES is refused (413) before it is read to its end."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; other kinds of connection pass as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        before = REQUEST_ID.set(request_id)
        answer = _Answer(send, request_id, is_https=scope["scheme"] == "https")
        began_s = time.monotonic()
        try:
            if _declared_length(scope["headers"]) > MAX_BODY_BYTES:
                await problem(413, self._too_large)(scope, receive, answer.send)
            else:
                await self._app(scope, self._limited(receive), answer.send)
        except Exception as error:
            log.exception("the request failed")
            if answer.status is None:
                words = f"{type(error).__name__}: see the collector's log, request {request_id}"
                await problem(500, words)(scope, receive, answer.send)
        finally:
            _log(scope, answer.status, round((time.monotonic() - began_s) * 1000))
            REQUEST_ID.reset(before)

    @property
    def _too_large(self) -> str:
        return f"the body has more than {MAX_BODY_BYTES} bytes: send less at once"

    def _limited(self, receive: Receive) -> Receive:
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MAX_BODY_BYTES:
                raise HTTPException(413, self._too_large)
            return message

        return limited


class _Answer:
    """Passes an answer on with its headers, and remembers its status."""

    def __init__(self, send: Send, request_id: str, *, is_https: bool) -> None:
        self._send = send
        self._headers = [*SECURITY_HEADERS, (b"x-request-id", request_id.encode())]
        self._headers += [STRICT_TRANSPORT] if is_https else []
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(header for header in self._headers if header[0] not in names)]}
        await self._send(message)


def _declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    return int(length) if length.isdigit() else 0


def _log(scope: Scope, status: int | None, took_ms: int) -> None:
    """Write who asked for which route: never the address that was asked for, which may hold anything, a secret too."""
    route = getattr(scope.get("route"), "path", "no route")
    caller = scope.get("state", {}).get("caller", "-")
    asked = scope["method"] not in ("GET", "HEAD") or (status or 500) >= 400
    level = logging.INFO if asked and status != 429 else logging.DEBUG
    log.log(level, "%s %s: %s in %d ms, %s", scope["method"], route, status or "no answer", took_ms, caller)
