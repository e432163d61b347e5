"""Lists of undone transactions go on in history where memory ends: newest end first, a part at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from indoubt.collector.facts.fold import put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import our_id
from indoubt.collector.facts.transaction_pages import EndKey, end_sort_key
from indoubt.collector.history import row_coding, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.abort_causes import AbortClues
from indoubt.collector.verdicts.data_loss import Loss, LossVerdict
from indoubt.collector.views.aborts_and_losses import of_all_history, with_its_replay
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import AROUND_MS, MOST_RECORDS, pasts_of, views_in
from indoubt.collector.views.past_transactions import windows_ms
from indoubt.collector.views.search import BUDGET_S, beginnings
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.states import ROLLED_BACK

AT_ONCE = 100
"""A page that has fewer out of memory is filled up to so many out of history."""
Item = TypeVar("Item", AbortClues, Loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneList(Generic[Item]):
    """What a list asks for.

    ``in_memory``: up to so many that fit behind a place, newest first, and how many more. ``in_history``: these ones, in any
    order, each with its identity. ``fits``: whether one of history is asked for. ``since_ms``: those that ended since (epoch ms).
    """

    in_memory: Callable[[EndKey | None, int], tuple[list[Item], int]]
    in_history: Callable[[Sequence[BrokerIdentity]], list[tuple[BrokerIdentity, Item]]]
    fits: Callable[[Item], bool]
    pipeline: str | None = None
    since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UndonePage(Generic[Item]):
    """Some undone transactions, newest end first; ``more``: so many at least are behind ``last``."""

    found: list[Item]
    more: int
    last: EndKey | None


def undone_page(
    current: CurrentState,
    store: Store,
    wanted: UndoneList[Item],
    *,
    before: EndKey | None,
    limit: int,
) -> UndonePage[Item]:
    """Return a page of a list. It may hold less than its limit though more is behind it.

    Raises StoreFailed.
    """
    found, more = wanted.in_memory(before, limit)
    with current.reading() as state:
        evicted_until_ms = state.ended.evicted_until_ms
    if not evicted_until_ms:
        return UndonePage(found=found, more=more, last=end_sort_key(found[-1].view) if found else None)
    # Behind this place memory has some only: those that are lost, and what came late.
    end: EndKey = (evicted_until_ms + 1, "", 0, 0)
    found = [item for item in found if end_sort_key(item.view) > end]
    if len(found) == limit:
        return UndonePage(found=found, more=max(1, more), last=end_sort_key(found[-1].view))
    place = end if before is None else min(before, end)
    room, ends_s = min(limit, AT_ONCE) - len(found), time.monotonic() + BUDGET_S
    if room <= 0:
        # Enough for a screen is there at once: history takes longer.
        return UndonePage(found=found, more=1, last=place)
    store.catch_up()
    older: list[Item] = []
    while True:
        part, bound = _part(current, store, wanted, place, room + 1)
        for key, item in part:
            if len(older) == room:
                return UndonePage(found=found + older, more=1, last=place)
            older.append(item)
            place = key
        if bound is None:
            return UndonePage(found=found + older, more=0, last=None)
        place = bound
        if len(older) == room or time.monotonic() > ends_s:
            return UndonePage(found=found + older, more=1, last=place)


def _part(
    current: CurrentState, store: Store, wanted: UndoneList[Item], place: EndKey, most: int
) -> tuple[list[tuple[EndKey, Item]], EndKey | None]:
    """Return what fits of the next ``most`` behind a place, newest first, and the place behind them; None: nothing is."""
    keys = _ended_before(current, store, wanted, place, most)
    bound = keys[-1] if len(keys) == most else None
    known, more = wanted.in_memory(place, most)
    if more:
        last = end_sort_key(known[-1].view)
        bound = last if bound is None else max(bound, last)
    identities = {BrokerIdentity(*key[1:]): key for key in keys if bound is None or key >= bound}
    with current.reading() as state:
        in_memory = {identity for identity, _ in views_in(state, list(identities))}
    missing = [identity for identity in identities if identity not in in_memory]
    part = [(end_sort_key(item.view), item) for item in known]
    part = [(key, item) for key, item in part if bound is None or key >= bound]
    past = wanted.in_history(missing) if missing else []
    part += [(identities[identity], item) for identity, item in past if wanted.fits(item)]
    return sorted(part, key=lambda pair: pair[0], reverse=True), bound


def _ended_before(
    current: CurrentState, store: Store, wanted: UndoneList[Item], place: EndKey, most: int
) -> list[EndKey]:
    begins: list[str] = []
    if wanted.pipeline is not None:
        with current.reading() as state:
            begins = beginnings(state, wanted.pipeline)
    statement, values = transaction_sql.undone(len(begins)), [begins] if begins else []
    found: list[EndKey] = []
    # All of history takes ten times as long.
    for since_ms in (*(place[0] - window_ms for window_ms in windows_ms(store)), 0):
        first_ms = max(since_ms, wanted.since_ms)
        rows = store.rows(statement, first_ms, *place, *values, most, since_ms=first_ms - HOUR_MS)
        found = [(at, id_, pid, start) for at, id_, pid, start in rows]
        if len(found) == most or first_ms == wanted.since_ms:
            break
    return found


def clues_of_past(
    current: CurrentState, store: Store, identities: Sequence[BrokerIdentity]
) -> list[tuple[BrokerIdentity, AbortClues]]:
    """Return what may tell why each of these was undone. Raises StoreFailed."""
    found = []
    for past in pasts_of(current, store, identities):
        for identity, view in views_in(past, identities):
            if view.state in ROLLED_BACK:
                clues = loss_cases.clues(past, view)
                found.append((identity, replace(clues, view=with_its_replay(current, store, view))))
    return found


def losses_of_past(
    current: CurrentState, store: Store, identities: Sequence[BrokerIdentity]
) -> list[tuple[BrokerIdentity, Loss]]:
    """Return whether data was lost with each of these. Raises StoreFailed."""
    found = []
    for past in pasts_of(current, store, identities):
        with current.reading() as state:
            beginnings_of_others = _beginnings_of_others(past, state)
        if beginnings_of_others:
            _put_neighbours(past, store, beginnings_of_others)
        views = {view.key: (identity, view) for identity, view in views_in(past, identities)}
        with current.reading():
            inputs = loss_cases.loss_inputs(past, current.decision_log_status[0], (view for _, view in views.values()))
        for loss in loss_cases.judged(inputs):
            # A batch may have been replayed, or an id taken again, long after: all of its history tells.
            sure = of_all_history(current, store, loss.view) if loss.verdict is LossVerdict.LOST else None
            found.append((views[loss.view.key][0], sure or loss))
    return found


def _beginnings_of_others(past: State, state: State) -> list[str]:
    """Return what the ids of other applications begin with whose other transactions tell what became of theirs."""
    found: dict[str, None] = {}
    for transaction in past.broker.values():
        if our_id(state, transaction.handle_identity) is None:
            parsed = FlinkId.parse(transaction.identity.transaction)
            stem = f"{parsed.prefix}-{parsed.subtask}-" if parsed is not None else transaction.identity.transaction
            found[stem] = None
    return list(found)


def _put_neighbours(past: State, store: Store, stems: Sequence[str]) -> None:
    starts = [identity.start_ms for identity in past.broker]
    period = (min(starts) - AROUND_MS, max(t.ended_ms or t.identity.start_ms for t in past.broker.values()) + AROUND_MS)
    statement = transaction_sql.transactions_of_beginnings(len(stems))
    rows = store.rows(statement, stems, *period, MOST_RECORDS, since_ms=period[0])
    for transaction in row_coding.transactions(rows):
        put_transaction(past, transaction)
