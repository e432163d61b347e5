"""What the dialog says about an order: in words, as tables, all of it escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from app.collector_rows import Action, OrderResult, Transaction
from app.markup import Html, el
from app.time_text import amount, clock_time, counted, duration, time_left
from app.transaction_groups import rows_held
from app.verdict_signs import Tone, badge, state_text, verdict_badge
from lifecycle.verdicts import Evidence

_STEP_TONES = {
    "committed": ("✔", Tone.GOOD),
    "already committed": ("✔", Tone.GOOD),
    "aborted": ("✔", Tone.GOOD),
    "dry run": ("○", Tone.CALM),
    "retry later": ("△", Tone.WARNING),
    "unknown": ("?", Tone.WARNING),
    "lost": ("✖", Tone.URGENT),
}
KAFKA = "kafka"
_STATEMENTS = {
    (KAFKA, Action.COMMIT): "EndTxn(commit)",
    (KAFKA, Action.ABORT): "EndTxn(abort)",
    ("mysql", Action.COMMIT): "XA COMMIT",
    ("mysql", Action.ABORT): "XA ROLLBACK",
    ("postgres", Action.COMMIT): "COMMIT PREPARED",
    ("postgres", Action.ABORT): "ROLLBACK PREPARED",
}
_DONE = {
    Action.COMMIT: ("committed", frozenset({"committed", "already committed"})),
    Action.ABORT: ("aborted", frozenset({"aborted"})),
}


def what_will_happen(action: Action, shown: Sequence[Transaction]) -> str:
    """Return one or two sentences: what is sent, what becomes visible or is given up, what is left alone."""
    rows = rows_held(shown)
    held = f"{amount(rows)} rows" if rows is not None else "Their rows (how many is not known)"
    hanging = [one for one in shown if one.is_hanging]
    partitions = sorted({partition for one in hanging for partition in one.partitions})
    where = f"{counted(len(partitions), 'partition')}: {', '.join(partitions)}"
    if action is Action.COMMIT and hanging:
        return f"The commit marker that is missing is written to {where}. {held} become visible to their readers, who go on."
    if action is Action.COMMIT:
        return (
            f"{_sent(action, shown)}. {held} become visible to their readers. Nothing else of this pipeline is touched."
        )
    if hanging:
        return (
            f"An abort marker is written to {where}, or the coordinator is told to abort where it still has it open. "
            f"{held} are given up, and the readers behind them go on."
        )
    if shown[0].ours:
        return (
            "An abort decision is written to the decision log first; if a commit decision is there before it, nothing "
            f"happens. Then: {_sent(action, shown)}. {held} are given up; the pipeline's next run replays them."
        )
    if any(one.resource_manager != KAFKA for one in shown):
        return (
            f"{_sent(action, shown)}. {held} are given up, and whoever waits behind its locks goes on. Its owner, who may have "
            "decided to commit it, finds it gone."
        )
    number = counted(len(shown), "transaction")
    return (
        f"The owner of {number} is fenced, with exactly this producer id and epoch, which aborts it. {held} are given up, "
        "and read_committed readers behind it go on. An owner that is still alive gets an error."
    )


def _sent(action: Action, shown: Sequence[Transaction]) -> str:
    """Return what is sent, for each resource manager in its own words."""
    names = list(dict.fromkeys(one.resource_manager for one in shown))
    numbers = {name: sum(one.resource_manager == name for one in shown) for name in names}
    return "; ".join(
        f"{_STATEMENTS.get((name, action), f'{action.value} in {name}')} is sent for {counted(number, 'transaction')}"
        f"{', each with its own producer id and epoch' if name == KAFKA else ''}"
        for name, number in numbers.items()
    )


def transactions_table(shown: Sequence[Transaction], zone: tzinfo) -> Html:
    """Return the transactions of an order, one line each, as they were shown."""
    return table(
        ["Transaction", "Producer id · epoch", "Slot", "Rows", "State", "Time left"],
        [
            [
                el("code", one.transaction),
                f"{one.producer_id} · {one.producer_epoch}" if one.producer_id is not None else "–",
                "–" if one.slot is None else str(one.slot),
                amount(one.rows),
                state_text(one.state),
                time_left(one.deadline_ms, zone),
            ]
            for one in shown
        ],
    )


def safety_facts(action: Action, shown: Sequence[Transaction], zone: tzinfo) -> Html:
    """Return the facts the verdict rests on, each once, with source and newest time."""
    verdicts = list(dict.fromkeys(one.verdict for one in shown))
    facts = list({(fact.fact, fact.source): fact for one in shown for fact in one.evidence}.values())
    lines = [fact_line(fact, zone) for fact in facts]
    if not lines:
        lines = [el("li", "The collector gave no evidence.")]
    return el("div", el("p", *[verdict_badge(verdict) for verdict in verdicts]), el("ul", *lines), class_="facts")


def fact_line(fact: Evidence, zone: tzinfo) -> Html:
    """Return one fact of a list, with its source and time."""
    source = f"{fact.source}, {clock_time(fact.at_ms, zone)}" if fact.at_ms else fact.source
    return el("li", fact.fact, " ", el("small", source))


def steps_table(result: OrderResult, shown: Sequence[Transaction], *, dry_run: bool) -> Html:
    """Return what was (or would be) sent for each transaction, and its answer."""
    names = {one.key: one.transaction for one in shown}
    head = ["Transaction", "Would be sent" if dry_run else "Sent", *([] if dry_run else ["Answer"]), "Detail"]
    return table(
        head,
        [
            [
                el("code", names.get(step.key, step.key)),
                step.will,
                *([] if dry_run else [badge(*_step_sign(step.outcome))]),
                step.detail,
            ]
            for step in result.steps
        ],
    )


def _step_sign(outcome: str) -> tuple[str, str, Tone]:
    sign, tone = _STEP_TONES.get(outcome, ("?", Tone.WARNING))
    return sign, outcome, tone


def result_line(action: Action, about: str, result: OrderResult) -> Html:
    """Return ``committed 4 of 4 in 31 ms · audit 512``."""
    word, good = _DONE[action]
    done = sum(step.outcome in good for step in result.steps)
    all_done = result.outcome == "accepted" and done == len(result.steps)
    said = f"{word} {done} of {len(result.steps)} in {duration(result.took_ms)} · audit {result.audit}"
    sign = "✔ " if all_done else "✖ "
    return el(
        "p", el("b", sign, said), f" · {about}", class_=f"result {'good' if all_done else 'urgent'}", role="status"
    )


def changes_table(shown: Sequence[Transaction], now: Sequence[Transaction | None]) -> Html:
    """Return what is different now from what was shown, one line for each transaction that changed."""
    lines = []
    for before, after in zip(shown, now, strict=True):
        if after is None:
            lines.append([el("code", before.transaction), "shown before", "not known any more"])
            continue
        if before.revision != after.revision:
            lines.append([el("code", before.transaction), _standing(before), _standing(after)])
    if not lines:
        return el("p", "The transactions themselves are as they were shown.")
    return table(["Transaction", "When you looked", "Now"], lines)


def _standing(one: Transaction) -> str:
    return f"{one.state.value} · {one.verdict.value} · epoch {one.producer_epoch}"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], class_: str = "rows") -> Html:
    """Return a table; every cell that is not markup is escaped."""
    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", *[el("th", name, scope="col") for name in head])),
            el("tbody", *[el("tr", *[el("td", cell) for cell in row]) for row in rows]),
            class_=class_,
        ),
        class_="scroll",
    )
