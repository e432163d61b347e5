"""The addresses of the app's pages: what a notification of the collector links to, and the app's own links."""

from __future__ import annotations

from urllib.parse import urlencode

ALERTS = "/alerts"
COLLECTOR = "/collector"
READERS = "/blocked-readers"


def transaction(key: str) -> str:
    """Return where a transaction's evidence is shown."""
    return _path("pending-commits", open=key)


def batches(pipeline: str) -> str:
    """Return where the batches of a pipeline are shown."""
    return _path("batches", **{"batch-pipeline": pipeline})


def pipelines() -> str:
    """Return where the pipelines are shown."""
    return "/pipelines"


def application(name: str) -> str:
    """Return where an application's open transactions are shown; ``name`` is what every list calls it."""
    return _path("pending-commits", **{"filter-words": name})


def _path(page: str, **query: str) -> str:
    return f"/{page}?{urlencode(query)}"
