"""The addresses of the app's pages: what a notification of the collector links to, and the app's own links."""

from __future__ import annotations

from urllib.parse import urlencode


def transaction(key: str) -> str:
    """Return the path of a transaction's page."""
    return _path("transaction", key=key)


def batch(pipeline: str, number: int) -> str:
    """Return the path of the page of a pipeline's batch."""
    return _path("batch", pipeline=pipeline, number=str(number))


def pipeline(name: str) -> str:
    """Return the path of an application's page; ``name`` is what every list calls it."""
    return _path("pipeline", name=name)


def alert(key: str) -> str:
    """Return the path of an alert's page."""
    return _path("alert", key=key)


def partition(topic: str, number: int) -> str:
    """Return the path of a topic-partition's page."""
    return _path("partition", topic=topic, partition=str(number))


def search(**words: str) -> str:
    """Return the path of a search over all of history, of any time, by fields of it such as ``transaction`` or ``outcome``."""
    filters = {f"search-{name}": text for name, text in words.items() if text}
    return _path("history", show="search", **filters, **{"search-span": "all"})


ALERTS = "/alerts"
COLLECTOR = "/collector"
SEARCH = "/history?show=search"


def _path(page: str, **query: str) -> str:
    return f"/{page}?{urlencode(query)}"
