"""Standing orders, on page Collector: what is done without a person, and the button that stops all of it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from indoubt.app import live
from indoubt.app.components.markup import Html, el
from indoubt.app.components.tables import table
from indoubt.app.components.time_text import ago, exact
from indoubt.app.components.verdict_signs import Tone, WordSigns, word_badge
from indoubt.app.dialogs import standing_orders_dialog
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.standing_orders import StandingOrderRow

_SIGNS: WordSigns = {
    "held back": ("△", Tone.URGENT, None),
    "stopped": ("⊘", Tone.WARNING, None),
    "dry run": ("○", Tone.CALM, None),
    "acts": ("✔", Tone.GOOD, None),
}


def show() -> None:
    """Write the table and the button; nothing where the collector was given no file of standing orders."""
    rows = live.collector().standing_orders()
    if not rows:
        return
    stopped = rows[0].state == "stopped"
    with st.container(key="standing-orders"):
        live.write(el("h3", "Standing orders", el("small", *_headline(rows))))
        live.write(_table(rows))
        standing_orders_dialog.DIALOG.switch_button(stopped=stopped)


def _headline(rows: Sequence[StandingOrderRow]) -> list[object]:
    first = rows[0]
    switched = [f" by {first.switched_by}, ", exact(first.switched_at_ms)] if first.switched_at_ms else []
    if first.state == "stopped":
        return [" all stopped", *switched, ": nothing is done without a person"]
    started = ["; started", *switched] if switched else []
    return [f" {counted(len(rows), 'order')} of {first.owner}: what the collector does without a person", *started]


def _table(rows: Sequence[StandingOrderRow]) -> Html:
    return table(
        ["Order", "State", "Does", "Applications", "When", "Last hour", "Last", "Held back"],
        [
            [
                row.name,
                word_badge(_SIGNS, row.state),
                row.act,
                ", ".join(row.applications),
                row.when,
                f"{row.acts} of {row.most_per_hour}, {counted(row.dry_runs, 'dry run')}",
                el("span", ago(row.last_at_ms)) if row.last_at_ms is not None else "–",
                f"{row.held}: {row.why}" if row.held else "–",
            ]
            for row in rows
        ],
    )
