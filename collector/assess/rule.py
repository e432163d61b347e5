"""What an alert rule is: what it finds, on which evidence, how long that must hold, and which card says the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.assess.findings import Finding
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.lifecycle.identity import transactional_ids
from indoubt.lifecycle.resource_manager_kinds import KAFKA
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention, AttentionKind
from indoubt.lifecycle.verdicts import Verdict


class Source(Enum):
    """Where evidence comes from: the observers that bring it, of which one is enough.

    While it cannot be seen, what rests on it is not taken for gone.
    """

    TRANSACTIONS = (ObserverKind.TRANSACTION_LOG, ObserverKind.TRANSACTION_POLLING)
    DECISIONS = (ObserverKind.DECISION_LOG,)
    CHECKPOINTS = (ObserverKind.LIFECYCLE_EVENTS,)
    PARTITIONS = (ObserverKind.PARTITIONS,)
    DATABASES = (ObserverKind.DATABASE,)
    OBSERVERS = ()
    """The observers themselves: just started, they cannot say yet whether they are down."""


Names = Callable[[Attention], Collection[str]]
Place = tuple[Names, str]
"""A card that has this name among these names of its."""


def no_place(alert: AlertRow) -> Iterable[Place]:
    """Say that no card says the same."""
    return ()


def no_cards(situation: Situation, before: Sequence[Attention]) -> Sequence[Attention]:
    """Return none: an alert that no card says is a card of its own."""
    return ()


def all_seen(situation: Situation) -> Collection[str]:
    """Say that the evidence of everything is seen."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its number and name, what it finds, how long that must hold, and the sources that its evidence comes from.

    ``for_ms`` is 0 where the rule's own limit already waits. ``consequence``: what follows while it lasts. ``places``: the cards
    that say the same as an alert of it, the best first. ``cards``: those that it makes before an alert fires, given the cards
    before them. ``unseen``: the subjects whose evidence cannot be seen now, though its sources can.
    """

    number: str
    name: str
    find: Callable[[Situation], Iterable[Finding]]
    consequence: str
    sources: tuple[Source, ...] = ()
    for_ms: int = 0
    places: Callable[[AlertRow], Iterable[Place]] = no_place
    unseen: Callable[[Situation], Collection[str]] = all_seen
    cards: Callable[[Situation, Sequence[Attention]], Sequence[Attention]] = no_cards


def unavailable_sources(situation: Situation) -> frozenset[Source]:
    """Return the sources that cannot be read now; one without an observer, or that does not exist, is not among them."""
    starting = (observer for observer in situation.observers if observer.state is ObserverState.STARTING)
    just_started = any(situation.now_ms - each.since_ms < situation.limits.observer_down_ms for each in starting)
    found = {Source.OBSERVERS} if just_started else set()
    for source in Source:
        sight = [
            sees(observer)
            for observer in situation.observers
            if observer.kind in source.value
            and observer.state is not ObserverState.ABSENT
            and not observer.source_is_missing
        ]
        # One stands in for the other only where transactions are polled.
        is_seen = any(sight) if source is Source.TRANSACTIONS else all(sight)
        if sight and not is_seen:
            found.add(source)
    return frozenset(found)


def sees(observer: ObserverStatus) -> bool:
    """Say whether an observer sees all of its source."""
    return observer.state is ObserverState.UP and observer.has_caught_up


def of_transaction(alert: AlertRow) -> Iterable[Place]:
    """Return the place of an alert whose subject is a transaction's key."""
    return ((transactions, alert.subject),)


def transactions(card: Attention) -> Collection[str]:
    """Return the keys of a card's transactions."""
    return card.keys


def open_ids(card: Attention) -> Collection[str]:
    """Return the transactional ids of those that hold partitions open."""
    return transactional_ids(KAFKA.name, card.keys) if _holds(card) else ()


def held_partitions(card: Attention) -> Collection[str]:
    """Return the partitions that a card's transactions hold open."""
    return card.partitions if _holds(card) else ()


def held_by_application(card: Attention) -> Collection[str]:
    """Return the same, each behind the name of the application."""
    return [f"{card.pipeline}|{partition}" for partition in held_partitions(card)]


def hanging_partitions(card: Attention) -> Collection[str]:
    """Return the partitions that what hangs holds open."""
    return card.partitions if card.verdict is Verdict.HANGING else ()


def batches(card: Attention) -> Collection[str]:
    """Return the batch of a card's transactions behind the name of its pipeline."""
    return () if card.batch is None else (f"{card.pipeline}|{card.batch}",)


def pipelines(card: Attention) -> Collection[str]:
    """Return the pipeline or job that a card says is not going on."""
    return (card.pipeline,) if card.kind is AttentionKind.PIPELINE else ()


def observers(card: Attention) -> Collection[str]:
    """Return the observer that a card is about."""
    return (card.target,) if card.kind is AttentionKind.OBSERVER else ()


def _holds(card: Attention) -> bool:
    return card.verdict is not Verdict.LOST and card.badge != "stalled"
