"""The list itself: the cards of all kinds in one order; and beside it what goes on by itself."""

from __future__ import annotations

from indoubt.collector.assess.attention.alerts import with_alerts
from indoubt.collector.assess.attention.pipelines import pipeline_cards
from indoubt.collector.assess.attention.transactions import transaction_cards
from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.rules.readers import Waits
from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.judging import Judged
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.attention import Attention
from indoubt.lifecycle.rows.overview import InProgress

_FAR = MAX_WHOLE_NUMBER


def attention(situation: Situation) -> tuple[Attention, ...]:
    """Return whatever needs attention: by deadline, then severity, then age."""
    waits = Waits(situation.partitions.blocked)
    cards = [*transaction_cards(situation, waits), *pipeline_cards(situation)]
    for rule in RULES.values():
        cards += rule.cards(situation, cards)
    return tuple(sorted(with_alerts(cards, situation), key=_urgency))


def in_progress(situation: Situation) -> tuple[InProgress, ...]:
    """Return what goes on by itself and needs nobody, one row an application, the oldest first."""
    needed = {key for group in situation.required for key in group.keys}
    found: dict[str, list[Judged]] = {}
    for item in situation.judged:
        if item.view.is_running and item.view.key not in needed:
            found.setdefault(item.view.pipeline, []).append(item)
    rows = [_row(name, members) for name, members in found.items()]
    return tuple(sorted(rows, key=lambda row: (_far(row.oldest_opened_at_ms), row.pipeline)))


def _row(pipeline: str, members: list[Judged]) -> InProgress:
    oldest = min(members, key=lambda item: _far(item.view.opened_ms)).view
    return InProgress(
        pipeline=pipeline,
        transactions=len(members),
        oldest_opened_at_ms=oldest.opened_ms,
        timeout_ms=oldest.timeout_ms,
    )


def _urgency(card: Attention) -> tuple[int, bool, int, str]:
    return (_far(card.deadline_ms), card.severity != Severity.CRITICAL.value, _far(card.since_ms), card.key)


def _far(at_ms: int | None) -> int:
    return _FAR if at_ms is None else at_ms
