"""Chosen transactions that have left memory, of whichever ids: put together of what history has of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.history import row_decoding, transaction_sql
from collector.history.store import Store
from collector.records.facts import BrokerIdentity
from collector.state import transaction_join
from collector.state.fold import put_init
from collector.state.state import State
from collector.state.transaction_view import TransactionView
from collector.verdicts import loss_cases
from collector.views.current_state import CurrentState
from collector.views.past_transactions import AROUND_MS, MOST_RECORDS, joined_past_of, past_of_branches


def pasts_of(current: CurrentState, store: Store, identities: Sequence[BrokerIdentity]) -> list[State]:
    """Return states that have these transactions, with what only memory has: one of Kafka's and one of databases' branches.

    A branch has the producer id ``transaction_sql.BRANCH``. Raises StoreFailed.
    """
    branches = [each.transaction for each in identities if each.producer_id == transaction_sql.BRANCH]
    at_coordinators = [each for each in identities if each.producer_id != transaction_sql.BRANCH]
    pasts = []
    if branches:
        pasts.append(past_of_branches(current, store, branches))
    if at_coordinators:
        pasts.append(_past_of(current, store, at_coordinators))
    with current.reading() as state:
        for past in pasts:
            loss_cases.share(past, state)
    return pasts


def views_in(state: State, identities: Sequence[BrokerIdentity]) -> Iterator[tuple[BrokerIdentity, TransactionView]]:
    """Yield those of these transactions that a state knows. Call it under the state's lock, or of a past."""
    for identity in identities:
        if identity in state.broker:
            yield identity, transaction_join.at_coordinator(state, identity)
    names = {each.transaction: each for each in identities if each.producer_id == transaction_sql.BRANCH}
    for branch in state.branches.values() if names else ():
        if branch.transaction in names:
            yield names[branch.transaction], transaction_join.view_of(state, branch)


def _past_of(current: CurrentState, store: Store, identities: Sequence[BrokerIdentity]) -> State:
    past = joined_past_of(current, store, current.ended.read(store, identities))
    aborted = [past.broker[identity] for identity in past.aborted]
    if aborted:
        first_ms = min(transaction.identity.start_ms for transaction in aborted)
        last_ms = max(transaction.ended_ms or 0 for transaction in aborted) + AROUND_MS
        names = sorted({transaction.identity.transaction for transaction in aborted})
        inits = store.rows(transaction_sql.INITS_OF_PERIOD, names, first_ms, last_ms, MOST_RECORDS)
        for id_, init in row_decoding.inits(inits):
            put_init(past, id_, init)
    return past
