"""Firing alerts: each named by the card that says the same, else a card of its own, one for each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.assess.attention.situation import CRITICAL, WARNING, Situation
from lifecycle.counted_nouns import counted
from lifecycle.identity import transactional_ids
from lifecycle.resource_manager_kinds import KAFKA
from lifecycle.rows.alerts import AlertRow
from lifecycle.rows.attention import Attention, AttentionKind, Remedy
from lifecycle.verdicts import Verdict

_OF_TRANSACTION = frozenset({"A1", "A2", "A7", "A12"})
_OF_PIPELINE = frozenset({"A5", "A6"})
CONSEQUENCES = {
    "A1": "The broker aborts it at its timeout.",
    "A2": "Its rows stay invisible, and an abort loses them.",
    "A3": "Readers of the partition wait for ever: no timeout ends it.",
    "A4": "These readers see nothing new until the transaction ends.",
    "A5": "What is aborted is written again and again, and readers wait for it.",
    "A6": "Nothing new becomes visible until a checkpoint completes.",
    "A7": "Readers never see these rows until they are written again.",
    "A8": "Each id stays in its coordinator's memory for days, and the brokers run out of it.",
    "A9": "What the collector shows rests on a part of the evidence.",
    "A10": "The two contradict each other until the batch is finished.",
    "A11": "The log forgets decisions that still count, and their rows are written twice.",
    "A12": "Readers count these rows twice.",
    "A13": "Its cause is still there, and it acts again.",
    "A14": "Nothing is done about it until a person decides; in Kafka its timeout ends it.",
    "A15": "Whether its transactions are to be committed is not known, and their timeouts abort them.",
    "A16": "Standing orders act on nothing while it lasts.",
}
"""What happens if nobody acts, by the number of the rule."""


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
    """Finds the card that an alert belongs to."""

    def __init__(self, cards: Iterable[Attention]) -> None:
        self._by_transaction: dict[str, str] = {}
        self._by_partition: dict[str, list[Attention]] = {}
        self._ids: dict[str, set[str]] = {}
        self._by_batch: dict[tuple[str, str], str] = {}
        self._hanging: dict[str, str] = {}
        self._pipelines: dict[str, str] = {}
        self._observers: dict[str, str] = {}
        for card in cards:
            if card.kind is AttentionKind.PIPELINE:
                self._pipelines[card.pipeline] = card.key
            elif card.kind is AttentionKind.OBSERVER:
                self._observers[card.target] = card.key
            else:
                self._note_transactions(card)

    def _note_transactions(self, card: Attention) -> None:
        for key in card.keys:
            self._by_transaction.setdefault(key, card.key)
        holds = card.verdict is not Verdict.LOST and card.badge != "stalled"
        for partition in card.partitions if holds else ():
            self._by_partition.setdefault(partition, []).append(card)
            if card.verdict is Verdict.HANGING:
                self._hanging.setdefault(partition, card.key)
        if card.batch is not None:
            self._by_batch.setdefault((card.pipeline, str(card.batch)), card.key)

    def of(self, alert: AlertRow) -> str | None:
        """Return the key of the card that says the same, or None."""
        labels, subject = alert.labels, alert.key.partition("|")[2]
        pipeline, partition = labels.get("pipeline", ""), labels.get("partition", "")
        if alert.rule in _OF_TRANSACTION:
            return self._by_transaction.get(subject)
        if alert.rule in _OF_PIPELINE:
            return self._pipelines.get(pipeline)
        match alert.rule:
            case "A3":
                return self._hanging.get(partition)
            case "A4":
                return self._holder(partition, labels.get("transaction", ""), pipeline)
            case "A9":
                return self._observers.get(labels.get("observer", ""))
            case "A10":
                return self._by_batch.get((pipeline, labels.get("batch", "")))
        return None

    def _holder(self, partition: str, transaction: str, pipeline: str) -> str | None:
        """Return the card of what holds the partition: the transaction's, its application's, or the one of those who wait."""
        cards = self._by_partition.get(partition, ())
        if not transaction and not pipeline:
            return next((card.key for card in cards), None)
        of_transaction = (card for card in cards if transaction and transaction in self._ids_of(card))
        others = (card for card in cards if card.pipeline == pipeline or card.kind is AttentionKind.READERS)
        return next((card.key for card in (*of_transaction, *others)), None)

    def _ids_of(self, card: Attention) -> set[str]:
        if card.key not in self._ids:
            self._ids[card.key] = transactional_ids(KAFKA.name, card.keys)
        return self._ids[card.key]


def _named(card: Attention, alerts: Sequence[AlertRow]) -> Attention:
    is_critical = any(alert.severity == CRITICAL for alert in alerts)
    return replace(
        card, alerts=tuple(alert.key for alert in alerts), severity=CRITICAL if is_critical else card.severity
    )


def _own_cards(groups: dict[str, list[AlertRow]], situation: Situation) -> list[Attention]:
    if not groups:
        return []
    deadlines = {item.view.key: item.view.deadline_ms for item in situation.judged}
    return [
        _ending_card(alerts)
        if all(alert.absent_at_ms is not None for alert in alerts)
        else _own_card(alerts, deadlines)
        for alerts in groups.values()
    ]


def _ending_card(alerts: Sequence[AlertRow]) -> Attention:
    """Return the card of alerts that are not found any more: what each of them says is over, and nothing is left to do."""
    names = ", ".join(dict.fromkeys(alert.name for alert in alerts))
    number, is_one = counted(len(alerts), "alert"), len(alerts) == 1
    return replace(
        _own_card(alerts, {}),
        badge="ending",
        severity=WARNING,
        headline=f"{number} {'is' if is_one else 'are'} not found any more: {names}.",
        since_ms=max(alert.absent_at_ms or 0 for alert in alerts),
        consequence=f"{'It is' if is_one else 'They are'} resolved in a moment, unless found again.",
    )


def _own_card(alerts: Sequence[AlertRow], deadlines: dict[str, int | None]) -> Attention:
    first = alerts[0]
    # A group has alerts of several rules: a transaction that is near its timeout may be overdue as well.
    keys = dict.fromkeys(alert.key.partition("|")[2] for alert in alerts if alert.rule in _OF_TRANSACTION)
    left = [at for key in keys if (at := deadlines.get(key)) is not None]
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    batch = first.labels.get("batch", "") if len(alerts) == 1 else ""
    return Attention(
        key=f"alert:{first.group}",
        kind=AttentionKind.ALERT,
        badge="firing",
        verdict=None,
        certainty=None,
        severity=CRITICAL if any(alert.severity == CRITICAL for alert in alerts) else WARNING,
        pipeline=first.labels.get("pipeline", ""),
        batch=int(batch) if batch.isdecimal() else None,
        keys=tuple(keys),
        headline=f"{first.summary}{more}",
        waits=(),
        since_ms=min(alert.since_ms for alert in alerts),
        deadline_ms=min(left, default=None),
        consequence=CONSEQUENCES[first.rule],
        remedy=Remedy.OPEN,
        target=first.key,
        rows=None,
        partitions=tuple(sorted({name for alert in alerts if (name := alert.labels.get("partition"))})),
        alerts=tuple(alert.key for alert in alerts),
    )
