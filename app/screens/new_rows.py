"""The quiet line above a table of history: how many rows came since. The table stays as it is until its reader asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import SHOW_NEW
from indoubt.app.components.markup import el
from indoubt.app.components.time_text import at
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent

LOOKED_AT = 100
"""So many of the newest rows are counted: beyond that the line says 'or more'."""
LIST, SINCE, OF = "list", "since", "of"


def show(listed: str, times: Iterable[int | None], of: str = "") -> None:
    """Write the line for a table whose rows have these times (epoch ms); ``of``: its filter, as its list has it."""
    show_region("news", {LIST: listed, SINCE: str(_newest(times)), OF: of})


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the line; it is empty while nothing is new."""
    times, since = _LISTS.get(query.get(LIST, "")), query.get(SINCE, "")
    if times is None or not (since.isascii() and since.isdecimal() and len(since) < 16):
        return {"line": el("p", class_="news")}
    since_ms = int(since)
    new = sum(1 for at_ms in times(client, query.get(OF, "")) if at_ms is not None and at_ms > since_ms)
    if not new:
        return {"line": el("p", class_="news", role="status")}
    number = f"{new} new" if new < LOOKED_AT else f"{new} or more new"
    since_when = [" since ", at(since_ms)] if since_ms else []
    show = el("button", "show", type="button", class_="link", data_click=json.dumps({SHOW_NEW: True}))
    return {"line": el("p", number, *since_when, " · ", show, class_="news", role="status")}


def _newest(times: Iterable[int | None]) -> int:
    return max((at_ms for at_ms in times if at_ms is not None), default=0)


def _aborts(client: CollectorClient, of: str) -> list[int | None]:
    causes, _, pipeline = of.partition("|")
    wanted = causes.split(",") if causes else []
    rows = client.aborts(limit=LOOKED_AT, pipeline=pipeline)
    return [row.at_ms for row in rows if not wanted or row.cause.value in wanted]


def _losses(client: CollectorClient, of: str) -> list[int | None]:
    verdicts, _, transaction = of.partition("|")
    wanted = verdicts.split(",") if verdicts else []
    rows = client.losses(transaction=transaction, limit=LOOKED_AT)
    return [row.at_ms for row in rows if not wanted or row.verdict in wanted]


def _checkpoints(client: CollectorClient, pipeline: str) -> list[int | None]:
    return [row.ended_at_ms or row.started_at_ms for row in client.checkpoints(limit=LOOKED_AT, pipeline=pipeline)]


def _batches(client: CollectorClient, pipeline: str) -> list[int | None]:
    return [row.updated_at_ms for row in client.batches(pipeline=pipeline, over=True, limit=LOOKED_AT)]


def _alerts(client: CollectorClient, _: str) -> list[int | None]:
    return [row.since_ms for row in client.alerts(over=True, limit=LOOKED_AT)]


def _audit(client: CollectorClient, words: str) -> list[int | None]:
    return [row.at_ms for row in client.audit(words=words, limit=LOOKED_AT)]


def _quarantined(client: CollectorClient, _: str) -> list[int | None]:
    return [row.at_ms for row in client.quarantined(limit=LOOKED_AT)]


_LISTS: Mapping[str, Callable[[CollectorClient, str], list[int | None]]] = {
    "aborts": _aborts,
    "losses": _losses,
    "checkpoints": _checkpoints,
    "batches": _batches,
    "alerts": _alerts,
    "audit": _audit,
    "quarantined": _quarantined,
}
"""By list: the times of its newest rows (epoch ms)."""
