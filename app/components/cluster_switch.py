"""The switch between clusters, in the bar where the address of one stands where there is no other."""

from __future__ import annotations

from collections.abc import Sequence

from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.lifecycle import page_paths

ALL = "All clusters"


def switch(names: Sequence[str], shown: str, title: str = "") -> Html:
    """Return a menu of all clusters; ``shown``: the one of this page, empty on that over all."""
    places = [(ALL, page_paths.CLUSTERS), *((name, page_paths.within(page_paths.OVERVIEW, name)) for name in names)]
    items = [el("li", link(path, name, is_current=name == (shown or ALL))) for name, path in places]
    return el(
        "details",
        el("summary", el("b", shown or ALL), title=title or "Clusters", aria_label=f"Cluster: {shown or ALL}"),
        el("div", el("ul", *items), class_="menu-body"),
        class_="menu switch",
    )
