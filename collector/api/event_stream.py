"""Server-sent events: "something changed", at most 10 times a second, and a heartbeat every 5 s."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

MIN_PAUSE_S = 0.1
ALIVE_EVERY_S = 5.0


class Changes:
    """Passes new versions from observers' threads to the streams of the event loop, which it is given once that runs."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._version = 0
        self._streams: set[asyncio.Event] = set()
        self._is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass versions to this loop from now on."""
        self._loop = loop

    def tell(self, version: int) -> None:
        """Take a new version; called from any thread, never blocks."""
        self._version = version
        if self._loop is not None and self._streams:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End every stream, so that a server can stop; called from any thread."""
        self._is_closed = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events; the first one tells the version as it is."""
        changed = asyncio.Event()
        changed.set()
        self._streams.add(changed)
        try:
            while not self._is_closed:
                try:
                    await asyncio.wait_for(changed.wait(), ALIVE_EVERY_S)
                except TimeoutError:
                    yield "event: alive\ndata: {}\n\n"
                    continue
                changed.clear()
                yield f"event: changed\ndata: {json.dumps({'version': self._version})}\n\n"
                await asyncio.sleep(MIN_PAUSE_S)
        finally:
            self._streams.discard(changed)

    def _wake(self) -> None:
        for changed in self._streams:
            changed.set()
