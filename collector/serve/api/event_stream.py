"""Server-sent events: "something changed", at most twice a second, and a heartbeat every 5 s."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

MIN_PAUSE_S = 0.5
ALIVE_EVERY_S = 5.0


@dataclass(eq=False, slots=True)
class _Stream:
    has_changed: bool = True
    """Since it last told so; set from any thread."""
    waits: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Changes:
    """Passes new versions from observers' threads to the streams of the event loop, which it is given once that runs."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._version = 0
        self._streams: tuple[_Stream, ...] = ()
        """Replaced, never changed: observers' threads read it."""
        self._is_closed = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass versions to this loop from now on."""
        self._loop = loop

    def tell(self, version: int) -> None:
        """Take a new version; called from any thread, never blocks."""
        self._version = version
        streams = self._streams
        for stream in streams:
            stream.has_changed = True
        # A stream that pauses looks for itself when its pause is over: the loop is not woken for each of many changes.
        if any(stream.waits for stream in streams):
            self._wake_soon()

    def close(self) -> None:
        """End every stream, so that a server can stop; called from any thread."""
        self._is_closed = True
        self._wake_soon()

    async def stream(self) -> AsyncIterator[str]:
        """Yield server-sent events; the first one tells the version as it is."""
        stream = _Stream()
        self._streams = (*self._streams, stream)
        try:
            while not self._is_closed:
                if not await self._has_changed(stream):
                    yield "event: alive\ndata: {}\n\n"
                    continue
                stream.has_changed = False
                yield f"event: changed\ndata: {json.dumps({'version': self._version})}\n\n"
                await asyncio.sleep(MIN_PAUSE_S)
        finally:
            self._streams = tuple(other for other in self._streams if other is not stream)

    async def _has_changed(self, stream: _Stream) -> bool:
        """Wait for a change, or the end, for as long as a stream may be silent; return whether one came."""
        stream.woken.clear()
        # It says so before it looks: a change in between is seen, or wakes it.
        stream.waits = True
        try:
            if not (stream.has_changed or self._is_closed):
                await asyncio.wait_for(stream.woken.wait(), ALIVE_EVERY_S)
            return True
        except TimeoutError:
            return False
        finally:
            stream.waits = False

    def _wake_soon(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for stream in self._streams:
            stream.woken.set()
