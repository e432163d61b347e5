"""The web server of the pages: Streamlit's own, behind a check of each request's Host and Origin."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import logging
import os
import pkgutil
from collections.abc import AsyncIterator, Collection, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.starlette import App

from indoubt.app import palette, screens
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components import shown_cluster
from indoubt.app.regions import component
from indoubt.app.regions.region_server import RegionServer, RegionServers, TooManyViews
from indoubt.app.screens import live_regions
from indoubt.app.settings import Settings, of_cluster
from indoubt.app.sign_in.by_oidc import ByOidc
from indoubt.app.sign_in.by_proxy import ByProxy
from indoubt.app.sign_in.guard import HEALTH, SignedInOnly, Way
from indoubt.app.sign_in.settings import ProxySignIn, SignIn
from indoubt.app.streamlit_files import IndexPage, StreamlitFiles, scripts_of_every_page
from indoubt.lifecycle.page_paths import CLUSTER
from indoubt.lifecycle.persons import NAME_HEADER, ROLE_HEADER, Person, person

log = logging.getLogger(__name__)
PAGE = Path(__file__).with_name("page.py")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

STREAMLIT_SETTINGS = {
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "minimal",
    # Python collects by itself; to look through all there is takes 0.1 s after each run, and all other threads wait.
    "runner.postScriptGC": False,
    "server.headless": True,
    "server.fileWatcherType": "none",
    # The page of a table comes from the address, and st.pagination has a default whether one is given or not.
    "global.disableWidgetStateDuplicationWarning": True,
    "server.runOnSave": False,
    "theme.light.primaryColor": "#1f5fbf",
    "theme.dark.primaryColor": "#2f6fd0",
    "theme.light.backgroundColor": "#ffffff",
    "theme.dark.backgroundColor": "#11151c",
    "theme.light.secondaryBackgroundColor": "#f3f5f8",
    "theme.dark.secondaryBackgroundColor": "#1a202a",
    "theme.baseRadius": "6px",
    "theme.baseFontSize": 15,
    "logger.level": "warning",
    "logger.hideWelcomeMessage": True,
}
"""Streamlit sends no usage statistics, and a page never shows a stack trace.

Its welcome message would ask an outside host for the address of this machine.
"""


IMPORTED_BY_FIRST_RUN = ("numpy", "pandas", "PIL.ImageFile")
"""Streamlit imports these while it writes its first page, for half a second; that page also imports all screens."""

MAX_QUERY_CHARACTERS = 2_000
UNKNOWN_REGION, TOO_LONG, TRY_LATER = 4404, 4414, 1013
"""Codes with which a live region's WebSocket is closed."""


class OwnNamesOnly:
    """ASGI middleware that refuses requests with a foreign Host or Origin.

    Without it, a foreign page in the user's browser could act with the rights of the app's token. With DNS rebinding, that
    page's requests carry the page's own name as Host. From another address, they carry that address as Origin.
    Streamlit's own ``server.allowedHosts`` guards only its websocket, and accepts every port of localhost as an origin.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], public_url: str = "") -> None:
        self._app, self._names, self._public_origin = app, frozenset(names), _origin(public_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 400 or 403; a websocket is refused before it is opened."""
        refused = self._refused(scope) if scope["type"] in ("http", "websocket") else None
        if refused is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            # The page only says that it cannot connect.
            headers = Headers(scope=scope)
            log.warning(
                "a websocket was refused: Host %r, Origin %r: %s",
                headers.get("host", ""),
                headers.get("origin", ""),
                bytes(refused.body).decode().strip(),
            )
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refused(scope, receive, send)

    def _refused(self, scope: Scope) -> PlainTextResponse | None:
        if scope["path"] == HEALTH:
            # It answers "ok" and nothing else; a container's health check has no host name to send.
            return None
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        # The address at which a request arrived: no name can be made to point at it and be sent as it.
        arrived_at = (scope.get("server") or ("",))[0]
        if _hostname(f"//{host}") not in {*self._names, arrived_at} - {""}:
            text = "indoubt does not serve this host name: start it with --allowed-host and this name\n"
            return PlainTextResponse(text, status_code=400)
        # The public address itself: a proxy may leave out its port.
        if origin not in (None, f"http://{host}", f"https://{host}", self._public_origin or None):
            text = (
                "indoubt refuses cross-origin requests (a proxy in front must pass on the Host header unchanged, "
                "or start the app with --public-url and the address that browsers show)\n"
            )
            return PlainTextResponse(text, status_code=403)
        return None


def serve(host: str, port: int, allowed_hosts: Collection[str], sign_in: SignIn | None, public_url: str) -> None:
    """Serve the pages and their live regions until SIGINT or SIGTERM.

    ``allowed_hosts`` and ``public_url`` add to the names of loopback. ``sign_in`` None: nobody signs in.
    """
    names = LOOPBACK_NAMES | {_hostname(f"//{_bracketed(name)}") for name in (host, *allowed_hosts)}
    names |= {_hostname(public_url)}
    # Else uvicorn lets whoever asks from this machine say in X-Forwarded-For which address asks.
    os.environ["FORWARDED_ALLOW_IPS"] = ""
    # A request without a host name is refused.
    by_cluster = Settings.by_cluster()
    regions = RegionServers(by_cluster, live_regions.of_cluster(list(by_cluster)), live_regions.OF_ALL)

    @contextlib.asynccontextmanager
    async def lifespan(_: App) -> AsyncIterator[None]:
        # Before the first request is answered: else its page waits for this.
        _load()
        regions.start()
        component.tell_before_shown(regions.prefetch)
        yield
        await regions.stop()

    guards = [
        Middleware(OwnNamesOnly, names=names - {""}, public_url=public_url),
        Middleware(SignedInOnly, way=_way(sign_in)),
    ]
    # Every page has this region, and what it is made from takes longest.
    index = Middleware(IndexPage, scripts=scripts_of_every_page(), opened=lambda: regions.prefetch("frame", {}))
    middleware = [*guards, Middleware(StreamlitFiles), index]
    app = App(PAGE, lifespan=lifespan, routes=[_live_route(regions), _find_route(by_cluster)], middleware=middleware)
    settings = {**STREAMLIT_SETTINGS, "server.address": host, "server.port": port}
    if public_url:
        # Streamlit compares Host and Origin too, and else would look up this machine's outside address.
        settings["browser.serverAddress"] = _hostname(public_url)
    app.run(config=settings)


def _live_route(regions: RegionServers) -> WebSocketRoute:
    """Return the route of a live region's WebSocket; the middleware in front of it checks Host, Origin and who asks."""

    async def endpoint(websocket: WebSocket) -> None:
        name = websocket.path_params["name"]
        query = dict(websocket.query_params)
        await websocket.accept()
        if (server := regions.find(name, query)) is None:
            await websocket.close(UNKNOWN_REGION, "there is no such region")
        elif sum(len(key) + len(value) for key, value in query.items()) > MAX_QUERY_CHARACTERS:
            await websocket.close(TOO_LONG, "the filters are too long")
        else:
            await _serve_region(websocket, server, name, query)

    return WebSocketRoute("/live/{name}", endpoint)


async def _serve_region(websocket: WebSocket, regions: RegionServer[Any], name: str, query: dict[str, str]) -> None:
    sending = asyncio.create_task(_send_region(websocket, regions, name, query))
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


async def _send_region(websocket: WebSocket, regions: RegionServer[Any], name: str, query: dict[str, str]) -> None:
    try:
        async with contextlib.aclosing(regions.messages(name, query)) as messages:
            async for message in messages:
                await websocket.send_text(message)
    except TooManyViews as error:
        await websocket.close(TRY_LATER, str(error))


def _find_route(settings: Mapping[str, Settings]) -> Route:
    """Return the route of the search over everything, which asks the shown cluster's collector in the name of who is signed in."""
    asks_for: ContextVar[Person | None] = ContextVar("asks_for", default=None)
    clients = {
        name: CollectorClient(each, shared_for_s=palette.SHARED_FOR_S, asking_person=asks_for.get)
        for name, each in settings.items()
    }

    def found(find: palette.Find, words: str, cluster: str) -> list[palette.Found]:
        places = palette.clusters(list(clients), cluster, words)
        client = of_cluster(clients, cluster)
        if client is None:
            return places
        with shown_cluster.rendering(cluster):
            return [*find(client, words), *places]

    async def endpoint(request: Request) -> Response:
        words = request.query_params.get("words", "")[: palette.MAX_WORDS]
        find = palette.find_in_history if "history" in request.query_params else palette.find
        asks_for.set(person(request.headers.get(NAME_HEADER), request.headers.get(ROLE_HEADER)))
        cluster = request.query_params.get(CLUSTER, "")
        try:
            text, status = palette.as_json(await asyncio.to_thread(found, find, words, cluster)), 200
        except CollectorError as error:
            text, status = json.dumps({"error": str(error)}), 503
        return Response(text, status, media_type="application/json", headers={"Cache-Control": "no-store"})

    return Route("/find", endpoint)


def _load() -> None:
    """Import what the first run of a page needs. What was imported stays, so no collection looks through it again."""
    of_screens = (module.name for module in pkgutil.walk_packages(screens.__path__, f"{screens.__name__}."))
    for name in (*IMPORTED_BY_FIRST_RUN, *of_screens):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _way(sign_in: SignIn | None) -> Way | None:
    if sign_in is None:
        return None
    if isinstance(sign_in.way, ProxySignIn):
        return ByProxy(sign_in.way, sign_in.groups, sign_in.session_s)
    return ByOidc(sign_in, sign_in.way)


def _hostname(url: str) -> str:
    """Return the host name of a URL in lower case, or an empty text."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _origin(url: str) -> str:
    """Return what a browser calls the origin of a checked address: its usual port is left out."""
    parts = urlsplit(url)
    if not parts.hostname:
        return ""
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    return f"{parts.scheme}://{_bracketed(parts.hostname)}{port}"


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
