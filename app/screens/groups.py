"""Consumer groups: how far each has read, up to the last stable offset and to the end, now and over the last hour."""

from __future__ import annotations

from collections.abc import Mapping

from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, widget_token
from indoubt.app.components.object_names import cut
from indoubt.app.components.small_plots import Bars, axis_line, bar_plot, most, total
from indoubt.app.components.time_text import amount, since
from indoubt.app.components.verdict_signs import Tone, WordSigns, badge, word_badge
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.groups import ConsumerGroupRow, GroupSeries, SeriesOfGroups

KEPT_S = 2.0
MOST_GROUPS, MOST_PARTITIONS = 100, 3
LONG_MS = 10_000
KINDS: WordSigns = {
    "waiting": ("‖", Tone.URGENT, "it has read every visible record, and waits for the hidden ones"),
    "stalled": (
        "✖",
        Tone.WARNING,
        "it has visible records to read, but has not moved for long: the group itself is stuck",
    ),
    "markers only": (
        "●",
        Tone.GOOD,
        "its lag is only transaction markers and aborted records: it has read everything",
    ),
    "reads uncommitted": ("▸", Tone.CALM, "it has read past the last stable offset: open transactions do not block it"),
    "reading": ("▸", Tone.CALM, "it has records to read, and moved recently"),
}
"""Sign, tone and meaning of a group's state (docs/api.md)."""


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a block for each consumer group, those that wait or have stopped first, and the times of their axis."""
    groups, series = client.groups(limit=MOST_GROUPS), client.series_of_groups(window_ms=HOUR_MS, limit=MOST_GROUPS)
    content: RegionContent = {"head": _head(len(groups) + groups.more)}
    if not groups:
        content["none"] = el("p", "No consumer group has committed an offset on this cluster.", class_="empty")
        return content
    known = {one.group: one for one in series.groups}
    content["columns"] = el(
        "div", *[el("span", name) for name in _COLUMNS], class_="line group head", aria_hidden="true"
    )
    for group in groups:
        content[f"group-{widget_token(group.group)}"] = _row(group, known, series)
    content["axis"] = el("div", axis_line(series, 1), class_="line group")
    if groups.more:
        content["more"] = el("p", f"{counted(groups.more, 'group')} that lag less not shown.", class_="more")
    return content


_COLUMNS = ("group", "state", "not read", "hidden", "where", "the last hour")


def _head(number: int) -> Html:
    says = " not read: up to the last stable offset, without markers; hidden: behind it"
    return el("h3", "Consumer groups" if number != 1 else "Consumer group", el("small", f" {number:,};{says}"))


def _row(group: ConsumerGroupRow, known: Mapping[str, GroupSeries], series: SeriesOfGroups) -> Html:
    members = "" if group.members is None else f", {counted(group.members, 'member')}"
    of = f"{counted(group.partitions, 'partition')} of {counted(len(group.topics), 'topic')}"
    cells = [
        el(
            "div", cut(group.group, "b"), el("small", f"{group.state or 'no such group'}{members}; {of}"), class_="name"
        ),
        el("span", _state(group, series.now_ms)),
        el("span", el("b", amount(group.lag)), data_name="not read"),
        el("span", el("b", amount(group.hidden)), data_name="hidden"),
        el("span", *_where(group), class_="name"),
        _plot(group, known.get(group.group), series),
    ]
    return el("article", el("div", *cells, class_="line group"), class_="row calm", data_item="", tabindex="-1")


def _state(group: ConsumerGroupRow, at_ms: int) -> Html:
    if not group.kind or group.kind == "markers only":
        return badge("✔", "has read all", Tone.CALM, "it is at the last stable offset, or only markers are before it")
    if group.kind == "waiting" and not _waits(group, at_ms):
        # So it is with each transaction in progress.
        return badge("▸", "reading", Tone.CALM, "it waits for a transaction in progress, for less than 10 s")
    waits = [" ", since(group.since_ms)] if group.kind in ("waiting", "stalled") else []
    return word_badge(KINDS, group.kind, el("span", group.kind, *waits))


def _waits(group: ConsumerGroupRow, at_ms: int) -> bool:
    return group.kind == "waiting" and group.since_ms is not None and at_ms - group.since_ms >= LONG_MS


def _where(group: ConsumerGroupRow) -> list[Html]:
    """Return the partitions where it lags most; without any its topics."""
    if not group.most:
        more = len(group.topics) - MOST_PARTITIONS
        topics = [el("div", cut(topic, "span")) for topic in group.topics[:MOST_PARTITIONS]]
        return [*topics, el("small", f"and {counted(more, 'more topic')}")] if more > 0 else topics
    return [
        el(
            "div",
            link(page_paths.partition(one.topic, one.partition), cut(f"{one.topic}-{one.partition}", "span")),
            el("span", f" {amount(one.lag + one.hidden)}", class_="soft"),
        )
        for one in group.most[:MOST_PARTITIONS]
    ]


def _plot(group: ConsumerGroupRow, known: GroupSeries | None, series: SeriesOfGroups) -> Html:
    nothing = [0 if is_observed else None for is_observed in series.observed]
    lag, hidden = (known.lag, known.hidden) if known is not None else (nothing, nothing)

    def text(value: int) -> str:
        return f"{amount(value)} not read"

    bars = [Bars(values=lag), Bars(values=hidden, tone=Tone.WARNING.value if _waits(group, series.now_ms) else "light")]
    says = f"up to {amount(max(most(lag), most(hidden)))}" if total(lag) + total(hidden) else "nothing"
    return bar_plot(series, "not read", says, bars, text=text)
