"""One GET over HTTP with bounds: of its time, and of its answer's size."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from indoubt.lifecycle.errors import ResourceManagerError, Unreachable

ANSWER_LIMIT_S = 5.0
MAX_ANSWER_BYTES = 16 << 20
HEADERS = {"Accept": "application/json", "User-Agent": "indoubt"}
LIMITS = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), ANSWER_LIMIT_S)}


def get(transport: httpx.BaseTransport, who: str, url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Return status and body. Raises Unreachable, ResourceManagerError; ``who`` is asked, as the errors say."""
    try:
        # The transport is asked, not a client: cookies, redirects and logs take as long again, and none is wanted.
        request = httpx.Request("GET", url, headers={**HEADERS, **headers}, extensions=LIMITS)
        answer = transport.handle_request(request)
        with contextlib.closing(answer):
            parts, size = [], 0
            for part in answer.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > MAX_ANSWER_BYTES:
                    raise ResourceManagerError(f"{who} answered more than {MAX_ANSWER_BYTES} bytes at {url}")
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        raise Unreachable(f"{who} did not answer within {ANSWER_LIMIT_S:g} s: {what}") from None
    return answer.status_code, b"".join(parts)


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), or None."""
    address = urlsplit(url)
    if proxy_bypass(address.netloc):
        return None
    known = getproxies()
    return known.get(address.scheme) or known.get("all")
