"""Every live region by its name, and the one above every page; a page shows one with app.dialogs.button_clicks.show_region."""

from __future__ import annotations

from collections.abc import Mapping

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.regions.region_content import Query, RegionContent, Render, kept_for
from indoubt.app.screens import (
    alerts,
    batches,
    collector_status,
    new_rows,
    over_time,
    overview,
    pending,
    pipelines,
    readers,
    timeouts,
)
from indoubt.app.screens.objects import alert, batch, partition, pipeline, transaction
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.overview import Overview
from indoubt.lifecycle.rows.status import Status


def _topline(client: CollectorClient, query: Query) -> RegionContent:
    """Return whether the page is live, which cluster, what is wrong with the sources; and what the tab's title says."""
    return {"line": _line(client.status()), "tab": _tab(client.overview(overview.MAX_CARDS))}


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


def _tab(now: Overview) -> Html:
    deadlines = [item.deadline_ms for item in now.attention if item.deadline_ms is not None]
    return el(
        "div",
        el("span", data_nav_path="alerts", data_nav_count=now.alerts_firing or ""),
        hidden="",
        data_tab_count=now.attention_total,
        data_tab_until=min(deadlines, default=""),
    )


REGIONS: Mapping[str, Render] = {
    "frame": _topline,
    "overview": overview.render,
    "over-time": kept_for(over_time.KEPT_S, over_time.render),
    "pending": pending.render,
    "readers": readers.render,
    "pipelines": pipelines.render,
    "alerts": alerts.render,
    "batches": batches.render,
    "timeouts": timeouts.render,
    "collector": collector_status.render,
    "news": new_rows.render,
    "transaction": transaction.render,
    "batch": batch.render,
    "pipeline": pipeline.render,
    "alert": alert.render,
    "partition": partition.render,
}
