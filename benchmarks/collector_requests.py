"""What is asked of the collector, and by whom: every look that a page takes, every command, and the scrape of its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import httpx

from collector.command_line.listings import LISTINGS, Listing

PAGES = (
    "/api/v1/status",
    "/api/v1/overview",
    "/api/v1/transactions?limit=500",
    "/api/v1/transactions?limit=500&all=true",
    "/api/v1/transactions/{key}",
    "/api/v1/aborts?limit=1000",
    "/api/v1/checkpoints?limit=500",
    "/api/v1/audit",
)
"""Every look that app/collector_client.py takes; ``{key}`` stands for a transaction's."""
FILTERS = {"transaction": "{id}", "topic": "ip_count_sink", "pipeline": "word-count"}
ROWS = 100
"""What the command line asks for unless it is told otherwise."""
ORDERING = (
    "/api/v1/batches?limit=100000&pipeline=word-count&batch=499",
    "/api/v1/hanging?limit=100000",
    "/api/v1/pipelines?pipeline=word-count",
    "/api/v1/orders?idempotency_key=never-given",
)
"""What the command line looks at before it gives an order, besides the transaction itself."""
PREVIEW = {"action": "abort", "filter": {"transaction_prefix": "payments-1"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request: GET ``path``, or POST where it has a body."""

    path: str
    body: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Return what it asks for, without what all of them begin with."""
        return unquote(self.path).removeprefix("/api/v1/")

    def ask(self, client: httpx.Client) -> None:
        """Ask it and read the whole answer. Raises httpx.HTTPError."""
        method = "GET" if self.body is None else "POST"
        client.request(method, self.path, json=self.body).raise_for_status()


def of_pages(keys: Sequence[str]) -> list[Question]:
    """Return what pages ask; ``keys``: of the transactions that are looked at."""
    found = [path.replace("{key}", quote(key, safe="")) for path in PAGES for key in keys]
    return [Question(path=path) for path in dict.fromkeys(found)]


def of_command_line(transactional_id: str) -> list[Question]:
    """Return what commands ask, each listing with and without the filters that mean other rows, and what Prometheus asks."""
    paths = [path for listing in LISTINGS for path in _of_listing(listing)]
    found = [Question(path=path.replace("{id}", quote(transactional_id, safe=""))) for path in (*paths, *ORDERING)]
    return [*found, Question(path="/api/v1/orders/preview", body=PREVIEW), Question(path="/metrics")]


def _of_listing(listing: Listing) -> list[str]:
    plain = f"{listing.path}?limit={ROWS}"
    filtered = [f"{plain}&{name}={value}" for name, value in FILTERS.items() if name in listing.filters]
    return [plain, *filtered, *([f"{plain}&all=true"] if "all" in listing.filters else [])]
