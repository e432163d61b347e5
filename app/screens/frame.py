"""The line above every page: whether it is live, which cluster, what is wrong with the sources; and what the tab's title says."""

from __future__ import annotations

from app.client.collector_client import CollectorClient
from app.components.markup import Html, el
from app.components.presses import link
from app.regions.picture import Picture, Query
from app.screens.overview import MAX_CARDS
from lifecycle.counted_nouns import counted
from lifecycle.rows.overview import Overview
from lifecycle.rows.status import Status


def render(client: CollectorClient, query: Query) -> Picture:
    """Return the line, and the facts for the tab and the navigation."""
    overview, status = client.overview(MAX_CARDS), client.status()
    return {"line": _line(status), "tab": _tab(overview)}


def _line(status: Status) -> Html:
    down = [observer for observer in status.observers if observer.state == "down"]
    return el(
        "div",
        link("/collector", el("span", "live", class_="refreshed", data_live="", role="status")),
        el("span", "cluster ", el("b", status.cluster or "?"), f" at {status.bootstrap}"),
        down and link("/collector", f"✖ {counted(len(down), 'observer')} down", class_="badge warning"),
        status.history.error
        and link("/collector", "✖ history cannot be written; orders are refused", class_="badge urgent"),
        status.quarantined > 0
        and link("/collector", f"{counted(status.quarantined, 'malformed record')} quarantined", class_="badge notice"),
        class_="topline",
    )


def _tab(overview: Overview) -> Html:
    deadlines = [item.deadline_ms for item in overview.attention if item.deadline_ms is not None]
    return el(
        "div",
        el("span", data_nav_path="alerts", data_nav_count=overview.alerts_firing or ""),
        hidden="",
        data_tab_count=overview.attention_total,
        data_tab_until=min(deadlines, default=""),
    )
