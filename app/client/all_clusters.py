"""A look at all clusters at once: one that is slow or does not answer holds up none of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import NOT_IN_TIME, CollectorError
from indoubt.lifecycle.clock import now_ms
from indoubt.lifecycle.rows.overview import Overview
from indoubt.lifecycle.rows.status import Status

WAITED_FOR_S = 1.0
MOST_INCIDENTS = 30
"""So many incidents are asked of each cluster: the most urgent."""
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one cluster answered. While it does not: ``lost`` says why, and ``since_ms`` since when (epoch ms)."""

    overview: Overview | None = None
    status: Status | None = None
    lost: str = ""
    since_ms: int = 0


class AllClusters:
    """Asks the collectors of all clusters, by their names, each in a thread of its own; for one caller at a time."""

    def __init__(self, clients: Mapping[str, CollectorClient]) -> None:
        self._clients = clients
        self._threads = ThreadPoolExecutor(len(clients), thread_name_prefix="all clusters")
        self._asked: dict[str, Future[Look]] = {}
        self._looks: dict[str, Look] = {}
        self._is_fresh = False

    def close(self) -> None:
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def forget(self) -> None:
        """Have the next look ask anew."""
        self._is_fresh = False

    def now_ms(self) -> int:
        """Return the time by the clock of this machine: there are as many clocks as collectors."""
        return now_ms()

    async def changes(self) -> AsyncGenerator[bool]:
        """Yield a change each second: a cluster that does not answer is a part of the picture, and this is never lost."""
        while True:
            yield True
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> Mapping[str, Look]:
        """Return what each cluster answers within a second; one that does not is asked no second time before it has."""
        if self._is_fresh:
            return dict(self._looks)
        for name, client in self._clients.items():
            if name not in self._asked:
                self._asked[name] = self._threads.submit(_look, client)
        wait(self._asked.values(), WAITED_FOR_S)
        for name in self._clients:
            is_there = self._asked[name].done()
            look = self._asked.pop(name).result() if is_there else Look(lost=NOT_IN_TIME, since_ms=now_ms())
            before = self._looks.get(name)
            if look.lost and before is not None and before.lost:
                look = Look(lost=look.lost, since_ms=before.since_ms)
            self._looks[name] = look
        self._is_fresh = True
        return dict(self._looks)


def _look(client: CollectorClient) -> Look:
    try:
        return Look(overview=client.overview(MOST_INCIDENTS), status=client.status())
    except CollectorError as error:
        return Look(lost=str(error), since_ms=now_ms())
