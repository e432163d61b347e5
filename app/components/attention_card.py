"""A card of one thing that needs attention: what it is, who waits, the time left, what happens if nobody acts, its remedy."""

from __future__ import annotations

from indoubt.app.components.links_and_buttons import FILTER, card_with_buttons, link, order_button
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import partition_links, partition_path
from indoubt.app.components.time_text import at, since, time_left, time_left_bar
from indoubt.app.components.verdict_signs import Tone, badge, card_tone, verdict_badge
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy
from indoubt.lifecycle.rows.cut_lists import whole_length
from indoubt.lifecycle.rows.incidents import Incident, IncidentState
from indoubt.lifecycle.verdicts import Verdict

MAX_NAMED = 3
_SIGNS = {
    AttentionKind.TRANSACTIONS: "?",
    AttentionKind.PIPELINE: "‖",
    AttentionKind.READERS: "◷",
    AttentionKind.OBSERVER: "✖",
}
_TONES = {"critical": Tone.URGENT, "warning": Tone.WARNING}


def card(item: Attention) -> Html:
    """Return the card; its keyboard hooks are data-item and the links and buttons in it."""
    tone = (
        card_tone(item.verdict, item.deadline_ms)
        if item.verdict is not None
        else _TONES.get(item.severity, Tone.WARNING)
    )
    title = el("div", badge_of(item, tone), el("b", *name_of(item), class_="name"), class_="title")
    said = [title, el("div", item.headline, class_="why"), waits_of(item)]
    said.append(el("div", *facts_of(item), class_="facts-line"))
    said.append(consequence_of(item))
    left = left_of(item.since_ms, item.deadline_ms)
    return card_with_buttons(tone, el("div", *said, class_="said"), left, buttons=remedies(item))


def object_path(item: Attention) -> str:
    """Return the page of what the card is about."""
    if item.kind is AttentionKind.READERS or item.verdict is Verdict.HANGING:
        name = item.target or next(iter(item.partitions), "")
        if path := partition_path(name):
            return path
    if item.keys:
        return page_paths.transaction(item.keys[0])
    match item.kind:
        case AttentionKind.PIPELINE:
            return page_paths.pipeline(item.pipeline)
        case _:
            return page_paths.COLLECTOR


def badge_of(item: Attention, tone: Tone) -> Html:
    """Return sign and word of what it is."""
    if item.verdict is not None:
        return verdict_badge(item.verdict, item.certainty)
    return badge(_SIGNS[item.kind], item.badge, tone)


def name_of(item: Attention) -> list[object]:
    """Return what it is about: application, batch, and how many transactions."""
    parts: list[object] = [link(page_paths.pipeline(item.pipeline), item.pipeline) if item.pipeline else item.target]
    if item.batch is not None:
        parts.append(link(page_paths.batch(item.pipeline, item.batch), f"batch {item.batch}"))
    if item.keys:
        parts.append(counted(whole_length(item, "keys"), "transaction"))
    return [piece for part in parts if part for piece in (" · ", part)][1:]


def waits_of(item: Attention) -> Html | None:
    """Return who waits behind it, for how long and for how much, None where nobody does."""
    if not item.waits:
        return None
    parts: list[object] = []
    for group in item.waits[:MAX_NAMED]:
        lasts = [" for ", since(group.since_ms)] if group.since_ms is not None else []
        records = f", {counted(group.lag, 'record')}" if group.lag is not None else ""
        where = f" on {counted(group.partitions, 'partition')}"
        parts.append(el("span", el("b", group.group), " waits", *lasts, where, records))
    if (more := whole_length(item, "waits") - MAX_NAMED) > 0:
        parts.append(el("span", f"and {counted(more, 'more group')}"))
    return el("div", *parts, class_="facts-line")


def consequence_of(item: Attention | Incident) -> Html | None:
    """Return what happens if nobody acts, and when."""
    if not item.consequence:
        return None
    if isinstance(item, Incident) and item.state is IncidentState.WAIT:
        return el("div", item.consequence, class_="consequence")
    when: list[object] = [" at ", at(item.deadline_ms)] if item.deadline_ms is not None else []
    return el("div", el("small", "without action", *when, ": "), item.consequence, class_="consequence")


def facts_of(item: Attention) -> list[object]:
    """Return how many rows it holds, since when it stands, and on which partitions."""
    partitions = [name for name in item.partitions if not name.startswith("__")] or list(item.partitions)
    named = partition_links(partitions[:MAX_NAMED])
    number = len(partitions) if item.partitions_total is None else item.partitions_total
    more = f" and {number - MAX_NAMED:,} more" if number > MAX_NAMED else ""
    return [
        item.rows is not None and el("span", counted(item.rows, "row")),
        item.since_ms is not None and el("span", "for ", since(item.since_ms)),
        partitions and el("span", named, more, title=", ".join(partitions)),
    ]


def left_of(since_ms: int | None, deadline_ms: int | None) -> Html:
    """Return the part of a card that counts down to the timeout; empty where there is none."""
    if deadline_ms is None:
        return el("div", class_="left")
    return el(
        "div",
        el("small", "time left"),
        time_left(deadline_ms),
        time_left_bar(since_ms, deadline_ms),
        class_="left",
    )


def remedies(item: Attention) -> list[Html]:
    """Return the button of its remedy, and the link to its page."""
    return [*remedy_buttons(item), link(object_path(item), "Open", class_="press", is_opening=True)]


def remedy_buttons(item: Attention, *, is_main: bool = True) -> list[Html]:
    """Return the button of its remedy; of a foreign transaction that of an abort, which its owner must agree to."""
    size = f" batch {item.batch}" if item.batch is not None else f" {len(item.keys)}" if len(item.keys) > 1 else ""
    if item.keys_total is not None and item.remedy in (Remedy.COMMIT, Remedy.ABORT):
        return _order_for_more(item)
    match item.remedy:
        case Remedy.COMMIT:
            return [order_button(f"Commit{size}", Action.COMMIT, "transactions", item.keys, is_main=is_main)]
        case Remedy.ABORT:
            loses_data = item.verdict is not Verdict.ABORT_IT
            return [order_button(f"Abort{size}", Action.ABORT, "transactions", item.keys, loses_data=loses_data)]
        case Remedy.RESTART | Remedy.START:
            return [pipeline_button(item.remedy, item.target, is_main=is_main)]
        case Remedy.OPEN if item.verdict is Verdict.FOREIGN and len(item.keys) == 1:
            return [order_button("Abort", Action.ABORT, "transactions", item.keys)]
        case Remedy.OPEN:
            return []


def pipeline_button(remedy: Remedy, target: str, *, is_main: bool) -> Html:
    """Return the button that has a pipeline restarted or started."""
    action = Action(remedy.value)
    return order_button(action.value.capitalize(), action, "pipeline", [target], is_main=is_main)


def _order_for_more(item: Attention) -> list[Html]:
    """Return the button of an order by filter: an order by keys takes fewer than these are. No filter finds what hangs."""
    if item.verdict is None or item.verdict is Verdict.HANGING:
        return []
    fits = [f"verdict={item.verdict.value}", f"pipeline={item.pipeline}"]
    is_commit = item.remedy is Remedy.COMMIT
    word, action = ("Commit", Action.COMMIT) if is_commit else ("Abort", Action.ABORT)
    loses_data = not is_commit and item.verdict is not Verdict.ABORT_IT
    return [
        order_button(f"{word} all of {item.pipeline}", action, FILTER, fits, is_main=is_commit, loses_data=loses_data)
    ]
