"""The HTML that every page starts from: Streamlit's own, which is told what it would ask for.

Streamlit's script first looks below the page that is open (/transactions/_stcore/health and host-config, both 404), and then one
folder higher. All pages stand in one folder, so the script is told to look there: two errors in the browser's console and a round
trip less. It is also told what host-config says, so it opens its websocket at once and asks beside that. And the browser is told
which scripts will draw the page: it fetches them with the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Relative: a proxy may serve the app below a path of its own. allowedOrigins: who may send the page messages where it is framed.
_WHERE = b"""<script>window.__streamlit = {BACKEND_BASE_URL: new URL('.', location.href).href, HOST_CONFIG: {
allowedOrigins: [location.origin], useExternalAuthToken: false}};</script>"""
_LINK = b'<link rel="modulepreload" crossorigin href="./static/js/%s">'
_BEFORE, _END = b"<script", b"</head>"
_UNWANTED = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""Of a request: the text must come whole and as it is."""


class IndexPage:
    """ASGI middleware that adds this to each HTML page which a browser opens; all else passes as it is.

    ``scripts``: the names of those of Streamlit's scripts that every page needs. ``opened`` is called for each page.
    """

    def __init__(self, app: ASGIApp, scripts: Sequence[str] = (), opened: Callable[[], None] = lambda: None) -> None:
        self._app, self._links = app, {name.encode(): _LINK % name.encode() for name in scripts}
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if (
            scope["type"] != "http"
            or scope["method"] != "GET"
            or "text/html" not in Headers(scope=scope).get("accept", "")
        ):
            await self._app(scope, receive, send)
            return
        self._opened()
        asked = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in _UNWANTED]}
        await self._app(asked, receive, _Answer(send, self._links).send)


class _Answer:
    def __init__(self, send: Send, links: Mapping[bytes, bytes]) -> None:
        self._send, self._links = send, links
        self._start: Message | None = None
        """The start of an HTML answer, until all of its text is there."""
        self._text = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_html(message):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._text += message.get("body", b"")
            if not message.get("more_body"):
                await self._send_whole(self._start)
        else:
            await self._send(message)

    async def _send_whole(self, start: Message) -> None:
        text = self._text.replace(_BEFORE, _WHERE + _BEFORE, 1)
        links = b"".join(link for name, link in self._links.items() if name not in text)
        text = text.replace(_END, links + _END, 1)
        headers = MutableHeaders(raw=list(start["headers"]))
        headers["content-length"] = str(len(text))
        # These name the file, not what was made of it.
        for name in ("etag", "last-modified"):
            del headers[name]
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": text})


def _is_html(start: Message) -> bool:
    headers = Headers(raw=list(start["headers"]))
    return start["status"] == 200 and headers.get("content-type", "").startswith("text/html")
