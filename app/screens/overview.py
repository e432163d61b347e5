"""Overview: the incidents come first, by deadline, each with the steps that end it; then what goes on by itself."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.incident_card import first_deadline_ms, incident_card, need_you
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, join, widget_token
from indoubt.app.components.pipeline_standing import restart_under_way
from indoubt.app.components.time_text import amount, at, duration, since
from indoubt.app.components.verdict_signs import OBSERVER_SIGNS, badge, sign_of
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens import over_time
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.incidents import StepState
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
    """Return a card for each incident, one block each, then what goes on, the counters and the sources."""
    overview, status = client.overview(MAX_CARDS), client.status()
    content: RegionContent = {"headline": _headline(overview, status)}
    for one in overview.incidents:
        content[f"incident-{widget_token(one.key)}"] = incident_card(one)
    shown = sum(1 for one in overview.incidents if not one.is_over)
    if (more := overview.incidents_total - shown) > 0:
        content["more"] = _more(more)
    if overview.incidents_total and overview.awaited:
        # Without an incident the headline says it.
        listed = [piece for one in overview.awaited for piece in (_awaited(one), " · ")][:-1]
        content["awaited"] = el("p", *listed, class_="goes-on")
    if overview.in_progress:
        content["in-progress"] = _in_progress(overview)
    if overview.incidents_total:
        # In health they say nothing that the line above does not.
        content["counters"] = _counters(overview)
    content["sources"] = _sources(status)
    return content


def _more(number: int) -> Html:
    """Return how many incidents are not shown, and the lists that have them."""
    lists = [link(f"/{name.lower()}", name) for name in ("Transactions", "Readers", "Pipelines", "Alerts")]
    listed = join(_separated(lists))
    return el("p", f"{counted(number, 'more incident')}, listed in ", listed, class_="more")


def _headline(overview: Overview, status: Status) -> Html:
    if not overview.incidents_total:
        return _nothing_in_doubt(overview)
    if not overview.to_act:
        number = overview.incidents_total
        is_, are = ("goes on by itself", "is not over") if number == 1 else ("go on by themselves", "are not over")
        steps = [step.state for one in overview.incidents for step in one.steps if not one.is_over]
        # A driver that is silent may stand still: somebody looks again before the page is left.
        text = (
            f"{are}: see whether its driver goes on."
            if StepState.UNDER_WAY not in steps
            else f"{is_}: nothing to do now."
        )
        return el("div", el("b", "◌ ", f"{counted(number, 'incident')} {text}"), class_="awaited", role="status")
    return need_you(overview.to_act, first_deadline_ms(overview.incidents))


def _nothing_in_doubt(overview: Overview) -> Html:
    """Return that all is well; or, while a pipeline shows no life or a source is not seen, only that nothing is in doubt."""
    since_ms = overview.all_well_since_ms
    waiting = (
        "no reader waits" if not overview.counts.waiting_groups else "readers wait only for transactions in progress"
    )
    parts: list[object] = [
        f"{counted(overview.pipelines_alive, 'pipeline')} alive" if overview.pipelines_alive else None,
        f"{counted(overview.counts.committed_per_minute, 'transaction')} committed in the last minute",
        waiting,
        f"{overview.observers_up} of {counted(overview.observers, 'source')} up",
    ]
    if since_ms is not None:
        head: list[object] = ["✔ All well since ", at(since_ms), " (", since(since_ms), "): "]
    else:
        head = ["△ Nothing in doubt. "]
        parts = [*map(_awaited, overview.awaited), *parts]
    listed = [piece for part in parts if part is not None for piece in (part, ", ")][:-1]
    return el("div", el("b", *head), *listed, ".", class_="quiet" if since_ms is not None else "awaited", role="status")


def _awaited(pipeline: AwaitedPipeline) -> Html:
    name = link(page_paths.pipeline(pipeline.pipeline), pipeline.pipeline)
    if pipeline.restart is not None:
        return el("span", name, ": ", *restart_under_way(pipeline.restart))
    silent = since(pipeline.silent_since_ms)
    return el("span", name, ": silent ", silent, f" (counted as frozen at {duration(pipeline.counted_after_ms)})")


def _in_progress(overview: Overview) -> Html:
    parts = []
    for row in overview.in_progress:
        of_timeout = f" of {duration(row.timeout_ms)}" if row.timeout_ms is not None else ""
        oldest = [" (oldest ", since(row.oldest_opened_at_ms), of_timeout, ")"] if row.oldest_opened_at_ms else []
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
        tile("aborted / min", amount(counts.aborted_per_minute), "aborted in the last minute, lost ones too"),
        tile("oldest open", since(overview.oldest_open_at_ms), "the age of the oldest open transaction"),
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
    sign, tone, _ = sign_of(OBSERVER_SIGNS, observer.state)
    if observer.state == "down":
        text = el(
            "span", f"{observer.name} down since ", at(observer.since_ms), f": {observer.error or 'no reason given'}"
        )
    else:
        word = "" if observer.state == "up" else f" {observer.error or observer.state}"
        text = el("span", f"{observer.name}{word}")
    return badge(sign, text, tone, observer.error or None)
