"""The requests to the collector: those of the pages, of every command, and the scrape of its metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import httpx

from indoubt.collector.serve.cli.listings import LISTINGS, Listing

API = "/api/v1/"
FILTERS = {"transaction": "{id}", "topic": "ip_count_sink", "pipeline": "word-count"}
ROWS = 100
"""The command line's default limit."""
ORDERING = (
    "/api/v1/batches?limit=100000&pipeline=word-count&batch=499",
    "/api/v1/hanging?limit=100000",
    "/api/v1/pipelines?pipeline=word-count",
    "/api/v1/orders?idempotency_key=never-given",
)
"""The command line's requests before an order, in addition to the transaction itself."""
PREVIEW = {"action": "abort", "filter": {"transaction_prefix": "payments-1"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request: GET ``path``, or POST if it has a body.

    ``key_of``: a table; ``{key}`` in the path stands for the key of its first row.
    """

    path: str
    body: Mapping[str, Any] | None = field(default=None, compare=False)
    key_of: str = ""

    @property
    def name(self) -> str:
        """Return its path without the common prefix."""
        of_which = f" (first of {self.key_of.removeprefix(API)})" if self.key_of else ""
        return unquote(self.path).removeprefix(API) + of_which

    def ask(self, client: httpx.Client) -> float:
        """Send it and return how long the whole answer took (ms). Raises httpx.HTTPError."""
        path = self.path
        if self.key_of:
            rows = client.get(self.key_of).raise_for_status().json()["rows"]
            path = path.replace("{key}", quote(rows[0]["key"], safe=""))
        asked = time.monotonic()
        client.request("GET" if self.body is None else "POST", path, json=self.body).raise_for_status()
        return 1000 * (time.monotonic() - asked)


PAGES = (
    Question(path="/api/v1/status"),
    Question(path="/api/v1/overview"),
    Question(path="/api/v1/transactions?limit=500"),
    Question(path="/api/v1/transactions?limit=200&all=true"),
    Question(path="/api/v1/transaction-counts"),
    Question(path="/api/v1/incidents?limit=500"),
    Question(path="/api/v1/transactions/{key}", key_of="/api/v1/transactions?verdict=foreign&limit=1"),
    Question(path="/api/v1/transactions/{key}", key_of="/api/v1/transactions?pipeline=word-count&limit=1"),
    Question(path="/api/v1/transactions/{key}", key_of="/api/v1/aborts?limit=1"),
    Question(path="/api/v1/transactions/{key}/events?limit=200", key_of="/api/v1/aborts?limit=1"),
    Question(path="/api/v1/transactions/{key}/earlier?limit=20", key_of="/api/v1/aborts?limit=1"),
    Question(path="/api/v1/orders/under-way?key={key}", key_of="/api/v1/transactions?verdict=foreign&limit=1"),
    Question(path="/api/v1/partitions/word_count_sink/0"),
    Question(path="/api/v1/search?limit=20"),
    Question(path="/api/v1/series?window_ms=3600000&limit=8"),
    Question(path="/api/v1/series/groups?window_ms=3600000&limit=100"),
    Question(path="/api/v1/trends?limit=20"),
    Question(path="/api/v1/series/partitions/word_count_sink/0?window_ms=3600000"),
    Question(path="/api/v1/groups?limit=100"),
    Question(path="/api/v1/aborts/counts"),
    Question(path="/api/v1/checkpoints/gaps"),
    Question(path="/api/v1/checkpoints/durations"),
    Question(path="/api/v1/hanging"),
    Question(path="/api/v1/blocked"),
    Question(path="/api/v1/blocked?all=true"),
    Question(path="/api/v1/pipelines"),
    Question(path="/api/v1/timeouts"),
    Question(path="/api/v1/jobs"),
    Question(path="/api/v1/ids"),
    Question(path="/api/v1/quarantined?limit=500"),
    Question(path="/api/v1/aborts?limit=500"),
    Question(path="/api/v1/losses?limit=200"),
    Question(path="/api/v1/batches?limit=500&over=false"),
    Question(path="/api/v1/batches?limit=20&over=true"),
    Question(path="/api/v1/checkpoints?limit=500"),
    Question(path="/api/v1/alerts?limit=500&over=false"),
    Question(path="/api/v1/alerts?limit=20&over=true"),
    Question(path="/api/v1/alerts?limit=500"),
    Question(path="/api/v1/silences"),
    Question(path="/api/v1/receivers"),
    Question(path="/api/v1/standing-orders"),
    Question(path="/api/v1/orders/runs?mine=true"),
    Question(path="/api/v1/audit?limit=500"),
)
"""Every look of app/client/collector_client.py and order_client.py."""


def of_command_line(transactional_id: str) -> list[Question]:
    """Return the requests of the commands, each listing with and without filters, and that of Prometheus."""
    paths = [path for listing in LISTINGS for path in _of_listing(listing)]
    questions = [Question(path=path.replace("{id}", quote(transactional_id, safe=""))) for path in (*paths, *ORDERING)]
    return [*questions, Question(path="/api/v1/orders/preview", body=PREVIEW), Question(path="/metrics")]


def _of_listing(listing: Listing) -> list[str]:
    plain = f"{listing.path}?limit={ROWS}"
    filtered = [f"{plain}&{name}={value}" for name, value in FILTERS.items() if name in listing.filters]
    return [plain, *filtered, *([f"{plain}&all=true"] if "all" in listing.filters else [])]
