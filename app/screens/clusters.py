"""All clusters: what needs attention anywhere, by deadline, then how each cluster is. Orders are given on the pages of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

import streamlit as st

from indoubt.app import live
from indoubt.app.client.all_clusters import MOST_INCIDENTS, AllClusters, Look
from indoubt.app.components import shown_cluster
from indoubt.app.components.bar import switch
from indoubt.app.components.incident_card import first_deadline_ms, incident_card, need_you
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.paging import address_beside
from indoubt.app.components.time_text import at, since
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.incidents import Incident, place


def show() -> None:
    """Write the page."""
    with st.container(key="clusters"):
        show_region("clusters")


def ask_which() -> None:
    """Write a link to the same address on each cluster: the address names none, or one that is not there."""
    address = f"?{urlencode(address_beside(page_paths.CLUSTER))}"
    links = [
        el("li", el("a", name, href=page_paths.within(address, name), target="_self")) for name in live.collectors()
    ]
    live.write(el("div", el("p", el("b", "Which cluster?")), el("ul", *links), class_="empty"))


def render_frame(clusters: AllClusters, query: Query) -> RegionContent:
    """Return the bar's part: whether the page is live, the switch, and what the tab's title says."""
    looks = clusters.look()
    return {
        "line": el(
            "div",
            el("span", "live", class_="refreshed", data_live="", role="status"),
            switch(list(looks), ""),
            class_="topline",
        ),
        "tab": _tab(looks),
    }


def render(clusters: AllClusters, query: Query) -> RegionContent:
    """Return what needs a person in any cluster, the incidents with their clusters, and a line for each cluster."""
    looks = clusters.look()
    content: RegionContent = {"headline": _headline(looks)}
    for name, look in looks.items():
        if look.lost:
            content[f"lost-{name}"] = _lost(name, look)
    for name, one in _by_urgency(looks):
        with shown_cluster.rendering(name):
            content[f"incident-{name}-{widget_token(one.key)}"] = incident_card(one, cluster=name)
    content |= {f"cluster-{name}": _line(name, look) for name, look in looks.items() if not look.lost}
    return content


def _by_urgency(looks: Mapping[str, Look]) -> list[tuple[str, Incident]]:
    """Return the incidents of all, in the order in which each collector has its own."""
    found = [(name, one) for name, look in looks.items() if look.overview for one in look.overview.incidents]
    return sorted(found, key=lambda named: place(named[1]))[:MOST_INCIDENTS]


def _headline(looks: Mapping[str, Look]) -> Html:
    needing = {name: look.overview.to_act for name, look in looks.items() if look.overview and look.overview.to_act}
    lost = sum(1 for look in looks.values() if look.lost)
    if not needing:
        if lost:
            text = f"{counted(lost, 'cluster')} of {len(looks)} {'does' if lost == 1 else 'do'} not answer"
            return el("h2", el("span", "✖ ", aria_hidden="true"), text, class_="headline")
        text = f"Nothing needs you in {counted(len(looks), 'cluster')}"
        if all(look.overview is not None and look.overview.all_well_since_ms is not None for look in looks.values()):
            return el("div", el("b", f"✔ {text}."), class_="quiet", role="status")
        # A driver may be silent, or a source down: the clusters' lines say which.
        return el("div", el("b", f"△ {text} now, but not all is well."), class_="awaited", role="status")
    where = next(iter(needing)) if len(needing) == 1 else counted(len(needing), "cluster")
    return need_you(sum(needing.values()), _first_deadline_ms(looks), f" in {where}")


def _first_deadline_ms(looks: Mapping[str, Look]) -> int | None:
    return first_deadline_ms(one for _, one in _by_urgency(looks))


def _lost(name: str, look: Look) -> Html:
    said = f": {look.lost}. Nothing here says how it is; its deadlines run on. "
    opened = link(page_paths.within(page_paths.OVERVIEW, name), "Open")
    when = [at(look.since_ms), " (", since(look.since_ms), ")"]
    return el("p", el("b", f"✖ {name} does not answer since "), *when, said, opened, class_="warn", role="alert")


def _line(name: str, look: Look) -> Html:
    """Return how a cluster is, in one line."""
    return el(
        "p",
        el("b", link(page_paths.within(page_paths.OVERVIEW, name), name)),
        ": ",
        *[piece for part in _said_of(look) for piece in (part, " · ")][:-1],
        class_="goes-on of-cluster",
    )


def _said_of(look: Look) -> Iterator[object]:
    overview, status = look.overview, look.status
    if overview is None or status is None:
        return
    if overview.all_well_since_ms is not None:
        yield el("span", "✔ all well since ", at(overview.all_well_since_ms))
    elif overview.incidents_total:
        yield el("span", f"{overview.to_act} of {counted(overview.incidents_total, 'incident')} to act on")
    else:
        yield "△ nothing in doubt"
    yield f"{sum(row.transactions for row in overview.in_progress):,} in progress"
    yield f"{counted(overview.pipelines_alive, 'pipeline')} alive"
    down = [f"{row.name} down" for row in status.observers if row.state == "down"]
    yield f"{overview.observers_up} of {counted(overview.observers, 'source')} up" + (
        f" ({', '.join(down)})" if down else ""
    )
    if status.history.error:
        yield "history not written: no orders"


def _tab(looks: Mapping[str, Look]) -> Html:
    to_act = sum(look.overview.to_act for look in looks.values() if look.overview)
    return el("div", hidden="", data_tab_count=to_act, data_tab_until=_first_deadline_ms(looks) or "")
