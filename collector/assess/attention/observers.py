"""Cards about what the collector cannot see, or cannot keep."""

from __future__ import annotations

from collector.assess.situation import CRITICAL, WARNING, Situation
from collector.records.observer_kind import DECIDING_OBSERVERS
from collector.sources.source import ObserverState, ObserverStatus
from lifecycle.rows.attention import Attention, AttentionKind, Remedy

HISTORY = "history"


def observer_cards(situation: Situation) -> list[Attention]:
    """Return a card for each observer that does not see its source, and one for a history that cannot be written."""
    limit_ms, now_ms = situation.limits.observer_down_ms, situation.now_ms
    found = [
        _card(one, now_ms)
        for one in situation.observers
        if one.state is ObserverState.DOWN or _unseen_ms(one, now_ms) >= limit_ms
    ]
    if situation.history_error:
        found.append(_history_card(situation.history_error))
    return found


def existing(situation: Situation) -> list[ObserverStatus]:
    """Return the observers whose source exists."""
    return [observer for observer in situation.observers if observer.state is not ObserverState.ABSENT]


def up(situation: Situation) -> list[ObserverStatus]:
    """Return the observers that see their source."""
    limit_ms, now_ms = situation.limits.observer_down_ms, situation.now_ms
    return [one for one in situation.observers if one.state is ObserverState.UP and _unseen_ms(one, now_ms) < limit_ms]


def _unseen_ms(observer: ObserverStatus, now_ms: int) -> int:
    if observer.state is ObserverState.ABSENT:
        return 0
    return observer.delay_ms or 0 if observer.state is ObserverState.UP else now_ms - observer.since_ms


def _card(observer: ObserverStatus, now_ms: int) -> Attention:
    is_deciding = observer.kind in DECIDING_OBSERVERS
    state = observer.state.value if observer.state is not ObserverState.UP else "silent"
    since_ms = observer.since_ms if observer.state is not ObserverState.UP else now_ms - (observer.delay_ms or 0)
    return Attention(
        key=f"observer:{observer.name}",
        kind=AttentionKind.OBSERVER,
        badge=state,
        verdict=None,
        certainty=None,
        severity=CRITICAL if is_deciding else WARNING,
        pipeline="",
        batch=None,
        keys=(),
        headline=f"The collector does not see {observer.name!r}: {observer.error or 'it does not answer'}.",
        waits=(),
        since_ms=since_ms,
        deadline_ms=None,
        consequence=(
            "No verdict can be trusted, and no alert that rests on it fires or ends."
            if is_deciding
            else "A part of the evidence is missing, and no alert that rests on it fires or ends."
        ),
        remedy=Remedy.OPEN,
        target=observer.name,
        rows=None,
        partitions=(),
        alerts=(),
    )


def _history_card(error: str) -> Attention:
    return Attention(
        key=f"observer:{HISTORY}",
        kind=AttentionKind.OBSERVER,
        badge="not written",
        verdict=None,
        certainty=None,
        severity=CRITICAL,
        pipeline="",
        batch=None,
        keys=(),
        headline=f"History cannot be written: {error}.",
        waits=(),
        since_ms=None,
        deadline_ms=None,
        consequence="No order is carried out and no receiver is notified; what is seen is kept in memory alone.",
        remedy=Remedy.OPEN,
        target=HISTORY,
        rows=None,
        partitions=(),
        alerts=(),
    )
