"""Audit: every order, who gave it, why, on which evidence, and its result. No entry can be edited."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.client.audit_entries import AuditEntry
from indoubt.app.components import downloads
from indoubt.app.components.markup import Html, el
from indoubt.app.components.object_names import key_link
from indoubt.app.components.paging import page_of
from indoubt.app.components.sorting import Sorting
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import written
from indoubt.app.components.verdict_signs import Tone, badge
from indoubt.app.screens import new_rows
from indoubt.app.screens.sections import search_field
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import Action

ROWS_A_PAGE = 50
WORDS = "audit-words"
_SORTING: Sorting[AuditEntry] = Sorting(
    name="audit-sort",
    default="When",
    keys={"Who": lambda row: row.who, "Action": lambda row: row.action, "Outcome": lambda row: row.outcome},
    texts=frozenset({"Who", "Action", "Outcome"}),
)
_OUTCOMES = {
    "accepted": ("✔", Tone.GOOD),
    "dry_run": ("○", Tone.CALM),
    "refused": ("⊘", Tone.WARNING),
    "failed": ("✖", Tone.URGENT),
}


def show() -> None:
    """Write the page."""
    live.auto_refresh(_audit, every_s=None)


def _audit() -> None:
    words = search_field(WORDS, "/ search: who, action, reason, id …")
    rows = live.collector().audit(words=words)
    more = f", {counted(rows.more, 'earlier order')} not shown" if rows.more else ""
    live.write(
        el(
            "h3",
            "Audit",
            el("small", f" {counted(len(rows), 'order')}, newest first{more}; entries are never edited"),
        )
    )
    new_rows.show("audit", [row.at_ms for row in rows], words)
    if not rows:
        none = "No order has this text in it." if words else "No order has been given yet."
        live.write(el("p", none, class_="empty"))
        return
    ordered = _SORTING.ordered(rows)
    downloads.offer("audit", lambda: ordered)
    shown = page_of(ordered, page_size=ROWS_A_PAGE, key="audit-page")
    with st.container(key="audit-table"):
        live.write(_table(shown))


def _table(rows: Sequence[AuditEntry]) -> Html:
    zone = live.zone()
    return table(
        ["Audit", "When", "Who", "Action", "Reason", "Outcome", "Detail", "Targets and evidence"],
        [
            [
                str(row.audit),
                written(row.at_ms, zone),
                row.who,
                row.action,
                row.reason,
                badge(*_outcome(row.outcome)),
                [el("div", line) for line in row.detail],
                _evidence(row),
            ]
            for row in rows
        ],
        "rows audit",
        sorting=_SORTING,
    )


def _outcome(outcome: str) -> tuple[str, str, Tone]:
    sign, tone = _OUTCOMES.get(outcome, ("?", Tone.NOTICE))
    return sign, outcome.replace("_", " "), tone


def _evidence(row: AuditEntry) -> Html:
    first = key_link(row.keys[0]) if len(row.keys) == 1 else None
    folded = el(
        "details",
        el("summary", f"{_named(row)}, {counted(len(row.evidence), 'fact')}"),
        el("ul", *[el("li", key_link(key)) for key in row.keys]),
        el("ul", *[el("li", line) for line in row.evidence]),
    )
    return el("div", first, folded)


def _named(row: AuditEntry) -> str:
    if row.action in (Action.RESTART.value, Action.START.value, Action.STOP.value):
        return counted(len(row.keys), "pipeline")
    if row.action == Action.SETTLE.value and row.keys:
        # The batch's own key comes before the keys of its transactions.
        return ", ".join(["1 batch", *([counted(len(row.keys) - 1, "transaction")] if len(row.keys) > 1 else [])])
    return counted(len(row.keys), "transaction")
