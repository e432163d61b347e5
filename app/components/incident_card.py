"""The card of an incident: what happened, the steps that end it and how far they are, what follows, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.app.components.attention_card import (
    badge_of,
    consequence_of,
    facts_of,
    left_of,
    name_of,
    object_path,
    pipeline_button,
    remedy_buttons,
    waits_of,
)
from indoubt.app.components.links_and_buttons import card_with_buttons, link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at, duration, since, time_left
from indoubt.app.components.verdict_signs import Tone, badge
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.attention import Attention, Remedy
from indoubt.lifecycle.rows.cut_lists import whole_length
from indoubt.lifecycle.rows.incidents import Incident, IncidentState, Step, StepState
from indoubt.lifecycle.verdicts import Verdict

MAX_STEPS = 5
"""So many steps of an incident are shown."""
_SIGNS = {StepState.TO_DO: "○", StepState.UNDER_WAY: "◌", StepState.DONE: "✔"}


def incident_card(one: Incident, *, cluster: str = "") -> Html:
    """Return the card; its keyboard hooks are data-item and the links and buttons in it.

    ``cluster``: beside cards of other clusters its name stands first, and the card has no button that orders.
    """
    part, tone = one.leading, incident_tone(one)
    if one.is_over:
        return _over(one, cluster)
    name: list[object] = name_of(part) if part is not None else [_link_to(one)]
    said = [
        el("div", _chip(cluster), _badge(one, part, tone), el("b", *name, class_="name"), class_="title"),
        el("div", one.headline, class_="why"),
        _steps(one),
        part and waits_of(part),
        el("div", *(facts_of(part) if part is not None else ()), _alerts(one), class_="facts-line"),
        consequence_of(one),
    ]
    opening = link(_path(one), "Open", class_="press", is_opening=True)
    left = left_of(one.since_ms, one.deadline_ms)
    return card_with_buttons(
        tone, el("div", *said, class_="said"), left, buttons=[*([] if cluster else order_buttons(one)), opening]
    )


def incident_tone(one: Incident) -> Tone:
    """Return its colour: red where a person must act now, amber where soon or where it goes on by itself."""
    if one.is_over:
        return Tone.CALM
    if one.state is IncidentState.WAIT:
        return Tone.WARNING
    return Tone.URGENT if one.severity == "critical" else Tone.WARNING


def first_deadline_ms(incidents: Iterable[Incident]) -> int | None:
    """Return the earliest deadline of those that need a person; None: none of them has one."""
    acting = (one.deadline_ms for one in incidents if one.state is IncidentState.ACT)
    return min((deadline_ms for deadline_ms in acting if deadline_ms is not None), default=None)


def need_you(number: int, deadline_ms: int | None, where: str = "") -> Html:
    """Return how many incidents need a person, and the first deadline."""
    first = ["first deadline ", time_left(deadline_ms), " (", at(deadline_ms), ")"] if deadline_ms is not None else []
    return el(
        "h2",
        el("span", "✖ ", aria_hidden="true"),
        f"{counted(number, 'incident')}{where} {'needs' if number == 1 else 'need'} you",
        el("span", *first, class_="split"),
        class_="headline",
    )


def order_buttons(one: Incident) -> list[Html]:
    """Return the buttons of the steps that are to be done, the first one as the main one; of a step under way there is none."""
    parts = {part.key: part for part in one.parts}
    is_main = one.state is IncidentState.ACT
    buttons: list[Html] = []
    for step in one.steps:
        if step.state is not StepState.TO_DO or len(buttons) >= MAX_STEPS:
            continue
        if step.remedy in (Remedy.RESTART, Remedy.START):
            buttons.append(pipeline_button(step.remedy, step.target, is_main=is_main and not buttons))
        elif step.remedy is not Remedy.OPEN and step.part in parts:
            buttons += remedy_buttons(parts[step.part], is_main=is_main and not buttons)
    if not buttons and one.leading is not None and one.leading.verdict is Verdict.FOREIGN:
        buttons = remedy_buttons(one.leading)
    return buttons


def _badge(one: Incident, part: Attention | None, tone: Tone) -> Html:
    if one.state is IncidentState.WAIT:
        return badge("◌", "goes on by itself" if _is_under_way(one) else "silent", tone)
    return badge_of(part, tone) if part is not None else badge("▲", "firing", tone)


def _is_under_way(one: Incident) -> bool:
    return any(step.state is StepState.UNDER_WAY for step in one.steps)


def _steps(one: Incident) -> Html | None:
    """Return the steps, where there is more to say than one button does."""
    if all(step.state is StepState.TO_DO and not step.note for step in one.steps) and len(one.steps) < 2:
        return None
    shown = one.steps[:MAX_STEPS]
    more = len(one.steps) - len(shown)
    return el(
        "ol", *map(_step, shown), more > 0 and el("li", f"and {counted(more, 'more step')}"), class_="incident-steps"
    )


def _step(step: Step) -> Html:
    said: list[object] = []
    if step.state is StepState.UNDER_WAY:
        said = [f": {step.note or 'under way'}"]
        if step.since_ms is not None:
            said += [", ", since(step.since_ms)]
        if step.usually_ms is not None:
            said.append(f" of usually {duration(step.usually_ms)}")
        if step.who:
            said.append(f", ordered by {step.who}")
    elif step.state is StepState.DONE:
        said = [f" {step.note}" if step.note else "", ", ", at(step.since_ms)]
    elif step.note:
        said = [f": {step.note}"]
    sign = el("span", f"{_SIGNS[step.state]} ", aria_hidden="true")
    return el("li", sign, el("b", step.what), *said, data_state=step.state.value.replace(" ", "-"))


def _alerts(one: Incident) -> Html | None:
    number = whole_length(one, "alerts")
    return el("span", link("/alerts", counted(number, "alert"), " firing")) if number else None


def _chip(cluster: str) -> Html | None:
    return el("span", cluster, class_="of-cluster") if cluster else None


def _over(one: Incident, cluster: str) -> Html:
    said = el(
        "div",
        el("div", _chip(cluster), badge("✔", "over", Tone.GOOD), el("b", _link_to(one), class_="name"), " over at ",
           at(one.over_at_ms), ". ", one.outcome, class_="title"),
        _steps(one),
        class_="said",
    )  # fmt: skip
    return el("article", said, class_="card calm over")


def _link_to(one: Incident) -> object:
    return link(page_paths.pipeline(one.application), one.application) if one.application else one.key


def _path(one: Incident) -> str:
    if one.leading is not None:
        return object_path(one.leading)
    if one.alerts:
        return page_paths.alert(one.alerts[0])
    return page_paths.pipeline(one.application)
