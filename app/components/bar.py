"""The bar above every page: the switch between clusters, the search, the zone of its times, and who looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from indoubt.app.components import shown_cluster, viewer_choices
from indoubt.app.components.links_and_buttons import ChooseZone, click_text, link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.paging import address_beside
from indoubt.lifecycle import page_paths

SEARCH = el(
    "button",
    el("span", "Search"),
    el("kbd", "/"),
    type="button",
    class_="find",
    data_find="",
    aria_label="Search everything",
    aria_keyshortcuts="/ Control+K",
)
"""static/keys.js answers a press of it with static/palette.js."""
ALL = "All clusters"


def menu(zones: Sequence[str], shown: str, who: str, rights: Html | None) -> Html:
    """Return the menu of what holds for this viewer; ``shown``: the zone of times, ``who``: a name, ``rights``: what it may."""
    return el(
        "details",
        el(
            "summary",
            el("span", shown, class_="zone"),
            who and el("b", who, class_="who"),
            title="Time zone, and who this is",
        ),
        el(
            "div",
            el("small", "Times in"),
            el("ul", *[el("li", _zone(zone, is_shown=zone == shown)) for zone in zones]),
            rights,
            class_="menu-body",
        ),
        class_="menu",
    )


def _zone(name: str, *, is_shown: bool) -> Html:
    zone = viewer_choices.ZONE.name
    return el(
        "a",
        name,
        href=shown_cluster.within(f"?{urlencode([*address_beside(zone), (zone, name)])}"),
        target="_self",
        aria_current="true" if is_shown else None,
        data_click=click_text(ChooseZone(name=name)),
    )


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
