"""What incidents are made of: parts of all kinds in one order; and beside it what goes on by itself."""

from __future__ import annotations

from indoubt.collector.assess.attention.pipelines import pipeline_cards
from indoubt.collector.assess.attention.transactions import transaction_cards
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.rules.readers import Waits
from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.incidents import far, urgency
from indoubt.lifecycle.rows.overview import InProgress


def parts(situation: Situation) -> list[Attention]:
    """Return whatever needs attention: by deadline, then severity, then age."""
    waits = Waits(situation.partitions.blocked)
    cards = [*transaction_cards(situation, waits), *pipeline_cards(situation)]
    for rule in RULES.values():
        cards += rule.cards(situation, cards)
    return sorted(cards, key=urgency)


def in_progress(situation: Situation) -> tuple[InProgress, ...]:
    """Return what goes on by itself and needs nobody, one row an application, the oldest first."""
    needed = {key for group in situation.required for key in group.keys}
    found: dict[str, list[Judged]] = {}
    for item in situation.judged:
        if item.view.is_running and item.view.key not in needed:
            found.setdefault(item.view.pipeline, []).append(item)
    rows = [_row(name, members) for name, members in found.items()]
    return tuple(sorted(rows, key=lambda row: (far(row.oldest_opened_at_ms), row.pipeline)))


def _row(pipeline: str, members: list[Judged]) -> InProgress:
    oldest = min(members, key=lambda item: far(item.view.opened_ms)).view
    return InProgress(
        pipeline=pipeline,
        transactions=len(members),
        oldest_opened_at_ms=oldest.opened_ms,
        timeout_ms=oldest.timeout_ms,
    )
