"""Audit: every order, when it was given and when it ended, who gave it, why, on which evidence. No entry can be edited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import streamlit as st

from indoubt.app import live
from indoubt.app.components import list_menu
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_link
from indoubt.app.components.paging import choose_page, page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.stacked_bars import Bars, stacked_bars
from indoubt.app.components.tables import Moment, table
from indoubt.app.components.time_text import clock_time, duration
from indoubt.app.components.verdict_signs import OUTCOMES, badge, outcome_sign
from indoubt.app.screens import new_rows
from indoubt.app.screens.sections import search_field
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.rows.records import AuditRow

ROWS_A_PAGE = 20
WORDS = "audit-words"
_SORTING: Sorting[AuditRow] = Sorting(
    name="audit-sort",
    default="When",
    keys={"Who": lambda row: row.who, "Action": lambda row: row.action, "Outcome": lambda row: row.outcome},
    texts=frozenset({"Who", "Action", "Outcome"}),
)
_SHORT_MS = 1_000
"""What an order took is said where a person had to wait."""


def show() -> None:
    """Write the page."""
    live.auto_refresh(_audit, every_s=None)


def _audit() -> None:
    with list_menu.line("audit"):
        words = search_field(WORDS, "who, action, reason, id …")
        rows = live.collector().audit(words=words)
        ordered = _SORTING.ordered(rows)
        list_menu.show("audit", lambda: ordered, page_size=ROWS_A_PAGE)
    more = f", {counted(rows.more, 'earlier order')} not shown" if rows.more else ""
    live.write(
        el(
            "h3",
            "Audit",
            el("small", f" {counted(len(rows), 'order')}, newest first{more}; entries are never edited"),
        )
    )
    new_rows.show("audit", rows, words=words)
    if not rows:
        none = "No order has this text in it." if words else "No order has been given yet."
        live.write(el("p", none, class_="empty"))
        return
    given = Bars.of((row.at_ms if row.given_at_ms is None else row.given_at_ms, row.outcome) for row in rows)
    words_of = {row.outcome: row.outcome.replace("_", " ") for row in rows} | {
        name: word for name, (_, word, _) in OUTCOMES.items()
    }
    with st.container(key="audit-chart"):
        alt = "Orders over time by outcome"
        live.write(
            stacked_bars(given, words_of, text=lambda number: counted(number, "order"), alt=alt, zone=live.zone())
        )
    with st.container(key="audit-table"):
        live.write(_table(page_of(ordered, page_size=ROWS_A_PAGE)))
    choose_page(ordered, page_size=ROWS_A_PAGE, key="audit-page")


def _table(rows: Sequence[AuditRow]) -> Html:
    return table(
        ["Audit", "When", "Who", "Action", "Reason", "Outcome", "Detail", "Targets and evidence"],
        [
            [
                str(row.audit),
                Moment(row.at_ms if row.given_at_ms is None else row.given_at_ms),
                row.who,
                row.action,
                row.reason,
                _outcome(row, live.zone()),
                [el("div", line) for line in detail_lines(row)],
                _evidence(row),
            ]
            for row in rows
        ],
        "rows audit",
        sorting=_SORTING,
        zone=live.zone(),
    )


def _outcome(row: AuditRow, zone: tzinfo) -> list[Html]:
    """Return how an order ended, after how long, and when."""
    sign, word, tone = outcome_sign(row.outcome)
    took_ms = row.at_ms - row.given_at_ms if row.given_at_ms is not None else 0
    if took_ms < _SHORT_MS:
        return [badge(sign, word, tone)]
    took = f"{word} in {duration(took_ms)}" if row.outcome == "accepted" else f"{word} after {duration(took_ms)}"
    return [badge(sign, took, tone), el("small", " at ", clock_time(row.at_ms, zone))]


def _evidence(row: AuditRow) -> Html:
    first, facts = key_link(row.keys[0]) if len(row.keys) == 1 else None, evidence_lines(row)
    folded = el(
        "details",
        el("summary", f"{_named(row)}, {counted(len(facts), 'fact')}"),
        el("ul", *[el("li", key_link(key)) for key in row.keys]),
        el("ul", *[el("li", line) for line in facts]),
    )
    return el("div", first, folded)


def _named(row: AuditRow) -> str:
    if row.action in (Action.RESTART.value, Action.START.value, Action.STOP.value):
        return counted(len(row.keys), "pipeline")
    if row.action == Action.SETTLE.value and row.keys:
        # The batch's own key comes before the keys of its transactions.
        return ", ".join(["1 batch", *([counted(len(row.keys) - 1, "transaction")] if len(row.keys) > 1 else [])])
    return counted(len(row.keys), "transaction")


def detail_lines(row: AuditRow) -> list[str]:
    """Return how an order was carried out, each line once: its steps, or a text."""
    try:
        steps = json.loads(row.detail)
    except ValueError:
        return row.detail.splitlines()
    return list(dict.fromkeys(line for step in steps for line in _lines(step)))


def evidence_lines(row: AuditRow) -> list[str]:
    """Return on what an order rested, as lines of text, whatever their shape."""
    return [line for fact in row.evidence for line in _lines(fact)]


def _lines(value: Any) -> list[str]:
    if isinstance(value, Mapping) and "fact" in value:
        return [f"{value['fact']} ({value['source']})"]
    if isinstance(value, Mapping) and "description" in value:
        more = f" ({value['detail']})" if value["detail"] else ""
        return [f"{value['description']}: {value['outcome']}{more}"]
    if isinstance(value, Mapping):
        return [f"{name}: {line}" for name, inner in value.items() for line in _lines(inner)]
    if isinstance(value, list):
        return [line for inner in value for line in _lines(inner)]
    return [] if value is None else [str(value)]
