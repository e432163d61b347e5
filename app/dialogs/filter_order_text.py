"""The sentences of an order by filter: what is known of its transactions, how far it is, and what became of each."""

from __future__ import annotations

from indoubt.app.components.facts import fact_line
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_text
from indoubt.app.components.verdict_signs import verdict_badge
from indoubt.app.dialogs.order_text import DONE
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.orders import OrderRun, OrderStep, PreviewedCondition, PreviewedVerdict

REFUSED_SHOWN = 50


def known(row: PreviewedVerdict, action: Action) -> Html:
    """Return what is known of the transactions of one verdict, certainty and rule."""
    risky = (
        f", {row.loses_data:,} of them hold what an abort may lose" if row.loses_data and action is Action.ABORT else ""
    )
    size = f" {counted(row.transactions, 'transaction')} of {counted(row.pipelines, 'application')}{risky}"
    return el(
        "div",
        el("p", verdict_badge(row.verdict, row.certainty), size),
        el("p", el("small", "Evidence of the most urgent, ", el("code", row.example), ":")),
        el("ul", *[fact_line(fact) for fact in row.evidence]),
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


def how_far(run: OrderRun) -> str:
    """Return how many of the transactions were sent."""
    stops = ", it stops after this part" if run.halted else ""
    return f"{run.sent:,} of {counted(run.transactions, 'transaction')}{stops}"


def in_one_line(run: OrderRun) -> Html:
    """Return ``Abort of 2,000 transactions: 500 done``, and whether it goes on."""
    others, unsent = run.sent - run.done, run.transactions - run.sent
    what = f"{run.action.value} of {counted(run.transactions, 'transaction')}"
    what = f"Dry run of a{'n' if what[0] == 'a' else ''} {what}" if run.dry_run else what.capitalize()
    is_good = not run.is_over or not (others or unsent)
    return el(
        "p",
        el("b", "" if not run.is_over else "✔ " if is_good else "✖ ", f"{what}: {run.done:,} done"),
        others > 0 and f" · {others:,} not done",
        unsent > 0 and f" · {unsent:,} {'not sent' if run.is_over else 'to go'}",
        f" · {run.what}",
        class_=f"result {'good' if is_good else 'urgent'}",
    )


def result(run: OrderRun) -> list[Html]:
    """Return what became of an order that is over."""
    word, done_words = DONE[run.action]
    good = ("dry run",) if run.dry_run else done_words
    others = "".join(
        f" · {count:,} {outcome}" for outcome, count in sorted(run.outcomes.items()) if outcome not in good
    )
    unsent = run.transactions - run.sent
    audits = f" · audit {run.audits[0]}" if run.audits else ""
    audits += f" to {run.audits[-1]}" if len(run.audits) > 1 else ""
    said = (
        f"Dry run: nothing was sent. {run.done:,} of {run.transactions:,} would be {word}"
        if run.dry_run
        else f"{word} {run.done:,} of {run.transactions:,}"
    )
    is_good = run.done == run.transactions
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
    if run.halted:
        lines.append(el("p", el("b", "It does not go on: "), run.halted, class_="warn", role="alert"))
    why: dict[str, list[OrderStep]] = {}
    for step in run.steps:
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
