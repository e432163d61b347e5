"""The addresses of the app's pages: what a notification of the collector links to, and the app's own links."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode, urlsplit

CLUSTER = "cluster"
"""The name of the cluster in an address; without one, there is one collector alone."""
CLUSTER_COLUMN = "cluster_name"
"""What a row says of its cluster, where that has a name."""
CLUSTER_HEADER = "X-Indoubt-Cluster"
"""Whose request a collector refuses if it is another cluster's."""


def transaction(key: str) -> str:
    """Return the path of a transaction's page."""
    return _path("transaction", key=key)


def transactions(*, words: str = "", verdict: str = "") -> str:
    """Return the path of the list of transactions that need attention, of those alone with these words or this verdict."""
    query = {"filter-words": words, "verdict": verdict}
    return _path("transactions", **{name: text for name, text in query.items() if text})


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


CLUSTERS = "/"
OVERVIEW = "/overview"
ALERTS = "/alerts"
COLLECTOR = "/collector"
SEARCH = "/history?show=search"


def within(path: str, cluster: str) -> str:
    """Return a path on the pages of this cluster; as it is where it names one, or is that of all clusters."""
    if not cluster or path == CLUSTERS or CLUSTER in parse_qs(urlsplit(path).query):
        return path
    return f"{path}{'' if path.endswith('?') else '&' if '?' in path else '?'}{urlencode({CLUSTER: cluster})}"


def _path(page: str, **query: str) -> str:
    return f"/{page}?{urlencode(query)}"
