"""What a browser loads before it shows a page: Streamlit's own HTML, scripts, styles and fonts.

A new browser asks for some eighty files. Streamlit reads each from disk, in parts and in a thread of its own, and sends none
compressed; here they are answered from memory. Its script asks for what draws an element only when the element came, and then
for what that imports.

The HTML that every page starts from is told what Streamlit's script would ask for. That script first looks below the page that is
open (/transactions/_stcore/health and host-config, both 404), and then one folder higher. All pages stand in one folder, so it is
told to look there: two errors in the browser's console and a round trip less. It is also told what host-config says, so it opens
its websocket at once and asks beside that. And the browser is told which scripts will draw the page: it fetches them with the
first ones.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
import re
from collections.abc import AsyncIterable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import file_util

from indoubt.app.sign_in.settings import is_loopback

# As Streamlit says of them: their names change with their content.
_HEADERS = {"cache-control": "public, immutable, max-age=31536000", "vary": "Accept-Encoding"}
_GZIPPED = {**_HEADERS, "content-encoding": "gzip"}
_LEVEL = 6
"""All that a page needs then takes 0.1 s once, and a quarter of the bytes."""
_COMPRESSED = frozenset({".js", ".css", ".svg"})
_ELEMENTS = ("Html", "BidiComponent", "ButtonGroup")
"""Streamlit's names of what every page has: markup, live regions, and a choice of one (of the times' zone, of what is shown)."""
_IMPORT = re.compile(r"""\b(?:from|import)\s*["']\./([\w.~-]+\.js)["']""")
_TOP = 10_000
"""So many characters of a script hold all its imports: they stand at its top."""

# Relative: a proxy may serve the app below a path of its own. allowedOrigins: who may send the page messages where it is framed.
_WHERE = b"""<script>window.__streamlit = {BACKEND_BASE_URL: new URL('.', location.href).href, HOST_CONFIG: {
allowedOrigins: [location.origin], useExternalAuthToken: false}};</script>"""
_LINK = b'<link rel="modulepreload" crossorigin href="./static/js/%s">'
_BEFORE, _END = b"<script", b"</head>"
_UNWANTED = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""Of a request: the text must come whole and as it is."""
_OF_THE_FILE = (b"etag", b"last-modified", b"content-length")


class StreamlitFiles:
    """ASGI middleware that answers for Streamlit's static files, each read and compressed once; all else passes as it is."""

    def __init__(self, app: ASGIApp, directory: Path | None = None) -> None:
        self._app = app
        folder = directory or _directory()
        # Only what is listed here is ever read.
        self._paths = {f"/{path.relative_to(folder).as_posix()}": path for path in (folder / "static").rglob("*.*")}
        self._answers: dict[tuple[str, bool], Response] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = self._paths.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if path is None or "range" in Headers(scope=scope):
            await self._app(scope, receive, send)
            return
        asked = scope["path"], path.suffix in _COMPRESSED and _takes_compressed(Headers(scope=scope))
        if asked not in self._answers:
            self._answers[asked] = await asyncio.to_thread(_answer, path, asked[1])
        await self._answers[asked](scope, receive, send)


def _takes_compressed(headers: Headers) -> bool:
    # A browser on this machine would only spend time on it.
    host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    return "gzip" in headers.get("accept-encoding", "") and not is_loopback(host)


def _answer(path: Path, compressed: bool) -> Response:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0]
    return Response(
        gzip.compress(content, _LEVEL) if compressed else content,
        media_type=kind or "application/octet-stream",
        headers=_GZIPPED if compressed else _HEADERS,
    )


@cache
def scripts_of_every_page() -> tuple[str, ...]:
    """Return the names of the scripts that draw what every page has, and of all that they import."""
    folder = _directory() / "static" / "js"
    waiting = [path.name for element in _ELEMENTS for path in folder.glob(f"{element}.*.js")]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        if name not in found and (folder / name).is_file():
            found[name] = None
            with (folder / name).open(encoding="utf-8") as script:
                waiting += _IMPORT.findall(script.read(_TOP))
    return tuple(found)


def _directory() -> Path:
    return Path(file_util.get_static_dir())


class IndexPage(BaseHTTPMiddleware):
    """Middleware that tells each HTML page which a browser opens all this; all else passes as it is.

    ``scripts``: the names of those of Streamlit's scripts that every page needs. ``opened`` is called for each page.
    """

    def __init__(self, app: ASGIApp, scripts: Sequence[str] = (), opened: Callable[[], None] = lambda: None) -> None:
        super().__init__(app)
        self._links, self._opened = {name.encode(): _LINK % name.encode() for name in scripts}, opened

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answer one request."""
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return await call_next(request)
        self._opened()
        request.scope["headers"] = [(name, value) for name, value in request.scope["headers"] if name not in _UNWANTED]
        answer = cast(StreamingResponse, await call_next(request))
        if answer.status_code != 200 or not answer.headers.get("content-type", "").startswith("text/html"):
            return answer
        text = b"".join([part async for part in cast(AsyncIterable[bytes], answer.body_iterator)])
        text = text.replace(_BEFORE, _WHERE + _BEFORE, 1)
        links = b"".join(link for name, link in self._links.items() if name not in text)
        told = Response(text.replace(_END, links + _END, 1))
        # The others name the file, not what was made of it.
        told.raw_headers += [(name, value) for name, value in answer.raw_headers if name not in _OF_THE_FILE]
        return told
