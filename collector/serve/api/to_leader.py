"""What changes something, or is known to the leader alone, asked of the standby: it asks the leader, with the caller's own token.

The address is that of this collector's settings, never one that a topic told: tokens go there.
"""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.errors import problem
from indoubt.collector.standby.leadership import Leadership

if TYPE_CHECKING:
    import httpx

FORWARDED = "x-indoubt-forwarded"
ANSWERS = "/api/v1/orders"
LED = (ANSWERS, "/api/v1/orders/runs", "/api/v1/orders/under-way", "/api/v1/standing-orders")
"""What only the leader has in memory; while it is away the standby says what it knows, but for what became of an order."""
DROPPED = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "expect", "accept-encoding", "x-forwarded-for"}
)
KEPT = ("content-type", "retry-after", "allow", "www-authenticate")
READ_LIMIT_S, ORDER_LIMIT_S, CONNECT_LIMIT_S = 3.0, 120.0, 2.0


class ToLeader:
    """ASGI middleware; ``authority``: PEM file by which the leader's certificate is known, empty: the system's."""

    def __init__(self, app: ASGIApp, leadership: Leadership, authority: str) -> None:
        self._app, self._leadership, self._authority = app, leadership, authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the leader answer it."""
        if scope["type"] != "http" or self._leadership.leads or not _is_for_leader(scope):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        tokens = request.app.state.dependencies.tokens
        if tokens.caller_of(request.headers.get("authorization", ""), now_ms()) is None:
            await self._app(scope, receive, send)  # which says so
            return
        if FORWARDED in request.headers:
            await problem(503, "neither collector leads at this moment: ask again in 10 s")(scope, receive, send)
            return
        body = await request.body()
        answer = await self._ask(request, body)
        if answer is None:
            await self._app(scope, _again(body), send)
        else:
            await answer(scope, receive, send)

    async def _ask(self, request: Request, body: bytes) -> Response | None:
        """Return the leader's answer, or a problem; None: a read that the leader does not answer."""
        import httpx

        is_read, peer = request.method == "GET", self._leadership.peer
        limit = httpx.Timeout(READ_LIMIT_S if is_read else ORDER_LIMIT_S, connect=CONNECT_LIMIT_S)
        headers = [(name, value) for name, value in request.headers.items() if name not in DROPPED]
        path = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        try:
            found = await self._client.request(
                request.method, path, headers=[*headers, (FORWARDED, "1")], content=body, timeout=limit
            )
        except httpx.TransportError as error:
            if is_read and request.url.path != ANSWERS:
                return None
            why = f"this collector is the standby, and the leader at {peer} does not answer ({type(error).__name__})"
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                return problem(503, f"{why}: nothing was done; ask again in 10 s")
            return problem(504, f"{why}: ask for the order by its idempotency key in 10 s")
        kept = {name: found.headers[name] for name in KEPT if name in found.headers}
        return Response(found.content, found.status_code, kept)

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx  # only at a standby: it takes 6 MiB

        context = ssl.create_default_context(cafile=self._authority or None)
        # Neither proxies of the environment nor redirects: the token goes to the leader's address and nowhere else.
        return httpx.AsyncClient(
            base_url=self._leadership.peer, verify=context, trust_env=False, follow_redirects=False
        )


def _is_for_leader(scope: Scope) -> bool:
    path: str = scope["path"]
    if scope["method"] in ("GET", "HEAD"):
        return path in LED or path.startswith("/api/v1/orders/runs/")
    return path.startswith("/api/")


def _again(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
