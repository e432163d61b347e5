"""The WebSocket by which a browser shows a live region: ``/live/{name}?{query}``."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.regions.hub import Hub, TooManyViews

MAX_QUERY_CHARACTERS = 2_000
UNKNOWN_REGION = 4404
TOO_LONG = 4414
TRY_LATER = 1013


def live_route(hub: Hub) -> WebSocketRoute:
    """Return the route; the middleware in front of it checks Host, Origin and who asks."""

    async def endpoint(websocket: WebSocket) -> None:
        name = websocket.path_params["name"]
        query = dict(websocket.query_params)
        await websocket.accept()
        if not hub.knows(name):
            await websocket.close(UNKNOWN_REGION, "there is no such region")
        elif sum(len(key) + len(value) for key, value in query.items()) > MAX_QUERY_CHARACTERS:
            await websocket.close(TOO_LONG, "the filters are too long")
        else:
            await _serve(websocket, hub, name, query)

    return WebSocketRoute("/live/{name}", endpoint)


async def _serve(websocket: WebSocket, hub: Hub, name: str, query: dict[str, str]) -> None:
    sending = asyncio.create_task(_send(websocket, hub, name, query))
    try:
        # A browser sends nothing: this returns when it leaves.
        while True:
            await websocket.receive_text()
    except (WebSocketDisconnect, KeyError):
        pass
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await sending


async def _send(websocket: WebSocket, hub: Hub, name: str, query: dict[str, str]) -> None:
    try:
        async with contextlib.aclosing(hub.messages(name, query)) as messages:
            async for message in messages:
                await websocket.send_text(message)
    except TooManyViews as error:
        await websocket.close(TRY_LATER, str(error))
