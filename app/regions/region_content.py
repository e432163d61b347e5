"""The content of a live region: what it shows at one moment, in blocks, of which only the changed ones are sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.markup import Html

RegionContent = dict[str, Html]
"""Markup by block, in the order in which it is shown; a block's name stays the same while its subject exists."""

Query = Mapping[str, str]
"""What one viewer's region shows: the filters in the page's address."""

Render = Callable[[CollectorClient, Query], RegionContent]
"""Renders a region from the collector's answers. It knows no session: every viewer with this query sees the same content.

Raises CollectorError. It runs in a thread of its own, one at a time.
"""


Edit = tuple[int, int, str]
"""The first piece that is replaced, how many are, and by what."""
EDIT_COSTS = 12
"""About so many characters does an edit take beside its text."""
MATCHED_ABOVE = 600
"""From so many characters on, pieces that only moved are looked for."""
MOST_MATCHED = 1_000
"""Among so many pieces: the search takes longer with the square of them."""


def kept_for(seconds: float, render: Render) -> Render:
    """Return a render that gives the same content for so long: for what changes with every event and is no news by then."""
    kept: dict[object, tuple[float, RegionContent]] = {}

    def rendered(client: CollectorClient, query: Query) -> RegionContent:
        asked, now_s = (client, frozenset(query.items())), time.monotonic()
        for old in [key for key, (until_s, _) in kept.items() if until_s <= now_s]:
            kept.pop(old, None)
        if asked not in kept:
            kept[asked] = now_s + seconds, render(client, query)
        return kept[asked][1]

    return rendered


def changes(before: RegionContent, now: RegionContent) -> dict[str, object]:
    """Return what a viewer of ``before`` must be sent to see ``now``: the changed blocks, and the order if it changed.

    ``blocks``: those that are new, whole. ``edits``: of the others what ``edits`` says, where that is shorter.
    """
    message: dict[str, object] = {}
    whole, edited = {}, {}
    for name, html in now.items():
        if before.get(name) == html:
            continue
        found = edits(before.get(name, ""), html)
        if _cost(found) < len(html):
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


def edits(before: str, now: str) -> list[Edit]:
    """Return what turns one markup into the other, both cut at each ``<``: (first piece, how many, what replaces them).

    Places are those of ``before``, so the edits are carried out from the last to the first. Each replaces one piece at least.
    """
    old, new = before.split("<"), now.split("<")
    found = _where_they_stand(old, new) if len(old) == len(new) else [_edit(old, new)]
    if _cost(found) <= MATCHED_ABOVE:
        return found
    return min(found, _matched(old, new), key=_cost)


def _cost(found: Sequence[Edit]) -> int:
    return sum(len(text) + EDIT_COSTS for _, _, text in found)


def _where_they_stand(old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Return the edits of pieces that differ from the one in the same place."""
    differing = [place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    found: list[Edit] = []
    for place in reversed(differing):
        if found and found[-1][0] == place + 1:
            _, number, text = found.pop()
            found.append((place, number + 1, f"{new[place]}<{text}"))
        else:
            found.append((place, 1, new[place]))
    return found[::-1]


def _edit(old: Sequence[str], new: Sequence[str]) -> Edit:
    """Return the one edit between what both begin with and what both end with."""
    first, last = _same_ends(old, new)
    return first, len(old) - first - last, "<".join(new[first : len(new) - last])


def _same_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many pieces both begin with, and how many of the others they end with; one piece at least is left."""
    most = min(len(old), len(new)) - 1
    first = next((place for place in range(most) if old[place] != new[place]), most)
    last = next((place for place in range(most - first) if old[-1 - place] != new[-1 - place]), most - first)
    return first, last


def _matched(old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Return the edits between pieces that are the same in both, wherever they stand: a row that came moves the others."""
    first, last = _same_ends(old, new)
    one, other = old[first : len(old) - last], new[first : len(new) - last]
    if first == 0 or max(len(one), len(other)) > MOST_MATCHED:
        return [_edit(old, new)]
    found = []
    for what, start, end, new_start, new_end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        # The piece before is the same in both: it is replaced by itself where nothing would be, or by nothing.
        also = 0 if what == "replace" else 1
        text = "<".join(new[first + new_start - also : first + new_end])
        found.append((first + start - also, end - start + also, text))
    return found
