"""The newest part of a search: what memory has all of, which needs no look at history but for databases' branches."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Any

from indoubt.collector.facts.state import State
from indoubt.collector.history import transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.views.current_state import CurrentState

Place = tuple[int, int, str]
"""Where a page ended: start (epoch ms), producer id, transactional id."""
_IN_ORDER = itemgetter(2, 1, 0)
MOST_LOOKED_AT = 50_000
"""Where more is in memory, history finds the newest sooner: it has them in order."""


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
        known = _newest(state, wanted, (first_ms, until_ms), place, most, is_open=is_open)
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


def _newest(
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
