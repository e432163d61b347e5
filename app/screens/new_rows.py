"""The quiet line above a table of history: how many rows came since. The table stays as it is until its reader asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Wanted
from indoubt.app.components.links_and_buttons import ShowNew, click_text
from indoubt.app.components.markup import el
from indoubt.app.components.paging import number_in
from indoubt.app.components.time_text import at
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent

LOOKED_AT = 100
"""So many of the newest rows are counted: beyond that the line says 'or more'."""
LIST, SINCE, OF = "list", "since", "of"
_LISTS: Mapping[str, tuple[Callable[..., Sequence[Any]], Callable[[Any], int | None]]] = {
    "aborts": (CollectorClient.aborts, lambda row: row.at_ms),
    "losses": (CollectorClient.losses, lambda row: row.at_ms),
    "checkpoints": (CollectorClient.checkpoints, lambda row: row.ended_at_ms or row.started_at_ms),
    "batches": (CollectorClient.batches, lambda row: row.updated_at_ms),
    "alerts": (CollectorClient.alerts, lambda row: row.since_ms),
    "audit": (CollectorClient.audit, lambda row: row.at_ms),
    "quarantined": (CollectorClient.quarantined, lambda row: row.at_ms),
}
"""By list: what asks for its newest rows, and the time of a row (epoch ms)."""


def show(listed: str, rows: Sequence[Any], **filters: Wanted) -> None:
    """Write the line for a table of these rows; ``filters``: by which the client was asked for them."""
    of = json.dumps({name: value for name, value in filters.items() if value})
    show_region("news", {LIST: listed, SINCE: str(_newest(map(_LISTS[listed][1], rows))), OF: of})


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the line; it is empty while nothing is new."""
    listed, since_ms = _LISTS.get(query.get(LIST, "")), number_in(query.get(SINCE, ""))
    if listed is None or since_ms is None:
        return {"line": el("p", class_="news")}
    ask, time_of = listed
    try:
        rows = ask(client, limit=LOOKED_AT, **json.loads(query.get(OF, "{}")))
    except (TypeError, ValueError):
        # A browser may ask for anything.
        return {"line": el("p", class_="news")}
    new = sum(1 for at_ms in map(time_of, rows) if at_ms is not None and at_ms > since_ms)
    if not new:
        return {"line": el("p", class_="news", role="status")}
    number = f"{new} new" if new < LOOKED_AT else f"{new} or more new"
    since_when = [" since ", at(since_ms)] if since_ms else []
    show = el("button", "show", type="button", class_="link", data_click=click_text(ShowNew()))
    return {"line": el("p", number, *since_when, " · ", show, class_="news", role="status")}


def _newest(times: Iterable[int | None]) -> int:
    return max((at_ms for at_ms in times if at_ms is not None), default=0)
