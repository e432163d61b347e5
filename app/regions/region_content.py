"""The content of a live region: what it shows at one moment, in blocks, of which only the changed ones are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import shown_cluster
from indoubt.app.components.markup import Html

RegionContent = dict[str, Html]
"""Markup by block, in the order in which it is shown; a block's name stays the same while its subject exists."""

Query = Mapping[str, str]
"""What one viewer's region shows: the filters in the page's address."""

Render = Callable[[CollectorClient, Query], RegionContent]
"""Renders a region from the collector's answers. It knows no session: every viewer with this query sees the same content.

Raises CollectorError. It runs in a thread of its own, one at a time.
"""


def kept_for(seconds: float, render: Render) -> Render:
    """Return a render that gives the same content for so long: for what changes with every event and is no news by then."""
    kept: dict[object, tuple[float, RegionContent]] = {}

    def rendered(client: CollectorClient, query: Query) -> RegionContent:
        asked, now_s = (client, shown_cluster.name(), frozenset(query.items())), time.monotonic()
        for old in [key for key, (until_s, _) in kept.items() if until_s <= now_s]:
            kept.pop(old, None)
        if asked not in kept:
            kept[asked] = now_s + seconds, render(client, query)
        return kept[asked][1]

    return rendered


def changes(before: RegionContent, now: RegionContent) -> dict[str, object]:
    """Return what a viewer of ``before`` must be sent to see ``now``: the changed ``blocks``, and the order if it changed."""
    message: dict[str, object] = {}
    if blocks := {name: html for name, html in now.items() if before.get(name) != html}:
        message["blocks"] = blocks
    if list(before) != list(now):
        message["order"] = list(now)
    return message
