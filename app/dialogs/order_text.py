"""The sentences and tables of an order's dialog; all text from outside is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from indoubt.app.components.facts import fact_line
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_text
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import amount, duration, time_left
from indoubt.app.components.transaction_groups import rows_held
from indoubt.app.components.verdict_signs import Tone, WordSigns, state_text, verdict_badge, word_badge
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, KAFKA, WATCHED
from indoubt.lifecycle.rows.orders import OrderResult
from indoubt.lifecycle.rows.transactions import TransactionRow
from indoubt.lifecycle.verdicts import Evidence

MAX_NAMED = 2
_NAMES = ("transactional id", "branch name")
"""Sources of what a name tells: it makes nothing safe."""
_STEPS: WordSigns = {
    "committed": ("✔", Tone.GOOD, None),
    "already committed": ("✔", Tone.GOOD, None),
    "aborted": ("✔", Tone.GOOD, None),
    "dry run": ("○", Tone.CALM, None),
    "retry later": ("△", Tone.WARNING, None),
    "unknown": ("?", Tone.WARNING, None),
    "lost": ("✖", Tone.URGENT, None),
}
DONE = {
    Action.COMMIT: ("committed", frozenset({"committed", "already committed"})),
    Action.ABORT: ("aborted", frozenset({"aborted"})),
}


def question(what: str, until_ms: int | None, *known: object, how: Sequence[object]) -> Html:
    """Return the upper part of a dialog: what happens, the time left, what is known, and folded how it is done."""
    left = until_ms is not None and el("span", " Time left ", el("b", time_left(until_ms)))
    folded = el("details", el("summary", "How"), *how)
    return el("div", el("p", el("b", what), left, class_="what"), *known, folded, class_="order")


def what_happens(action: Action, shown: Sequence[TransactionRow], waiting: Sequence[str]) -> str:
    """Return in plain words what becomes of the rows, and which of the ``waiting`` groups read on."""
    rows, on = rows_held(shown), _read_on(waiting)
    if action is Action.COMMIT:
        return f"{_rows(shown, 'becomes visible', 'become visible')}{on}."
    if any(transaction.loses_data for transaction in shown):
        gone = _rows(shown, "is thrown away for good", "are thrown away for good")
        if any(transaction.resource_manager != KAFKA.name for transaction in shown):
            if all(transaction.resource_manager == FILE_SINK.name for transaction in shown):
                return f"{gone}, also if a job is then restored from a checkpoint that names it."
            return f"{gone}, also if the owner has decided to commit; sessions that wait for its locks go on."
        return f"{gone}{on}. If the program still lives, it gets an error."
    who = "the pipeline's next run" if shown[0].managed else "its application"
    again = f"{who} writes {'it' if rows == 1 else 'them'} again"
    return f"{_rows(shown, 'is thrown away', 'are thrown away')}, and {again}{on}."


def how(action: Action, shown: Sequence[TransactionRow]) -> str:
    """Return what is sent to whom, in the terms of the protocol."""
    hanging = [transaction for transaction in shown if transaction.is_hanging]
    if hanging:
        partitions = sorted({partition for transaction in hanging for partition in transaction.partitions})
        where = f"{counted(len(partitions), 'partition')}: {', '.join(partitions)}"
        if action is Action.COMMIT:
            return f"The missing commit marker is written to {where}."
        return (
            f"An abort marker is written to {where}. If the coordinator still has the transaction open, the coordinator aborts it "
            "instead."
        )
    if action is Action.COMMIT:
        return f"{_sent(action, shown)}. Nothing else changes."
    if shown[0].managed:
        return (
            "An abort decision is written to the decision log first. If a commit decision is already there, nothing else happens. "
            f"Otherwise {_sent(action, shown)}."
        )
    if any(transaction.resource_manager != KAFKA.name for transaction in shown):
        return f"{_sent(action, shown)}."
    number = counted(len(shown), "transaction")
    return f"The owner of {number} is fenced, with exactly this producer id and epoch, which aborts it."


def _rows(shown: Sequence[TransactionRow], does: str, do: str) -> str:
    """Return what becomes of the rows of an order's transactions."""
    rows = rows_held(shown)
    return rows_that(rows, does, do) if rows is not None else f"{'Its' if len(shown) == 1 else 'Their'} rows {do}"


def _read_on(waiting: Sequence[str]) -> str:
    if not waiting:
        return ""
    more = len(waiting) - MAX_NAMED
    names = [*waiting[:MAX_NAMED], *([f"{counted(more, 'more group')}"] if more > 0 else [])]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"; {listed} {'reads' if len(names) == 1 else 'read'} on"


def rows_that(rows: int | None, does: str, do: str) -> str:
    """Return what an order does to so many rows; None: their number is unknown."""
    return f"An unknown number of rows {do}" if rows is None else f"{counted(rows, 'row')} {does if rows == 1 else do}"


def _sent(action: Action, shown: Sequence[TransactionRow]) -> str:
    """Return what is sent to each resource manager, in that resource manager's terms."""
    names = list(dict.fromkeys(transaction.resource_manager for transaction in shown))
    numbers = {name: sum(transaction.resource_manager == name for transaction in shown) for name in names}
    return "; ".join(
        f"{_statement(action, name)} is sent for {counted(number, 'transaction')}"
        f"{', each with its own producer id and epoch' if name == KAFKA.name else ''}"
        for name, number in numbers.items()
    )


def _statement(action: Action, resource_manager: str) -> str:
    kind = WATCHED.get(resource_manager)
    if kind is None or action not in DONE:
        return f"{action.value} in {resource_manager}"
    return kind.commit_sends if action is Action.COMMIT else kind.abort_sends


def transactions_table(shown: Sequence[TransactionRow]) -> Html:
    """Return a table of an order's transactions as they were shown."""
    return table(
        ["Transaction", "Producer id · epoch", "Slot", "Rows", "State", "Time left"],
        [
            [
                el("code", transaction.transaction),
                f"{transaction.producer_id} · {transaction.producer_epoch}"
                if transaction.producer_id is not None
                else "–",
                "–" if transaction.slot is None else str(transaction.slot),
                amount(transaction.rows),
                state_text(transaction.state),
                time_left(transaction.deadline_ms),
            ]
            for transaction in shown
        ],
    )


def safety_facts(action: Action, shown: Sequence[TransactionRow]) -> Html:
    """Return the evidence of the verdicts, each fact once, with its source and newest time."""
    verdicts = list(dict.fromkeys((transaction.verdict, transaction.certainty) for transaction in shown))
    lines = [fact_line(fact) for fact in _facts(shown) if fact.source not in _NAMES]
    if not lines:
        lines = [el("li", "The collector sent no evidence.")]
    return el("div", el("p", *[verdict_badge(*verdict) for verdict in verdicts]), el("ul", *lines), class_="facts")


def named_by_ids(shown: Sequence[TransactionRow]) -> Html:
    """Return which part of its application each transaction is of, as its name says."""
    lines = [fact_line(fact) for fact in _facts(shown) if fact.source in _NAMES]
    return el("ul", *lines) if lines else el("span")


def _facts(shown: Sequence[TransactionRow]) -> Sequence[Evidence]:
    return list({(fact.fact, fact.source): fact for transaction in shown for fact in transaction.evidence}.values())


def steps_table(result: OrderResult, shown: Sequence[TransactionRow], *, dry_run: bool) -> Html:
    """Return a table of what was sent, or would be sent, for each transaction, and the answer."""
    names = {transaction.key: transaction.transaction for transaction in shown}
    has_details = any(step.detail for step in result.steps)
    head = ["Transaction", "Would be sent" if dry_run else "Sent"]
    head += [*([] if dry_run else ["Answer"]), *(["Detail"] if has_details else [])]
    return table(
        head,
        [
            [
                el("code", names[step.key]) if step.key in names else key_text(step.key),
                step.description,
                *([] if dry_run else [word_badge(_STEPS, step.outcome)]),
                *([step.detail] if has_details else []),
            ]
            for step in result.steps
        ],
    )


def result_line(action: Action, subject: str, result: OrderResult) -> Html:
    """Return ``committed 4 of 4 in 31 ms · audit 512``."""
    word, good = DONE[action]
    done = sum(step.outcome in good for step in result.steps)
    all_done = result.outcome == "accepted" and done == len(result.steps)
    summary = f"{word} {done} of {len(result.steps)} in {duration(result.took_ms)} · audit {result.audit}"
    sign = "✔ " if all_done else "✖ "
    return el(
        "p", el("b", sign, summary), f" · {subject}", class_=f"result {'good' if all_done else 'urgent'}", role="status"
    )


def refusal_text(refusal: Exception, names: Mapping[str, str]) -> str:
    """Return what a refusal says, as a sentence of its own, with the name of each thing instead of its key."""
    text = str(refusal)
    for key, name in names.items():
        text = text.replace(key, name)
    return text[:1].upper() + text[1:]


def changes_table(shown: Sequence[TransactionRow], now: Sequence[TransactionRow | None]) -> Html:
    """Return a table of the transactions that changed since they were shown."""
    lines = []
    for before, after in zip(shown, now, strict=True):
        if after is None:
            lines.append([el("code", before.transaction), _standing(before), "gone"])
            continue
        if before.revision != after.revision:
            lines.append([el("code", before.transaction), _standing(before), _standing(after)])
    if not lines:
        return el("p", "The transactions have not changed.")
    return table(["Transaction", "As shown", "Now"], lines)


def _standing(transaction: TransactionRow) -> str:
    return f"{transaction.state.value} · {transaction.verdict.value} · epoch {transaction.producer_epoch}"
