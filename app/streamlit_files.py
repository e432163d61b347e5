"""Streamlit's own scripts, styles and fonts, answered from memory, and which of its scripts draw what every page has.

A new browser asks for some eighty of them. Streamlit reads each from disk, in parts and in a thread of its own, and sends none
compressed. Its script asks for what draws an element only when the element came, and then for what that imports.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import file_util

from app.sign_in.settings import is_loopback

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
