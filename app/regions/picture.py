"""A picture: what a live region shows at one moment, in blocks, of which only the changed ones are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from app.client.collector_client import CollectorClient
from app.components.markup import Html

Picture = dict[str, Html]
"""Markup by block, in the order in which it is shown; a block's name stays the same while its subject exists."""

Query = Mapping[str, str]
"""What one viewer's region shows: the filters in the page's address."""

Render = Callable[[CollectorClient, Query], Picture]
"""Renders a region from the collector's answers. It knows no session: every viewer with this query sees the same picture.

Raises CollectorError. It runs in a thread of its own, one at a time.
"""


def kept_for(seconds: float, render: Render) -> Render:
    """Return a render that gives the same picture for so long: for what changes with every event and is no news by then."""
    kept: dict[object, tuple[float, Picture]] = {}

    def rendered(client: CollectorClient, query: Query) -> Picture:
        asked, now_s = (client, frozenset(query.items())), time.monotonic()
        for old in [key for key, (until_s, _) in kept.items() if until_s <= now_s]:
            kept.pop(old, None)
        if asked not in kept:
            kept[asked] = now_s + seconds, render(client, query)
        return kept[asked][1]

    return rendered


def changes(before: Picture, now: Picture) -> dict[str, object]:
    """Return what a viewer of ``before`` must be sent to see ``now``: the changed blocks, and the order if it changed."""
    message: dict[str, object] = {}
    changed = {name: html for name, html in now.items() if before.get(name) != html}
    if changed:
        message["blocks"] = changed
    if list(before) != list(now):
        message["order"] = list(now)
    return message
