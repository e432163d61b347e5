"""A picture: what a live region shows at one moment, in blocks, of which only the changed ones are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

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


EDIT_COSTS = 12
"""About so many characters does an edit take beside its text."""


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
    """Return what a viewer of ``before`` must be sent to see ``now``: the changed blocks, and the order if it changed.

    ``blocks``: those that are new, whole. ``edits``: of the others what ``edits`` says, where that is shorter.
    """
    message: dict[str, object] = {}
    whole, edited = {}, {}
    for name, html in now.items():
        if before.get(name) == html:
            continue
        found = edits(before.get(name, ""), html)
        if sum(len(text) + EDIT_COSTS for _, _, text in found) < len(html):
            edited[name] = found
        else:
            whole[name] = html
    if whole:
        message["blocks"] = whole
    if edited:
        message["edits"] = edited
    if list(before) != list(now):
        message["order"] = list(now)
    return message


def edits(before: str, now: str) -> list[tuple[int, int, str]]:
    """Return what turns one markup into the other, both cut at each ``<``: (first piece, how many, what replaces them).

    Places are those of ``before``, so the edits are carried out from the last to the first.
    """
    old, new = before.split("<"), now.split("<")
    if len(old) != len(new):
        return [_edit(old, new)]
    differing = [place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    found: list[tuple[int, int, str]] = []
    for place in reversed(differing):
        if found and found[-1][0] == place + 1:
            _, number, text = found.pop()
            found.append((place, number + 1, f"{new[place]}<{text}"))
        else:
            found.append((place, 1, new[place]))
    return found[::-1]


def _edit(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, str]:
    """Return the one edit between what both begin with and what both end with; at least one piece is replaced."""
    most = min(len(old), len(new)) - 1
    first = next((place for place in range(most) if old[place] != new[place]), most)
    last = next((place for place in range(most - first) if old[-1 - place] != new[-1 - place]), most - first)
    return first, len(old) - first - last, "<".join(new[first : len(new) - last])
