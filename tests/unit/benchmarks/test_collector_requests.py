"""The benchmark of answers asks for everything that pages and command line ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks import collector_requests
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_errors import CollectorError, Failure
from indoubt.app.client.order_client import OrderClient
from indoubt.app.screens import aborts, alerts, batches, checkpoints, groups, losses, over_time, pending, search, trends
from indoubt.app.screens.objects import records
from indoubt.app.settings import Settings
from indoubt.collector.serve.cli.listings import LISTINGS
from indoubt.lifecycle.durations import HOUR_MS

KEY = "kafka:ip-count-0-1:7:3@1795000000000"
REQUESTS: dict[str, list[Callable[[CollectorClient], Any]]] = {
    "status": [lambda client: client.status()],
    "now_ms": [lambda client: client.now_ms()],
    "overview": [lambda client: client.overview()],
    "transactions": [
        lambda client: client.transactions(limit=pending.MAX_TRANSACTIONS),
        lambda client: client.transactions(settled_too=True, limit=pending.MAX_WITH_SETTLED),
    ],
    "incidents": [lambda client: client.incidents()],
    "parts": [lambda client: client.parts()],
    "transaction_counts": [lambda client: client.transaction_counts()],
    "transaction": [lambda client: client.transaction(KEY)],
    "events": [lambda client: client.events(KEY, limit=records.EVENTS_SHOWN)],
    "earlier": [lambda client: client.earlier(KEY)],
    "under_way": [lambda client: client.under_way([KEY])],
    "partition": [lambda client: client.partition("word_count_sink", 0)],
    "search": [lambda client: client.search(limit=search.ROWS_A_PAGE)],
    "series": [lambda client: client.series(window_ms=HOUR_MS, limit=over_time.MOST_APPLICATIONS)],
    "trends": [lambda client: client.trends(limit=trends.MOST_APPLICATIONS)],
    "series_of_groups": [lambda client: client.series_of_groups(window_ms=HOUR_MS, limit=groups.MOST_GROUPS)],
    "series_of_partition": [lambda client: client.series_of_partition("word_count_sink", 0, window_ms=HOUR_MS)],
    "groups": [lambda client: client.groups(limit=groups.MOST_GROUPS)],
    "abort_counts": [lambda client: client.abort_counts()],
    "checkpoint_durations": [lambda client: client.checkpoint_durations()],
    "checkpoint_gaps": [lambda client: client.checkpoint_gaps()],
    "hanging": [lambda client: client.hanging()],
    "blocked": [lambda client: client.blocked(), lambda client: client.blocked(lagging_too=True)],
    "pipelines": [lambda client: client.pipelines()],
    "timeouts": [lambda client: client.timeouts()],
    "jobs": [lambda client: client.jobs()],
    "ids": [lambda client: client.ids()],
    "quarantined": [lambda client: client.quarantined()],
    "aborts": [lambda client: client.aborts(limit=aborts.MAX_ROWS)],
    "losses": [lambda client: client.losses(limit=losses.MAX_ROWS)],
    "batches": [
        lambda client: client.batches(over=False),
        lambda client: client.batches(over=True, limit=batches.ROWS_A_PAGE),
    ],
    "checkpoints": [lambda client: client.checkpoints(limit=checkpoints.MAX_ROWS)],
    "alerts": [
        lambda client: client.alerts(over=False),
        lambda client: client.alerts(over=True, limit=alerts.ROWS_A_PAGE),
        lambda client: client.alerts(),
    ],
    "silences": [lambda client: client.silences()],
    "receivers": [lambda client: client.receivers()],
    "standing_orders": [lambda client: client.standing_orders()],
    "runs": [lambda client: client.runs()],
    "audit": [lambda client: client.audit()],
}
"""How pages call each method of the app's client that looks."""


def asked_for(request: Callable[[CollectorClient], Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a method of the app's client asks the collector for."""
    found: list[str] = []

    def ask(_: CollectorClient, method: str, path: str, **request: Any) -> Any:
        given = [
            (name, quote(each, safe="") if isinstance(value, tuple) else each)
            for name, value in request.get("params", {}).items()
            for each in (value if isinstance(value, tuple) else (value,))
        ]
        parameters = "&".join(f"{name}={each}" for name, each in given)
        found.append(f"{path}?{parameters}" if parameters else path)
        raise CollectorError(Failure.UNREACHABLE, "nobody is asked here")

    monkeypatch.setattr(CollectorClient, "_ask", ask)
    client = CollectorClient(
        Settings.from_environment({"INDOUBT_COLLECTOR_URL": "http://127.0.0.1:1", "INDOUBT_TOKEN": "t"})
    )
    with pytest.raises(CollectorError):
        request(client)
    client.close()
    return found[0]


def test_every_request_of_the_pages_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = {name for part in (CollectorClient, OrderClient) for name in vars(part) if not name.startswith("_")}
    others = {"check", "begin_run", "begin_filter_run", "run", "stop_run", "preview", "answer"}
    # The history that is asked has no Flink job.
    others |= {"silence", "end_silence", "switch_standing_orders", "restores"}
    assert methods - others == set(REQUESTS)
    asked = {asked_for(request, monkeypatch) for requests in REQUESTS.values() for request in requests}
    assert asked == {question.path.replace("{key}", quote(KEY, safe="")) for question in collector_requests.PAGES}


def test_every_listing_of_the_command_line_is_asked() -> None:
    asked = {question.path.partition("?")[0] for question in collector_requests.of_command_line("orders-7-17")}
    assert {listing.path for listing in LISTINGS} <= asked
    assert {"/api/v1/orders", "/api/v1/orders/preview", "/metrics"} <= asked
