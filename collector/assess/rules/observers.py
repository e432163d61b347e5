"""The rule about observers that do not see their sources, and their cards; a history that cannot be written has one too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.findings import SOURCES_GROUP, Finding, Severity
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import DECIDING_OBSERVERS
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.attention import Attention, AttentionKind
from indoubt.lifecycle.verdicts import Evidence

OBSERVERS, HISTORY = "observers", "history"


def a9_observer_down(situation: Situation) -> Iterator[Finding]:
    """An observer has not seen its source for longer than the limit."""
    for observer in situation.observers:
        if not _is_silent(observer, situation):
            continue
        yield Finding(
            subject=observer.name,
            group=SOURCES_GROUP,
            severity=_severity(observer),
            summary=f"the collector does not see {observer.name!r}: {_follows(observer)}",
            evidence=(Evidence(_why(observer), OBSERVERS, observer.since_ms),),
            subject_labels={"observer": observer.name},
            object_path=page_paths.COLLECTOR,
        )


def observer_cards(situation: Situation, before: Sequence[Attention]) -> list[Attention]:
    """Return a card for each observer that does not see its source, at once where it says so; and one for history."""
    found = [
        _card(one, situation.now_ms)
        for one in situation.observers
        if one.state is ObserverState.DOWN or _is_silent(one, situation)
    ]
    return [*found, _history_card(situation.history_error)] if situation.history_error else found


def existing(situation: Situation) -> list[ObserverStatus]:
    """Return the observers whose source exists."""
    return [observer for observer in situation.observers if observer.state is not ObserverState.ABSENT]


def up(situation: Situation) -> list[ObserverStatus]:
    """Return the observers that see their source."""
    return [one for one in situation.observers if one.state is ObserverState.UP and not _is_silent(one, situation)]


def _is_silent(observer: ObserverStatus, situation: Situation) -> bool:
    if observer.state is ObserverState.ABSENT:
        return False
    is_up = observer.state is ObserverState.UP
    unseen_ms = (observer.delay_ms or 0) if is_up else situation.now_ms - observer.since_ms
    return unseen_ms >= max(situation.limits.observer_down_ms, 2 * observer.rest_ms if is_up else 0)


def _severity(observer: ObserverStatus) -> Severity:
    return Severity.CRITICAL if observer.kind in DECIDING_OBSERVERS else Severity.WARNING


def _why(observer: ObserverStatus) -> str:
    return observer.error or "it does not answer"


def _follows(observer: ObserverStatus) -> str:
    is_deciding = observer.kind in DECIDING_OBSERVERS
    return "no verdict can be trusted" if is_deciding else "a part of the evidence is missing"


def _card(observer: ObserverStatus, now_ms: int) -> Attention:
    is_up = observer.state is ObserverState.UP
    return card(
        kind=AttentionKind.OBSERVER,
        key=f"observer:{observer.name}",
        badge="silent" if is_up else observer.state.value,
        group=SOURCES_GROUP,
        severity=_severity(observer).value,
        headline=f"The collector does not see {observer.name!r}: {_why(observer)}.",
        since_ms=now_ms - (observer.delay_ms or 0) if is_up else observer.since_ms,
        consequence=f"{_follows(observer).capitalize()}, and no alert that rests on it fires or ends.",
        target=observer.name,
    )


def _history_card(error: str) -> Attention:
    return card(
        kind=AttentionKind.OBSERVER,
        key=f"observer:{HISTORY}",
        badge="not written",
        group=SOURCES_GROUP,
        severity=Severity.CRITICAL.value,
        headline=f"History cannot be written: {error}.",
        since_ms=None,
        consequence="No order is carried out and no receiver is notified; what is seen stays in memory alone.",
        target=HISTORY,
    )


A9 = Rule(
    number="A9",
    name="observer down",
    find=a9_observer_down,
    consequence="What the collector shows may be incomplete.",
    sources=(Source.OBSERVERS,),
    cards=observer_cards,
)
