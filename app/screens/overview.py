"""Overview: whatever needs attention comes first, in one list by deadline, each with its remedy; then what goes on by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import streamlit as st

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.attention_card import card
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, join, widget_token
from indoubt.app.components.pipeline_standing import restart_under_way
from indoubt.app.components.time_text import amount, at, duration, since, time_left
from indoubt.app.components.verdict_signs import OBSERVER_SIGNS, Tone, badge
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import over_time
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.overview import AwaitedPipeline, Overview
from indoubt.lifecycle.rows.status import ObserverRow, Status

MAX_CARDS = 30
"""So many things of each list are shown, and asked for: the most urgent."""


def show() -> None:
    """Write the page."""
    with st.container(key="overview"):
        show_region("overview")
    over_time.show()


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return the cards that need attention, one block each, then what goes on, the counters and the sources."""
    overview, status = client.overview(MAX_CARDS), client.status()
    content: RegionContent = {"headline": _headline(overview, status)}
    for item in overview.attention:
        content[f"card-{widget_token(item.key)}"] = card(item)
    if (more := overview.attention_total - len(overview.attention)) > 0:
        content["more"] = _more(more)
    if overview.attention and overview.awaited:
        # Without a card the headline says it.
        listed = [piece for one in overview.awaited for piece in (_awaited(one), " · ")][:-1]
        content["awaited"] = el("p", *listed, class_="goes-on")
    content["in-progress"] = _in_progress(overview)
    content["counters"] = _counters(overview)
    content["sources"] = _sources(status)
    return content


def _more(number: int) -> Html:
    """Return how many cards are not shown, and the lists that have them."""
    verb = "needs" if number == 1 else "need"
    lists = [link(f"/{name.lower()}", name) for name in ("Transactions", "Readers", "Pipelines", "Alerts")]
    listed = join(_separated(lists))
    return el("p", f"{counted(number, 'more thing')} {verb} attention, listed in ", listed, class_="more")


def _headline(overview: Overview, status: Status) -> Html:
    if not overview.attention:
        return _nothing_in_doubt(overview)
    number = overview.attention_total
    deadlines = [(item.deadline_ms, item) for item in overview.attention if item.deadline_ms is not None]
    first: list[object] = []
    if deadlines:
        deadline_ms, item = min(deadlines, key=lambda pair: pair[0])
        first = ["first deadline ", time_left(deadline_ms, UTC), " (", at(deadline_ms), ")"]
        first += [": ", item.consequence]
    return el(
        "h2",
        el("span", "✖ ", aria_hidden="true"),
        f"{counted(number, 'thing')} {'needs' if number == 1 else 'need'} attention",
        el("span", *first, class_="split"),
        class_="headline",
    )


def _nothing_in_doubt(overview: Overview) -> Html:
    """Return that all is well; or, while a pipeline shows no life or a source is not seen, only that nothing is in doubt."""
    since_ms = overview.all_well_since_ms
    waiting = (
        "no reader waits" if not overview.counts.waiting_groups else "readers wait only for transactions in progress"
    )
    parts: list[object] = [
        f"{counted(overview.counts.open, 'transaction')} in progress",
        f"{counted(overview.pipelines_alive, 'pipeline')} alive",
        waiting,
        f"{overview.observers_up} of {counted(overview.observers, 'source')} up",
    ]
    if since_ms is not None:
        head: list[object] = ["✔ All well since ", at(since_ms), " (", since(since_ms, UTC), "): "]
    else:
        head = ["△ Nothing in doubt. "]
        parts = [*map(_awaited, overview.awaited), *parts]
    listed = [piece for part in parts for piece in (part, ", ")][:-1]
    return el("div", el("b", *head), *listed, ".", class_="quiet" if since_ms is not None else "awaited", role="status")


def _awaited(pipeline: AwaitedPipeline) -> Html:
    name = link(page_paths.pipeline(pipeline.pipeline), pipeline.pipeline)
    if pipeline.restart is not None:
        return el("span", name, ": ", *restart_under_way(pipeline.restart))
    silent = since(pipeline.silent_since_ms, UTC)
    return el("span", name, ": silent ", silent, f" (counted as frozen at {duration(pipeline.counted_after_ms)})")


def _in_progress(overview: Overview) -> Html:
    if not overview.in_progress:
        other = "other " if overview.counts.open else ""
        return el("p", f"No {other}transaction is in progress.", class_="more")
    parts = []
    for row in overview.in_progress:
        of_timeout = f" of {duration(row.timeout_ms)}" if row.timeout_ms is not None else ""
        oldest = [" (oldest ", since(row.oldest_opened_at_ms, UTC), of_timeout, ")"] if row.oldest_opened_at_ms else []
        parts.append(
            el("span", link(page_paths.pipeline(row.pipeline), row.pipeline), f": {row.transactions:,}", *oldest)
        )
    if (more := overview.in_progress_total - len(parts)) > 0:
        parts.append(el("span", f"{counted(more, 'more application')}"))
    return el("p", "Goes on by itself: ", join(_separated(parts)), class_="goes-on")


def _separated(parts: list[Html]) -> Sequence[object]:
    return [piece for part in parts for piece in (part, " · ")][:-1]


def _counters(overview: Overview) -> Html:
    def tile(name: str, value: object, hint: str) -> Html:
        return el("div", el("small", name), el("b", value), class_="tile", title=hint)

    counts = overview.counts
    return el(
        "div",
        tile("open", amount(counts.open), "open transactions of all applications"),
        tile("prepared, in doubt", amount(counts.prepared), "prepared or decided, but not ended"),
        tile("groups waiting", amount(counts.waiting_groups), "consumer groups that wait behind an open transaction"),
        tile("committed / min", amount(counts.committed_per_minute), "in the last minute"),
        tile("aborted / min", amount(counts.aborted_per_minute), "in the last minute, including lost ones"),
        tile("oldest open", since(overview.oldest_open_at_ms, UTC), "the age of the oldest open transaction"),
        class_="tiles",
    )


def _sources(status: Status) -> Html:
    return el(
        "div",
        el("small", "sources", title="each source that the collector reads, and whether it can"),
        *[_source(observer) for observer in status.observers],
        class_="observers",
    )


def _source(observer: ObserverRow) -> Html:
    sign, tone = OBSERVER_SIGNS.get(observer.state, ("?", Tone.NOTICE))
    if observer.state == "down":
        text = el(
            "span", f"{observer.name} down since ", at(observer.since_ms), f": {observer.error or 'no reason given'}"
        )
    else:
        word = "" if observer.state == "up" else f" {observer.error or observer.state}"
        text = el("span", f"{observer.name}{word}")
    return badge(sign, text, tone, observer.error or None)
