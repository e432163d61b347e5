"""Every live region by its name, and the one above every page; a page shows one with app.dialogs.button_clicks.show_region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from indoubt.app.client.all_clusters import AllClusters
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import shown_cluster
from indoubt.app.components.bar import switch
from indoubt.app.components.incident_card import first_deadline_ms
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.regions.region_content import Query, RegionContent, Render, kept_for
from indoubt.app.screens import (
    alerts,
    batches,
    checkpoints,
    collector_status,
    groups,
    ids,
    new_rows,
    over_time,
    overview,
    pending,
    pipelines,
    readers,
    timeouts,
    trends,
)
from indoubt.app.screens import clusters as all_clusters
from indoubt.app.screens.objects import alert, batch, partition, pipeline, transaction
from indoubt.lifecycle.rows.overview import Overview
from indoubt.lifecycle.rows.status import Status


def _topline(clusters: Sequence[str], client: CollectorClient, query: Query) -> RegionContent:
    """Return whether the page is live, which cluster, what is wrong with the sources; and what the tab's title says."""
    return {"line": _line(client.status(), clusters), "tab": _tab(client.overview(overview.MAX_CARDS))}


def _line(status: Status, clusters: Sequence[str]) -> Html:
    down = sum(observer.state == "down" for observer in status.observers)
    servers = status.bootstrap.split(",")
    others = f" +{len(servers) - 1}" if len(servers) > 1 else ""
    title = f"cluster {status.cluster or '?'} at {status.bootstrap}"
    return el(
        "div",
        link("/collector", el("span", "live", class_="refreshed", data_live="", role="status")),
        down > 0 and _trouble("✖", down, "source down" if down == 1 else "sources down", "warning"),
        status.history.error and _trouble("✖", "", "history not written: no orders", "urgent"),
        status.quarantined > 0 and _trouble("?", status.quarantined, "quarantined", "notice"),
        switch(clusters, shown_cluster.name(), title)
        if len(clusters) > 1
        else el("span", status.cluster_name or f"{servers[0]}{others}", class_="cluster", title=title),
        class_="topline",
    )


def _trouble(sign: str, count: object, what: str, tone: str) -> Html:
    """Return a link to what the collector's page says; on a phone its words are left out."""
    return link("/collector", sign, " ", count, el("span", f" {what}"), class_=f"badge {tone}")


def _tab(now: Overview) -> Html:
    return el(
        "div",
        el("span", data_nav_path="alerts", data_nav_count=now.alerting or ""),
        hidden="",
        data_tab_count=now.to_act,
        data_tab_until=first_deadline_ms(now.incidents) or "",
    )


def of_cluster(clusters: Sequence[str]) -> Mapping[str, Render]:
    """Return the regions of one cluster's pages; ``clusters``: the names of all."""
    return {**REGIONS, "frame": partial(_topline, clusters)}


OF_ALL: Mapping[str, Callable[[AllClusters, Query], RegionContent]] = {
    "frame": all_clusters.render_frame,
    "clusters": all_clusters.render,
}
REGIONS: Mapping[str, Render] = {
    "frame": partial(_topline, ()),
    "overview": overview.render,
    "over-time": kept_for(over_time.KEPT_S, over_time.render),
    "pending": pending.render,
    "readers": readers.render,
    "groups": kept_for(groups.KEPT_S, groups.render),
    "pipelines": pipelines.render,
    "alerts": alerts.render,
    "batches": batches.render,
    "checkpoints": checkpoints.render,
    "checkpoints-answer": checkpoints.render_answer,
    "ids": ids.render,
    "timeouts": timeouts.render,
    "trends": trends.render,
    "collector": collector_status.render,
    "news": new_rows.render,
    "transaction": transaction.render,
    "batch": batch.render,
    "pipeline": pipeline.render,
    "alert": alert.render,
    "partition": partition.render,
}
