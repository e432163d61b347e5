"""The sentences of an order by filter: what is known of its transactions, how far it is, and what became of each."""

from __future__ import annotations

from collections import Counter
from datetime import tzinfo

from app.client.filter_runs import FilterRun, Progress
from app.components.key_name import key_text
from app.components.markup import Html, el
from app.components.verdict_signs import verdict_badge
from app.dialogs.order_text import fact_line
from lifecycle.counted_nouns import counted
from lifecycle.orders import Action
from lifecycle.rows.orders import OrderStep, PreviewedCondition, PreviewedVerdict

REFUSED_SHOWN = 50
DONE = {
    Action.COMMIT: ("committed", ("committed", "already committed")),
    Action.ABORT: ("aborted", ("aborted",)),
}


def known(row: PreviewedVerdict, action: Action, zone: tzinfo) -> Html:
    """Return what is known of the transactions of one verdict, certainty and rule."""
    risky = (
        f", {row.loses_data:,} of them hold what an abort may lose" if row.loses_data and action is Action.ABORT else ""
    )
    size = f" {counted(row.transactions, 'transaction')} of {counted(row.pipelines, 'application')}{risky}"
    return el(
        "div",
        el("p", verdict_badge(row.verdict, row.certainty), size),
        el("p", el("small", "Evidence of the most urgent, ", el("code", row.example), ":")),
        el("ul", *[fact_line(fact, zone) for fact in row.evidence]),
        class_="facts",
    )


def in_condition(condition: PreviewedCondition) -> Html:
    """Return how many transactions take one condition, which, and their verdicts."""
    number = el("b", counted(len(condition.keys), "transaction"))
    verdicts = dict.fromkeys((row.verdict, row.certainty) for row in condition.summary)
    badges = [verdict_badge(*verdict) for verdict in verdicts]
    if not condition.confirm:
        return el("p", number, " for which nothing must be typed ", *badges)
    return el("p", number, " if the job is restored from ", el("code", condition.confirm), " or later ", *badges)


def how_far(run: FilterRun, progress: Progress) -> str:
    """Return how many of the transactions were sent."""
    stops = ", it stops after this part" if progress.halted else ""
    return f"{len(progress.steps):,} of {counted(len(run.order.preview.keys), 'transaction')}{stops}"


def in_one_line(run: FilterRun, progress: Progress) -> Html:
    """Return ``Abort of 2,000 transactions: 500 done``, and whether it goes on."""
    _, good = _done(run)
    done = sum(step.outcome in good for step in progress.steps)
    others, unsent = len(progress.steps) - done, len(run.order.preview.keys) - len(progress.steps)
    what = f"{run.order.action.value} of {counted(len(run.order.preview.keys), 'transaction')}"
    what = f"Dry run of a{'n' if what[0] == 'a' else ''} {what}" if run.order.dry_run else what.capitalize()
    is_good = progress.is_sending or not (others or unsent)
    return el(
        "p",
        el("b", "" if progress.is_sending else "✔ " if is_good else "✖ ", f"{what}: {done:,} done"),
        others > 0 and f" · {others:,} not done",
        unsent > 0 and f" · {unsent:,} {'to go' if progress.is_sending else 'not sent'}",
        f" · {run.order.words}",
        class_=f"result {'good' if is_good else 'urgent'}",
    )


def _done(run: FilterRun) -> tuple[str, tuple[str, ...]]:
    """Return the word for what an order does, and the outcomes of steps that did it."""
    word, good = DONE[run.order.action]
    return word, ("dry run",) if run.order.dry_run else good


def result(run: FilterRun, progress: Progress) -> list[Html]:
    """Return what became of an order that has ended or halted."""
    word, good = _done(run)
    outcomes = Counter("done" if step.outcome in good else step.outcome for step in progress.steps)
    number, done = len(run.order.preview.keys), outcomes.pop("done", 0)
    others = "".join(f" · {count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    unsent = number - len(progress.steps)
    audits = f" · audit {progress.audits[0]}" if progress.audits else ""
    audits += f" to {progress.audits[-1]}" if len(progress.audits) > 1 else ""
    said = (
        f"Dry run: nothing was sent. {done:,} of {number:,} would be {word}"
        if run.order.dry_run
        else f"{word} {done:,} of {number:,}"
    )
    is_good = done == number
    lines = [
        el(
            "p",
            el("b", "✔ " if is_good else "✖ ", said),
            others,
            unsent > 0 and f" · {unsent:,} not sent",
            audits,
            class_=f"result {'good' if is_good else 'urgent'}",
            role="status",
        )
    ]
    if progress.halted:
        lines.append(el("p", el("b", "It does not go on: "), progress.halted, class_="warn", role="alert"))
    why: dict[str, list[OrderStep]] = {}
    for step in progress.steps:
        if step.outcome not in good:
            why.setdefault(step.outcome, []).append(step)
    for outcome, steps in why.items():
        lines += _why(outcome, steps)
    return lines


def _why(outcome: str, steps: list[OrderStep]) -> list[Html]:
    items = [el("li", key_text(step.key), " ", el("small", step.detail)) for step in steps[:REFUSED_SHOWN]]
    more = len(steps) - len(items)
    return [
        el("h3", f"{outcome.capitalize()}: {len(steps):,}"),
        el("ul", *items),
        *([el("p", f"and {counted(more, 'other')}: Audit has all of them", class_="more")] if more else []),
    ]
