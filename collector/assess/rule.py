"""What an alert rule is: what it finds, on which evidence, and how long that must hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from indoubt.collector.assess.findings import Finding
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.lifecycle.rows.attention import Attention


class Source(Enum):
    """Where evidence comes from: the observers that bring it, of which one is enough.

    While it cannot be seen, what rests on it is not taken for gone.
    """

    TRANSACTIONS = (ObserverKind.TRANSACTION_LOG, ObserverKind.TRANSACTION_POLLING)
    DECISIONS = (ObserverKind.DECISION_LOG,)
    CHECKPOINTS = (ObserverKind.LIFECYCLE_EVENTS,)
    PARTITIONS = (ObserverKind.PARTITIONS,)
    DATABASES = (ObserverKind.DATABASE,)
    CONTROL_TOPICS = (ObserverKind.ICEBERG_CONNECT,)
    OBSERVERS = ()
    """The observers themselves: just started, they cannot say yet whether they are down."""


def no_cards(situation: Situation, before: Sequence[Attention]) -> Sequence[Attention]:
    """Return none: its incident begins when its alert fires."""
    return ()


def all_seen(situation: Situation) -> Collection[str]:
    """Say that the evidence of everything is seen."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its number and name, what it finds, how long that must hold, and the sources that its evidence comes from.

    ``for_ms`` is 0 where the rule's own limit already waits. ``consequence``: what follows while it lasts. ``cards``: parts of
    incidents that it makes before an alert fires, given those before them. ``unseen``: the subjects whose evidence cannot be
    seen now, though its sources can.
    """

    number: str
    name: str
    find: Callable[[Situation], Iterable[Finding]]
    consequence: str
    sources: tuple[Source, ...] = ()
    for_ms: int = 0
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
