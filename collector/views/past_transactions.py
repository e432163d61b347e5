"""Transactions that have left memory, one by its key and those of an id before one."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import row_coding, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import MOST_RECORDS, joined_past_of, pasts_of
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS
from indoubt.lifecycle.rows.events import EARLIER_COUNTED

WINDOWS_MS = (2 * HOUR_MS, 8 * HOUR_MS)
"""Transactions of an id are searched for in so much time first: all of history takes ten times as long."""
ARCHIVE_WINDOWS_MS = (3 * DAY_MS, 14 * DAY_MS)
"""… and in so much where the rest is in the archive, which has files of each day."""
SEEN_OFTEN, MORE_THAN_LIKELY = 5, 1.5
"""So many commits of an id in memory tell how often it is used; some are looked for in so many times the time that they take."""


def find(current: CurrentState, store: Store, key: str) -> tuple[Judged, Loss | None, list[str]] | None:
    """Return a transaction of which memory knows nothing, as history has it, or None. Raises StoreFailed.

    With it whether data was lost, and the keys of its siblings: what its decision lists besides it.
    """
    store.catch_up()
    for past in pasts_of(current, store, _named_by(store, key), whole=True):

        def found_in(state: State) -> Iterable[TransactionView]:
            view = transaction_join.find(state, key)
            return [view] if view is not None else []

        for judged in current.transactions.judged_of_past(past, found_in):
            view = judged.view
            with current.reading():
                inputs = loss_cases.loss_inputs(past, current.decision_log_status[0], [view])
            handles = view.listing[1].handles if view.listing is not None else ()
            siblings = sorted(sibling.key for sibling in handles if sibling.key != view.handle_key)
            return judged, next(iter(loss_cases.judged(inputs)), None), siblings
    return None


def _named_by(store: Store, key: str) -> list[BrokerIdentity]:
    named = transaction_join.named_by(key)
    if named is None:
        return [BrokerIdentity(name, transaction_sql.BRANCH, 0) for name in transaction_join.branch_names(key)]
    (id_, producer_id, epoch), start_ms = named
    if start_ms is not None:
        return [BrokerIdentity(id_, producer_id or 0, start_ms)]
    # The record of its end may have the next epoch.
    return row_coding.identities_of(store.rows, [(id_, producer_id, each) for each in (epoch or 0, (epoch or 0) + 1)])


def earlier(
    current: CurrentState, store: Store, view: TransactionView, *, before: tuple[int, int] | None, most: int
) -> tuple[list[TransactionView], int]:
    """Return the newest ``most`` transactions of the same id that began before it, newest first, and how many more there are.

    At most EARLIER_COUNTED are counted. ``before``: those behind that one, by start (epoch ms) and producer id. Raises
    StoreFailed.
    """
    if view.producer_id is None or view.opened_ms is None:
        return [], 0
    store.catch_up()
    id_, place = view.transaction, before or (view.opened_ms, view.producer_id)
    wanted = most + EARLIER_COUNTED
    found = newest_of_id(store, id_, place, place[0], wanted, likely_ms(current, id_, wanted))
    if not found:
        return [], 0
    chosen = set(found[:most])
    starts = [start_ms for _, start_ms in chosen]
    # All between them: to leave out the few that are not chosen costs the database as much as to read the others.
    of_id = (id_, max(starts), min(starts), MOST_RECORDS)
    rows = store.rows(transaction_sql.TRANSACTIONS_OF_ID, *of_id, since_ms=min(starts))
    between = row_coding.transactions(rows)
    past = joined_past_of(current, store, (each for each in between if each.identity[1:] in chosen))
    judged = current.transactions.judged_of_past(past, lambda state: transaction_join.views(state, settled=True))
    views = [each.view for each in judged if each.view.broker is not None]
    views.sort(key=lambda each: (each.opened_ms or 0, each.producer_id or 0), reverse=True)
    return views, max(0, len(found) - most)


def newest_of_id(
    store: Store, id_: str, before: tuple[int, int], from_ms: int, most: int, window_ms: int = 0
) -> list[tuple[int, int]]:
    """Return producer id and start of an id's newest ``most`` transactions that began before one, newest first.

    ``before``: its start (epoch ms) and producer id; ``from_ms``: where to begin to search back; ``window_ms``: in how much
    time to search first, 0 where that is not known. Raises StoreFailed.
    """
    windows = windows_ms(store)
    for since_ms in (*(from_ms - each_ms for each_ms in ((window_ms, *windows) if window_ms else windows)), 0):
        found = store.rows(transaction_sql.OF_ID_BEFORE, id_, *before, since_ms, most, since_ms=since_ms)
        if len(found) == most:
            break
    return [(producer_id, start_ms) for producer_id, start_ms in found]


def windows_ms(store: Store) -> tuple[int, ...]:
    """Return in how much time to search before all of history is searched, the shortest first (ms)."""
    return (*WINDOWS_MS, *ARCHIVE_WINDOWS_MS) if store.past.left_before_ms else WINDOWS_MS


def likely_ms(current: CurrentState, id_: str, transactions: int) -> int:
    """Return in how much time an id is likely to have so many transactions, by how often it commits now (ms).

    0: memory does not say, or it is not often.
    """
    with current.reading() as state:
        commits, newest = state.commits.of_id.get(id_, 0), state.latest_of_id.get(id_)
        whole_from_ms = state.ended.evicted_until_ms
    if newest is None or not whole_from_ms or commits < SEEN_OFTEN:
        return 0
    each_ms = max(0, newest.start_ms - whole_from_ms) / commits
    window_ms = int(MORE_THAN_LIKELY * transactions * each_ms)
    return window_ms if window_ms <= WINDOWS_MS[0] else 0
