"""What a region server follows: one collector, or all of them for the page over every cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, TypeVar

import httpx

from indoubt.app.client.all_clusters import AllClusters
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import unanswered
from indoubt.app.settings import Settings
from indoubt.lifecycle.clock import now_ms

SILENCE_LIMIT_S = 12.0
"""The collector sends an event each 5 s at least."""
LOOK_EVERY_S = 1.0
Client = TypeVar("Client", covariant=True)


class ChangeStreamLost(Exception):
    """The stream ended, could not be opened, or was silent for 12 s; the message says why."""


class Followed(Protocol[Client]):
    """What is followed. ``client`` answers what is rendered; the answers of one rendering are forgotten before the next."""

    @property
    def client(self) -> Client:
        """Return what is asked."""

    def forget(self) -> None:
        """Share no answer from before now."""

    def close(self) -> None:
        """Close the connections."""

    def now_ms(self) -> int:
        """Return the time by its clock. Raises CollectorError."""

    def changes(self) -> AsyncGenerator[bool]:
        """Yield True for each change and False for each sign of life, the first at once. Raises ChangeStreamLost."""


class OneCollector:
    """A collector; ``shared_for_s``: so long the regions of one rendering share its answers."""

    def __init__(self, settings: Settings, shared_for_s: float) -> None:
        self._settings = settings
        self.client = CollectorClient(settings, shared_for_s)

    def forget(self) -> None:
        """Share no answer from before now."""
        self.client.forget()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def now_ms(self) -> int:
        """Return the time by the collector's clock. Raises CollectorError."""
        return self.client.status().now_ms

    def changes(self) -> AsyncGenerator[bool]:
        """Return the collector's stream."""
        return change_stream(self._settings)


class AllCollectors:
    """The collectors of all clusters. One that does not answer is a part of the picture: this is never lost."""

    def __init__(self, of_clusters: Sequence[Settings]) -> None:
        self.client = AllClusters({each.cluster: CollectorClient(each) for each in of_clusters})

    def forget(self) -> None:
        """Have the next look ask anew."""
        self.client.forget()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def now_ms(self) -> int:
        """Return the time by the clock of this machine: there are as many clocks as collectors."""
        return now_ms()

    async def changes(self) -> AsyncGenerator[bool]:
        """Yield a change each second."""
        while True:
            yield True
            await asyncio.sleep(LOOK_EVERY_S)


async def change_stream(settings: Settings) -> AsyncGenerator[bool]:
    """Yield True for each change and False for each sign of life, the first at once. Raises ChangeStreamLost."""
    limits = httpx.Timeout(SILENCE_LIMIT_S, connect=2.0)
    try:
        # Proxies from the environment are left out: the token goes to the collector's address and nowhere else.
        async with httpx.AsyncClient(
            base_url=settings.collector_url, timeout=limits, trust_env=False, verify=settings.tls()
        ) as http:
            authorization = {"Authorization": f"Bearer {settings.token()}"}
            async with http.stream("GET", "/api/v1/changes", headers=authorization) as answer:
                if not answer.is_success:
                    raise ChangeStreamLost(f"The collector answered with HTTP {answer.status_code}")
                async for line in answer.aiter_lines():
                    if line.startswith("event:"):
                        yield line.removeprefix("event:").strip() == "changed"
    except httpx.TimeoutException as error:
        raise ChangeStreamLost("The collector does not answer in time") from error
    except (httpx.HTTPError, OSError, asyncio.IncompleteReadError) as error:
        raise ChangeStreamLost(unanswered(error)) from error
    raise ChangeStreamLost("The collector closed the connection")
