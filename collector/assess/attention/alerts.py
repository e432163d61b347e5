"""Firing alerts: each named by the card that says the same, else a card of its own, one for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.rule import Names, transactions
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.situation import Situation
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention, AttentionKind


def with_alerts(cards: Sequence[Attention], situation: Situation) -> list[Attention]:
    """Return the cards with the alerts that say the same, and behind them cards of the alerts that none of them says."""
    places = _Places(cards)
    merged: dict[str, list[AlertRow]] = {}
    alone: dict[str, list[AlertRow]] = {}
    for alert in situation.alerts:
        place = places.of(alert)
        if place is None:
            alone.setdefault(alert.group, []).append(alert)
        else:
            merged.setdefault(place, []).append(alert)
    named = (_named(card, merged[card.key]) if card.key in merged else card for card in cards)
    return [*named, *_own_cards(alone, situation)]


class _Places:
    """Finds the card that an alert belongs to: the first that its rule names."""

    def __init__(self, cards: Sequence[Attention]) -> None:
        self._cards = cards
        self._by_name: dict[Names, dict[str, str]] = {}

    def of(self, alert: AlertRow) -> str | None:
        """Return the key of the card that says the same, or None."""
        places = RULES[alert.rule].places(alert)
        return next((found for names, name in places if (found := self._named(names).get(name))), None)

    def _named(self, names: Names) -> dict[str, str]:
        if names not in self._by_name:
            # Of several with this name the first.
            self._by_name[names] = {name: card.key for card in reversed(self._cards) for name in names(card)}
        return self._by_name[names]


def _named(card: Attention, alerts: Sequence[AlertRow]) -> Attention:
    is_critical = any(alert.severity == Severity.CRITICAL.value for alert in alerts)
    return replace(
        card,
        alerts=tuple(alert.key for alert in alerts),
        severity=Severity.CRITICAL.value if is_critical else card.severity,
    )


def _own_cards(groups: dict[str, list[AlertRow]], situation: Situation) -> list[Attention]:
    if not groups:
        return []
    deadlines = {item.view.key: item.view.deadline_ms for item in situation.judged}
    return [_own_card(alerts, deadlines) for alerts in groups.values()]


def _own_card(alerts: Sequence[AlertRow], deadlines: dict[str, int | None]) -> Attention:
    first = alerts[0]
    # A group has alerts of several rules: a transaction that is near its timeout may be overdue as well.
    keys = dict.fromkeys(
        name for alert in alerts for names, name in RULES[alert.rule].places(alert) if names is transactions
    )
    left = [at for key in keys if (at := deadlines.get(key)) is not None]
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    batch = first.labels.get("batch", "") if len(alerts) == 1 else ""
    return card(
        AttentionKind.ALERT,
        f"alert:{first.group}",
        "firing",
        severity=Severity.CRITICAL
        if any(alert.severity == Severity.CRITICAL.value for alert in alerts)
        else Severity.WARNING,
        pipeline=first.labels.get("pipeline", ""),
        batch=int(batch) if batch.isdecimal() else None,
        keys=tuple(keys),
        headline=f"{first.summary}{more}",
        since_ms=min(alert.since_ms for alert in alerts),
        deadline_ms=min(left, default=None),
        consequence=RULES[first.rule].consequence,
        target=first.key,
        partitions=tuple(sorted({name for alert in alerts if (name := alert.labels.get("partition"))})),
        alerts=tuple(alert.key for alert in alerts),
    )
