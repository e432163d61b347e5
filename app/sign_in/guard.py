"""The one guard in front of every path: who does not sign in gets neither a page nor a websocket.

It hands the person to the pages in the two headers of ``indoubt.lifecycle.persons``, and drops those that come from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indoubt.app.sign_in.answers import no_role
from indoubt.app.sign_in.sessions import Session
from indoubt.lifecycle.persons import NAME_HEADER, ROLE_HEADER

HEALTH = "/_stcore/health"
"""It says "ok" and nothing else; whoever checks that the app is alive does not sign in."""
SIGN_OUT_HEADER = "X-Indoubt-Sign-Out"
"""Tells the pages where to sign out, where that is the app's affair."""
_FROM_OUTSIDE = tuple(name.lower().encode() for name in (NAME_HEADER, ROLE_HEADER, SIGN_OUT_HEADER))
POLICY_VIOLATION = 1008


class NoRole(Exception):
    """Somebody signed in, and none of the groups may do anything. ``name`` comes from outside."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Way(Protocol):
    """A way to sign in."""

    sign_out: str
    """The path that signs out, empty where another program does."""

    def session(self, scope: Scope) -> Session | None:
        """Return the session of a request, None without one. Raises NoRole."""

    async def over(self, session: Session) -> None:
        """Wait until the session is over."""

    async def answer(self, scope: Scope, receive: Receive) -> Response | None:
        """Answer a request for a path of the sign-in, None for any other path."""

    def refusal(self, scope: Scope) -> Response:
        """Return what a request without a session is answered."""


class SignedInOnly:
    """ASGI middleware. ``way`` None: nobody signs in, so it only drops the headers that would name a person."""

    def __init__(self, app: ASGIApp, way: Way | None) -> None:
        self._app, self._way = app, way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on in the name of its person, or refuse it; a websocket is refused before it is opened."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        scope = {**scope, "headers": [header for header in scope["headers"] if header[0].lower() not in _FROM_OUTSIDE]}
        if self._way is None or scope["path"] == HEALTH:
            await self._app(scope, receive, send)
            return
        answer = await self._way.answer(scope, receive) if scope["type"] == "http" else None
        if answer is not None:
            await answer(scope, receive, send)
        else:
            await self._guarded(self._way, scope, receive, send)

    async def _guarded(self, way: Way, scope: Scope, receive: Receive, send: Send) -> None:
        is_websocket = scope["type"] == "websocket"
        session, refusal = None, None
        try:
            session = way.session(scope)
        except NoRole as error:
            refusal = no_role(error.name)
        if session is None and is_websocket:
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif session is None:
            await (refusal or way.refusal(scope))(scope, receive, send)
        else:
            headers = MutableHeaders(scope=scope)
            headers.update(session.person.headers())
            if way.sign_out:
                headers[SIGN_OUT_HEADER] = way.sign_out
            if is_websocket:
                await self._while_signed_in(way, session, scope, receive, send)
            else:
                await self._app(scope, receive, send)

    async def _while_signed_in(self, way: Way, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a websocket, and close it as soon as the session is over: it may stay open for days."""

        async def close_then() -> None:
            await way.over(session)
            # The browser may have gone already.
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "the session is over"})

        over = asyncio.create_task(close_then())

        async def receive_while() -> Message:
            receiving = asyncio.ensure_future(receive())
            try:
                await asyncio.wait({receiving, over}, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    return receiving.result()
                return {"type": "websocket.disconnect", "code": POLICY_VIOLATION}
            finally:
                receiving.cancel()

        async def send_while(message: Message) -> None:
            if over.done():
                # What Starlette raises to its routes as "disconnected".
                raise OSError("the session is over")
            await send(message)

        try:
            await self._app(scope, receive_while, send_while)
        finally:
            over.cancel()


def wants_a_page(scope: Scope) -> bool:
    """Say whether a browser asks for a page that it shows, not a part of one."""
    return scope["method"] in ("GET", "HEAD") and "text/html" in Headers(scope=scope).get("accept", "")


def plain(status: int, words: str) -> Response:
    """Return a refusal in one line."""
    return PlainTextResponse(words + "\n", status_code=status, headers={"Cache-Control": "no-store"})
