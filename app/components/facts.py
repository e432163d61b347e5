"""What sources say of a transaction, as lists of facts: evidence, its decision, its handle, the broker's view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import amount, at, duration
from indoubt.lifecycle.rows.row_json import Json, row_to_json
from indoubt.lifecycle.rows.transactions import TransactionDetailRow
from indoubt.lifecycle.verdicts import Evidence

_LENGTHS_END = "_ms"
_EPOCH_FROM_MS = 100_000_000_000
"""A smaller number is a length (at most 3 years), a larger number is a time (1973 or later)."""


def evidence_list(evidence: Iterable[Evidence]) -> Html:
    """Return the facts of a verdict, each with its source and time."""
    items = [fact_line(fact) for fact in evidence]
    return el("ul", *items) if items else el("p", "No evidence.", class_="empty")


def fact_line(fact: Evidence) -> Html:
    """Return one fact of a list, with its source and time."""
    return el("li", fact.fact, " ", el("small", fact.source, *([", ", at(fact.at_ms)] if fact.at_ms else [])))


def decision(detail: TransactionDetailRow) -> Html:
    """Return what the decision log says of a transaction."""
    if detail.decision is None:
        text = (
            "None in the decision log."
            if detail.managed
            else "None: it is not one of your pipelines, and only those write into the decision log."
        )
        return el("section", el("h3", "Decision"), el("p", text, class_="empty"))
    return facts("Decision", row_to_json(detail.decision))


def facts(title: str, values: Json | None) -> Html:
    """Return a section of names and values; names that end in ``_ms`` are times and lengths."""
    if not values:
        return el("section", el("h3", title), el("p", "Unknown.", class_="empty"))
    pairs = [
        (el("dt", name.removesuffix(_LENGTHS_END).replace("_", " ")), el("dd", _value(name, value)))
        for name, value in values.items()
    ]
    return el("section", el("h3", title), el("dl", *[part for pair in pairs for part in pair], class_="facts"))


def _value(name: str, value: object) -> object:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith(_LENGTHS_END):
            return at(value) if value >= _EPOCH_FROM_MS else duration(value)
        return amount(value) if name in ("rows", "bytes") else str(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value)
