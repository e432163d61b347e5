"""Transactions that have left memory, of one id or of whichever ids: put together of what history has of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.fold import apply, put_init, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import observation_tables, row_decoding, sql, transaction_sql
from indoubt.collector.history.row_decoding import Rows
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import BrokerIdentity
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_transactions import AROUND_MS, MOST_RECORDS, joined_past_of, past_of_branches
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

MAX_RECORDS = 20_000
MAX_DECISIONS = 200_000


def past_of_id(
    transaction: str,
    rows: Rows,
    prefixes: frozenset[str],
    offsets_topics: tuple[str, ...],
    since_ms: int = 0,
    *,
    alone: bool = False,
) -> State:
    """Return a state of what history knows of one id and of those beside it, also what memory has let go. Raises StoreFailed.

    The id may be the name of a database's branch. ``prefixes`` are those of our own pipelines: their decisions are read too.
    ``since_ms``: of transactions that began since then (epoch ms). ``alone``: without those of the ids beside it.
    """
    parsed = FlinkId.parse(transaction)
    stem = transaction if alone or parsed is None else f"{parsed.prefix}-{parsed.subtask}-"
    past = State(settled_kept=MAX_RECORDS, offsets_topics=offsets_topics)
    transactions = sql.TRANSACTIONS_OF_ONE_ID if alone else sql.TRANSACTIONS_OF_IDS
    for known in row_decoding.transactions(rows(transactions, stem, since_ms, MAX_RECORDS, since_ms=since_ms)):
        put_transaction(past, known)
    for id_, init in row_decoding.inits(rows(sql.INITS_OF_IDS, stem, MAX_RECORDS)):
        put_init(past, id_, init)
    branch = BranchId.parse(transaction)
    named = parsed if parsed is not None else branch
    if named is not None and named.prefix in prefixes:
        decisions = rows(sql.DECISIONS_OF_PREFIX, named.prefix, MAX_DECISIONS)
        # What cannot be understood was reported when history was loaded, and then the log is not trusted.
        for observation in row_decoding.decision_records(decisions)[0]:
            apply(past, observation)
    if branch is not None:
        # A database keeps no log of its own: when a branch of ours ended, its events tell.
        of_it = (branch.prefix, 0, MAX_WHOLE_NUMBER, json.dumps(transaction), MAX_RECORDS)
        for reported in row_decoding.lifecycle_events(rows(transaction_sql.EVENTS_OF_PERIOD, *of_it)):
            apply(past, reported)
    seen = rows(transaction_sql.BRANCH_RECORDS, transaction, MAX_RECORDS)
    for listed in observation_tables.PREPARED_BRANCHES.observations(seen):
        apply(past, listed)
    return past


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
    past = joined_past_of(current, store, row_decoding.transactions_of(store.rows, identities))
    aborted = [past.broker[identity] for identity in past.aborted]
    if aborted:
        first_ms = min(transaction.identity.start_ms for transaction in aborted)
        last_ms = max(transaction.ended_ms or 0 for transaction in aborted) + AROUND_MS
        names = sorted({transaction.identity.transaction for transaction in aborted})
        inits = store.rows(transaction_sql.INITS_OF_PERIOD, names, first_ms, last_ms, MOST_RECORDS, since_ms=first_ms)
        for id_, init in row_decoding.inits(inits):
            put_init(past, id_, init)
    return past
