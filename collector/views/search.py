"""A search over all transactions that history has, in Kafka and in databases, newest opening first, a page at a time.

Its newest part is what memory has all of, which needs no look at history but for databases' branches.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.abort_causes import infer
from indoubt.collector.views.aborts_and_losses import with_its_replay
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import pasts_of, views_in
from indoubt.collector.views.past_transactions import windows_ms
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.search import SearchOutcome
from indoubt.lifecycle.states import ROLLED_BACK, TransactionState
from indoubt.lifecycle.verdicts import AbortCause, Certainty

Place = tuple[int, int, str]
"""Where a page ended: start (epoch ms), producer id, transactional id."""
_IN_ORDER = itemgetter(2, 1, 0)
MOST_LOOKED_AT = 50_000
"""Where more is in memory, history finds the newest sooner: it has them in order."""
JOINED_AT_ONCE = 100
"""At least; of a full page one more, so that it is known whether anything is behind it."""
RECORDS_OF_EACH, RECORDS_AT_ONCE = 5, 1_000
"""So many records are read for each transaction of the page, which has about four; where those do not fill it, more at once."""
BUDGET_S = 1.5
"""What was not looked at by then is left to the next page."""
_STATUS = {SearchOutcome.COMMITTED: "COMPLETE_COMMIT", SearchOutcome.ABORTED: "COMPLETE_ABORT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What is looked for: all that is given must fit. Empty and None: anything. Times are of the opening, epoch ms.

    ``transaction``: a part of the transactional id. ``partitions``: at least one of these was written to.
    """

    transaction: str = ""
    pipeline: str = ""
    partitions: Collection[str] | None = None
    outcome: SearchOutcome | None = None
    cause: AbortCause | None = None
    since_ms: int = 0
    until_ms: int = MAX_WHOLE_NUMBER
    limit: int = 100
    after: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A transaction that fits; the cause is None where it was not aborted. ``place``: where it stands in the order of a search."""

    place: Place
    view: TransactionView
    cause: AbortCause | None = None
    certainty: Certainty | None = None


@dataclass(slots=True, kw_only=True)
class SearchPage:
    """What was found, and the place that the next page begins behind; None: nothing is behind it."""

    found: list[Found] = field(default_factory=list)
    next_place: Place | None = None


def search(current: CurrentState, store: Store, query: SearchQuery) -> SearchPage:
    """Return a page of a search. It may hold less than its limit, or nothing, though more is behind it. Raises StoreFailed."""
    page, place, ends_s = SearchPage(), query.after, time.monotonic() + BUDGET_S
    for identities, behind in _chunks(current, store, query, _conditions(current, query)):
        # Most pages are full long before all of these are joined: that reads what was reported and decided of each.
        at_once = _joined_at_once(query)
        for first in range(0, len(identities), at_once):
            joined = _joined(current, store, identities[first : first + at_once])
            fitting = [found for found in joined if _fits(found, query)]
            room = query.limit - len(page.found)
            page.found += fitting[:room]
            if len(fitting) > room:
                page.next_place = page.found[-1].place
                return page
        place = behind
        if place is None:
            return page
        if len(page.found) == query.limit or time.monotonic() > ends_s:
            break
    page.next_place = place
    return page


def _conditions(current: CurrentState, query: SearchQuery) -> dict[str, object]:
    wanted: dict[str, object] = {}
    if query.transaction:
        wanted["text"] = query.transaction
    if query.pipeline:
        with current.reading() as state:
            condition = "beginnings" if query.pipeline in state.ledger.prefixes() else "beginnings_or_xids"
            wanted[condition] = beginnings(state, query.pipeline)
    if query.partitions is not None:
        # Only records of an opening have partitions: the outcome is looked at afterwards.
        wanted["partitions"] = sorted(query.partitions)
    else:
        outcome = SearchOutcome.ABORTED if query.cause is not None else query.outcome
        if outcome in _STATUS:
            wanted["status"] = _STATUS[outcome]
    return wanted


def beginnings(state: State, pipeline: str) -> list[str]:
    """Return what the ids of an application begin with. Call it under the state's lock.

    That is its name, or, where it is a job of Flink, its sinks' prefixes. The name may have its kind behind it.
    """
    return [pipeline.partition(" (")[0], *state.flink.prefixes_of(pipeline)]


def _chunks(
    current: CurrentState, store: Store, query: SearchQuery, wanted: dict[str, object]
) -> Iterator[tuple[list[BrokerIdentity], Place | None]]:
    """Yield transactions to look at, newest first, each once, with the place behind them; None: they are the last."""
    if wanted.get("partitions") == []:
        yield [], None
        return
    place: Place | None = query.after or transaction_sql.FROM_NEWEST
    period, is_open = (query.since_ms, query.until_ms), query.outcome is SearchOutcome.OPEN
    at_once = _joined_at_once(query)
    while place is not None:
        before = place
        found, place = newest_in_memory(current, store, wanted, period, before, at_once, is_open=is_open)
        if found or place is None:
            yield found, place
        if len(found) < at_once:
            break
        at_once = RECORDS_AT_ONCE
    if place is not None:
        yield from _in_history(store, query, wanted, place)


def _in_history(
    store: Store, query: SearchQuery, wanted: dict[str, object], place: Place
) -> Iterator[tuple[list[BrokerIdentity], Place | None]]:
    store.catch_up()
    statement, at_once = transaction_sql.search_records(wanted), RECORDS_OF_EACH * _joined_at_once(query)
    while True:
        rows = _newest(store, statement, query, wanted, place, at_once)
        identities = list(dict.fromkeys(BrokerIdentity(*row) for row in rows))
        if len(rows) < at_once:
            yield identities, None
            return
        id_, producer_id, start_ms = rows[-1]
        place = (start_ms, producer_id, id_)
        yield identities, place
        at_once = max(at_once, RECORDS_AT_ONCE)


def _newest(
    store: Store, statement: str, query: SearchQuery, wanted: dict[str, object], place: Place, most: int
) -> list[tuple[str, int, int]]:
    """Return the newest ``most`` behind a place; in an archive of short times first: each day has its files."""
    last_ms = min(place[0], query.until_ms, now_ms())
    windows = windows_ms(store) if store.past.left_before_ms else ()
    found: list[tuple[str, int, int]] = []
    for since_ms in (*(max(query.since_ms, last_ms - window_ms) for window_ms in windows), query.since_ms):
        values = (since_ms, query.until_ms, *place, *wanted.values(), most)
        found = [
            (id_, producer_id, start_ms)
            for id_, producer_id, start_ms in store.rows(statement, *values, since_ms=since_ms)
        ]
        if len(found) == most or since_ms == query.since_ms:
            break
    return found


def _joined_at_once(query: SearchQuery) -> int:
    return max(query.limit + 1, JOINED_AT_ONCE)


def _joined(current: CurrentState, store: Store, identities: Sequence[BrokerIdentity]) -> list[Found]:
    """Return these transactions in their order, as memory has them, else as history has."""
    with current.reading() as state:
        found = {identity: _found(state, identity, view) for identity, view in views_in(state, identities)}
    missing = [identity for identity in identities if identity not in found]
    for past in pasts_of(current, store, missing) if missing else ():
        for identity, view in views_in(past, missing):
            found[identity] = _found(past, identity, with_its_replay(current, store, view))
    return [found[identity] for identity in identities if identity in found]


def _found(state: State, identity: BrokerIdentity, view: TransactionView) -> Found:
    place = (identity.start_ms, identity.producer_id, identity.transaction)
    if view.state not in ROLLED_BACK:
        return Found(place=place, view=view)
    cause, certainty = infer(loss_cases.clues(state, view))
    return Found(place=place, view=view, cause=cause, certainty=certainty)


def _fits(found: Found, query: SearchQuery) -> bool:
    state, branch = found.view.state, found.view.branch
    if branch is not None and not branch.is_listed and not state.is_final and query.outcome is not None:
        # It has ended, and nothing tells how.
        return False
    outcome = (
        SearchOutcome.COMMITTED
        if state is TransactionState.COMMITTED
        else SearchOutcome.ABORTED
        if state in ROLLED_BACK
        else SearchOutcome.OPEN
    )
    return (
        query.pipeline in ("", found.view.pipeline)
        and query.outcome in (None, outcome)
        and query.cause in (None, found.cause)
    )


def newest_in_memory(
    current: CurrentState,
    store: Store,
    wanted: Mapping[str, Any],
    period: tuple[int, int],
    place: Place,
    most: int,
    *,
    is_open: bool,
) -> tuple[list[BrokerIdentity], Place | None]:
    """Return up to ``most`` behind a place that fit ``wanted``, newest first, and the place that the search goes on behind.

    ``wanted`` is that of ``search_records``; ``period``: from, until (epoch ms, of the opening). ``is_open``: those alone whose
    end was not seen: all of them are in memory, however old. None: nothing is behind them. Raises StoreFailed.
    """
    since_ms, until_ms = period
    with current.reading() as state:
        all_from_ms = 0 if is_open else state.ended.dropped_until_ms + 1
        end: Place = (all_from_ms, transaction_sql.BRANCH - 1, "")
        if place <= end or (len(state.broker) > MOST_LOOKED_AT and not is_open):
            return [], place
        first_ms = max(since_ms, all_from_ms)
        known = _newest_fitting(state, wanted, (first_ms, until_ms), place, most, is_open=is_open)
        listed = {branch.transaction for branch in state.branches.values() if branch.is_listed} if is_open else set()
        has_branches = bool(listed if is_open else state.branches)
    if has_branches and "partitions" not in wanted:
        # When a branch began as history orders them, history alone tells.
        conditions = {**wanted, "names": list(listed)} if is_open else wanted
        store.catch_up()
        statement = transaction_sql.search_branches(conditions)
        rows = store.rows(statement, first_ms, until_ms, *place, *conditions.values(), most)
        known = sorted([*known, *(BrokerIdentity(*row) for row in rows)], key=_place_of, reverse=True)[:most]
    if len(known) == most:
        return known, _place_of(known[-1])
    return known, None if since_ms >= all_from_ms else end


def _place_of(identity: BrokerIdentity) -> Place:
    transaction, producer_id, start_ms = identity
    return (start_ms, producer_id, transaction)


def _newest_fitting(
    state: State, wanted: Mapping[str, Any], period: tuple[int, int], place: Place, most: int, *, is_open: bool
) -> list[BrokerIdentity]:
    (first_ms, until_ms), last_ms, behind = period, place[0], place[1:]
    partitions, status = wanted.get("partitions"), wanted.get("status")
    is_aborted = status == BrokerStatus.COMPLETE_ABORT.name
    known: Collection[BrokerIdentity] = state.open if is_open else state.aborted if is_aborted else state.broker.keys()
    if "text" in wanted:
        known = [identity for identity in known if wanted["text"] in identity[0]]
    begins = tuple(wanted.get("beginnings") or wanted.get("beginnings_or_xids") or ())
    if begins:
        known = [identity for identity in known if identity[0].startswith(begins)]
    asked = [
        identity
        for identity in known
        if first_ms <= (start_ms := identity[2]) < until_ms
        and (start_ms < last_ms or (start_ms == last_ms and (identity[1], identity[0]) < behind))
    ]
    # Memory has them nearly in this order, so it costs little; the rest is asked of those that the page takes alone.
    asked.sort(key=_IN_ORDER, reverse=True)
    fitting = (
        identity
        for identity in asked
        if (partitions is None or not state.broker[identity].partitions.isdisjoint(partitions))
        and (status is None or _ended_so(state.broker[identity], status))
    )
    return list(itertools.islice(fitting, most))


def _ended_so(transaction: BrokerTransaction, status: str) -> bool:
    """Say whether its coordinator was seen to write that it is complete, so."""
    is_commit = status == BrokerStatus.COMPLETE_COMMIT.name
    return (transaction.complete_commit_ms if is_commit else transaction.complete_abort_ms) is not None
