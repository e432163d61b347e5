"""Renders each live region once per change, for all who show it, and keeps the last content while the collector is away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from indoubt.app.client.all_clusters import AllClusters
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError
from indoubt.app.components import shown_cluster
from indoubt.app.components.markup import el
from indoubt.app.regions.region_content import Query, RegionContent, Render, changes
from indoubt.app.settings import Settings, of_cluster
from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.page_paths import CLUSTER

log = logging.getLogger(__name__)

MIN_PAUSE_S = 0.9
"""Between the starts of two renderings: a change after a quiet time is rendered at once, one of many within a second."""
MAX_PAUSE_S, PAUSE_TIMES = 2.0, 4.0
"""With thousands of open transactions a rendering takes long: the pause behind it is so many times as long, up to 2 s."""
REFRESH_S = 5.0
"""Render at least this often while somebody watches: what changes by time alone has no event."""
HEARTBEAT_S = 2.0
RETRY_S = 1.0
PREFETCHED_FOR_S = 10.0
"""A region that a page will show is kept ready for so long, until its viewer comes."""
MAX_VIEWS = 200
"""Different regions and filters at once; a tab shows two or three."""


Client = TypeVar("Client", bound=CollectorClient | AllClusters)
"""What is followed: one collector, or all of them for the page over every cluster."""


class TooManyViews(Exception):
    """More different regions and filters are shown than the app renders at once."""


@dataclass(eq=False, slots=True)
class _View:
    """One region under one query; ``number`` counts its contents."""

    render: Callable[[], RegionContent]
    content: RegionContent = field(default_factory=dict)
    number: int = 0
    viewers: int = 0
    is_new: bool = True
    messages: dict[int, str] = field(default_factory=dict)
    """What brings a viewer of an earlier content up to the present one, by that content's number."""
    earlier: dict[int, RegionContent] = field(default_factory=dict)


class RegionServer(Generic[Client]):
    """For one event loop. ``start`` and ``stop`` are called by the web server; ``messages`` once per open WebSocket.

    It asks the collector only while somebody watches.
    """

    def __init__(self, client: Client, regions: Mapping[str, Callable[[Client, Query], RegionContent]]) -> None:
        self._client: Client = client
        self._regions: Mapping[str, Callable[[Client, Query], RegionContent]] = regions
        self._views: dict[tuple[str, frozenset[tuple[str, str]]], _View] = {}
        self._changed = asyncio.Condition()
        self._watched, self._woken = asyncio.Event(), asyncio.Event()
        self._is_due = False
        """Whether something changed since the last rendering of all regions."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lost = ""
        self._answered_at: float | None = None
        self._ahead_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    def knows(self, name: str) -> bool:
        """Return whether there is a region of this name."""
        return name in self._regions

    def start(self) -> None:
        """Start following the collector."""
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._render())]

    async def stop(self) -> None:
        """End all tasks and close the connections."""
        self._loop = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._client.close()

    def prefetch(self, name: str, query: Query) -> None:
        """Render a region now that a page shows in a moment. Any thread may call it; it returns at once and raises nothing.

        A page's markup takes the browser half a second. The region's first content is made meanwhile.
        """
        loop = self._loop
        if loop is not None:
            # The server may stop between the two lines.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._prefetch, name, query)

    def _prefetch(self, name: str, query: Query) -> None:
        if self._loop is not None and self.knows(name):
            with contextlib.suppress(TooManyViews):
                self._loop.call_later(PREFETCHED_FOR_S, self._leave, self._join(name, query))

    async def messages(self, name: str, query: Query) -> AsyncGenerator[str]:
        """Yield JSON messages for one viewer: the whole content, then what changes, and a heartbeat each 2 s.

        ``now_ms``: the collector's clock. ``as_of_ms``: when the collector last answered. ``lost``: why it does not now.
        ``blocks`` and ``order``: see ``region_content.changes``. Raises TooManyViews.
        """
        view = self._join(name, query)
        seen, lost = 0, ""
        try:
            while True:
                async with self._changed:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(HEARTBEAT_S):
                            while (view.number, self._lost) == (seen, lost):
                                await self._changed.wait()
                message = self._message(view, seen)
                # Before the message is sent: a new content may come while a slow viewer takes it.
                seen, lost = view.number, self._lost
                yield message
        finally:
            self._leave(view)

    def _join(self, name: str, query: Query) -> _View:
        key = (name, frozenset(query.items()))
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_VIEWS:
                raise TooManyViews(f"{MAX_VIEWS} different regions are shown already: close some tabs")
            view = self._views[key] = _View(partial(self._rendered, name, dict(query)))
        view.viewers += 1
        self._watched.set()
        if view.is_new:
            self._woken.set()
        return view

    def _rendered(self, name: str, query: Query) -> RegionContent:
        # Its links lead where those of the page do that shows it.
        own = {key: text for key, text in query.items() if key != CLUSTER}
        with shown_cluster.rendering(query.get(CLUSTER, "")):
            return self._regions[name](self._client, own)

    def _leave(self, view: _View) -> None:
        view.viewers -= 1
        self._views = {key: view for key, view in self._views.items() if view.viewers}
        if not self._views:
            self._watched.clear()
            # What changes from here on is not followed.
            self._mark_due()

    def _mark_due(self) -> None:
        self._is_due = True
        self._woken.set()

    def _message(self, view: _View, seen: int) -> str:
        facts = _json(
            {
                "now_ms": int((time.time() + self._ahead_s) * 1000),
                "as_of_ms": None if self._answered_at is None else int((self._answered_at + self._ahead_s) * 1000),
                "lost": self._lost,
            }
        )
        if seen >= view.number:
            return facts
        if seen not in view.messages:
            # Viewers of the same content share one text; who missed a content gets the whole present one.
            view.messages[seen] = _json(changes(view.earlier.get(seen, {}), view.content))
        news = view.messages[seen][1:]
        return f"{facts[:-1]},{news}" if news != "}" else facts

    async def _follow(self) -> None:
        """Mark what is shown as due for each change; say when the collector is lost and when it is back."""
        while True:
            await self._watched.wait()
            try:
                self._client.forget()
                self._ahead_s = await asyncio.to_thread(self._client.now_ms) / 1000 - time.time()
                async with contextlib.aclosing(self._client.changes()) as stream:
                    async for has_changed in stream:
                        await self._answered()
                        if has_changed:
                            self._mark_due()
                        if not self._watched.is_set():
                            break
            except IndoubtError as error:
                await self._lose(str(error))
                await asyncio.sleep(RETRY_S)

    async def _render(self) -> None:
        """Render all regions after a change and every 5 s, with a pause between; and at once what somebody newly shows."""
        now_s = asyncio.get_running_loop().time
        after_pause_s = refresh_s = now_s()
        while True:
            await self._watched.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(after_pause_s if self._is_due else refresh_s):
                    await self._woken.wait()
            self._woken.clear()
            began_s = now_s()
            if began_s < (after_pause_s if self._is_due else refresh_s):
                # From the answers that the last rendering had: the next one follows as soon as something changed.
                await self._render_views([view for view in self._views.values() if view.is_new])
                continue
            self._is_due = False
            self._client.forget()
            await self._render_views(sorted(self._views.values(), key=lambda view: not view.is_new))
            took_s = now_s() - began_s
            after_pause_s = now_s() + max(MIN_PAUSE_S - took_s, min(MAX_PAUSE_S, PAUSE_TIMES * took_s))
            refresh_s = now_s() + REFRESH_S

    async def _render_views(self, views: Sequence[_View]) -> None:
        for view in views:
            await self._render_view(view)

    async def _render_view(self, view: _View) -> None:
        try:
            content = await asyncio.to_thread(view.render)
            await self._answered()
        except CollectorError as error:
            if error.is_lost:
                await self._lose(str(error))
                return
            content = {"error": el("p", el("b", "✖ "), str(error), class_="warn", role="alert")}
        except Exception:
            # A defect of one region must not stop the others; its viewers are told, and the log has the trace.
            log.exception("a live region could not be rendered")
            content = {
                "error": el("p", el("b", "✖ "), "This part cannot be shown: the app's log says why.", class_="warn")
            }
        view.is_new = False
        if content == view.content and view.number:
            return
        async with self._changed:
            view.earlier = {view.number: view.content}
            view.content, view.number, view.messages = content, view.number + 1, {}
            self._changed.notify_all()

    async def _answered(self) -> None:
        self._answered_at = time.time()
        if self._lost:
            self._lost = ""
            self._mark_due()
            async with self._changed:
                self._changed.notify_all()

    async def _lose(self, reason: str) -> None:
        if reason != self._lost:
            self._lost = reason
            async with self._changed:
                self._changed.notify_all()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


class RegionServers:
    """For one event loop. ``of_all``: the regions of the page over all clusters, where there are several."""

    def __init__(
        self,
        settings: Mapping[str, Settings],
        regions: Mapping[str, Render],
        of_all: Mapping[str, Callable[[AllClusters, Query], RegionContent]],
    ) -> None:
        self._servers: dict[str, RegionServer[Any]] = {
            name: RegionServer(CollectorClient(each, REFRESH_S), regions) for name, each in settings.items()
        }
        if len(settings) > 1:
            everywhere = AllClusters({name: CollectorClient(each) for name, each in settings.items()})
            self._servers[""] = RegionServer(everywhere, of_all)

    def start(self) -> None:
        """Start following all collectors."""
        for server in self._servers.values():
            server.start()

    async def stop(self) -> None:
        """End all tasks and close the connections."""
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    def find(self, name: str, query: Query) -> RegionServer[Any] | None:
        """Return who renders a region under this query; None: there is no such region or cluster."""
        server = of_cluster(self._servers, query.get(CLUSTER, ""))
        return server if server is not None and server.knows(name) else None

    def prefetch(self, name: str, query: Query) -> None:
        """Render a region now that a page shows in a moment, as ``RegionServer.prefetch``."""
        if (found := self.find(name, query)) is not None:
            found.prefetch(name, query)
