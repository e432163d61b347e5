"""The region server of each cluster, and the one of the page over all: an address says which of them renders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from indoubt.app.client.all_clusters import AllClusters
from indoubt.app.regions.followed import AllCollectors, OneCollector
from indoubt.app.regions.region_content import Query, RegionContent, Render
from indoubt.app.regions.region_server import REFRESH_S, RegionServer
from indoubt.app.settings import Settings, of_cluster
from indoubt.lifecycle.page_paths import CLUSTER


class RegionServers:
    """For one event loop. ``of_all``: the regions of the page over all clusters, where there are several."""

    def __init__(
        self,
        settings: Mapping[str, Settings],
        regions: Mapping[str, Render],
        of_all: Mapping[str, Callable[[AllClusters, Query], RegionContent]],
    ) -> None:
        self._servers: dict[str, RegionServer[Any]] = {
            name: RegionServer(OneCollector(each, shared_for_s=REFRESH_S), regions) for name, each in settings.items()
        }
        if len(settings) > 1:
            self._servers[""] = RegionServer(AllCollectors(list(settings.values())), of_all)

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
