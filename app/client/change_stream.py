"""The collector's server-sent events: something changed (docs/api.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx

from app.settings import Settings

SILENCE_LIMIT_S = 12.0
"""The collector sends an event each 5 s at least."""


class ChangeStreamLost(Exception):
    """The stream ended, could not be opened, or was silent for 12 s; the message says why."""


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
                    raise ChangeStreamLost(f"it answered with HTTP {answer.status_code}")
                async for line in answer.aiter_lines():
                    if line.startswith("event:"):
                        yield line.removeprefix("event:").strip() == "changed"
    except httpx.TimeoutException as error:
        raise ChangeStreamLost("no answer in time") from error
    except (httpx.HTTPError, OSError, asyncio.IncompleteReadError) as error:
        raise ChangeStreamLost(str(error) or type(error).__name__) from error
    raise ChangeStreamLost("it closed the connection")
