"""Transactions that have left memory, of one id or of whichever ids: put together of what history has of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.fold import apply, put_events, put_init, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import observation_tables, row_coding, sql, transaction_sql
from indoubt.collector.history.row_coding import Rows
from indoubt.collector.history.store import Store
from indoubt.collector.records.application_ids import FlinkId
from indoubt.collector.records.facts import KAFKA, BrokerIdentity, BrokerTransaction, HandleIdentity, handle_identity
from indoubt.collector.records.observations import DecisionSeen
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import Decision, Ruling
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.identity import TransactionalId, transaction_key
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER

MAX_RECORDS = 20_000
MAX_DECISIONS = 200_000
AROUND_MS = HOUR_MS
"""Decisions and events about a transaction are looked for from so long before its opening until so long after its end."""
NEAR_MS = 2_000
"""Where clocks differ by no more, a commit is decided so near to its transactions: between their openings and their ends."""
MOST_RECORDS = 20_000


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
    for known in row_coding.transactions(rows(transactions, stem, since_ms, MAX_RECORDS, since_ms=since_ms)):
        put_transaction(past, known)
    for id_, init in row_coding.inits(rows(sql.INITS_OF_IDS, stem, MAX_RECORDS)):
        put_init(past, id_, init)
    branch = BranchId.parse(transaction)
    named = parsed if parsed is not None else branch
    if named is not None and named.prefix in prefixes:
        decisions = rows(sql.DECISIONS_OF_PREFIX, named.prefix, MAX_DECISIONS)
        # What cannot be understood was reported when history was loaded, and then the log is not trusted.
        for observation in row_coding.decision_records(decisions)[0]:
            apply(past, observation)
    if branch is not None:
        # A database keeps no log of its own: when a branch of ours ended, its events tell.
        of_it = (branch.prefix, 0, MAX_WHOLE_NUMBER, json.dumps(transaction), MAX_RECORDS)
        for reported in row_coding.lifecycle_events(rows(transaction_sql.EVENTS_OF_PERIOD, *of_it)):
            apply(past, reported)
    seen = rows(transaction_sql.BRANCH_RECORDS, transaction, MAX_RECORDS)
    for listed in observation_tables.PREPARED_BRANCHES.observations(seen):
        apply(past, listed)
    return past


def pasts_of(
    current: CurrentState, store: Store, identities: Sequence[BrokerIdentity], *, whole: bool = False
) -> list[State]:
    """Return states that have these transactions, with what only memory has: one of Kafka's and one of databases' branches.

    A branch has the producer id ``transaction_sql.BRANCH``. ``whole``: with all that was reported of them. Raises StoreFailed.
    """
    branches = [each.transaction for each in identities if each.producer_id == transaction_sql.BRANCH]
    at_coordinators = [each for each in identities if each.producer_id != transaction_sql.BRANCH]
    pasts = []
    if branches:
        pasts.append(_past_of_branches(current, store, branches))
    if at_coordinators:
        pasts.append(_past_of(current, store, at_coordinators, whole=whole))
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


def _past_of(current: CurrentState, store: Store, identities: Sequence[BrokerIdentity], *, whole: bool) -> State:
    past = joined_past_of(current, store, row_coding.transactions_of(store.rows, identities), whole=whole)
    aborted = [past.broker[identity] for identity in past.aborted]
    if aborted:
        first_ms = min(transaction.identity.start_ms for transaction in aborted)
        last_ms = max(transaction.ended_ms or 0 for transaction in aborted) + AROUND_MS
        names = sorted({transaction.identity.transaction for transaction in aborted})
        inits = store.rows(transaction_sql.INITS_OF_PERIOD, names, first_ms, last_ms, MOST_RECORDS, since_ms=first_ms)
        for id_, init in row_coding.inits(inits):
            put_init(past, id_, init)
    return past


def _past_of_branches(current: CurrentState, store: Store, names: Sequence[str]) -> State:
    """Return a state of the branches of these names, with what was decided and reported of ours."""
    past = State(settled_kept=MOST_RECORDS)
    seen = list(
        observation_tables.PREPARED_BRANCHES.observations(store.rows(transaction_sql.BRANCHES_OF_NAMES, list(names)))
    )
    with current.reading() as state:
        prefixes = state.ledger.prefixes()
    managed: dict[str, list[int]] = {}
    for observation in seen:
        parsed = BranchId.parse(observation.transaction)
        if parsed is not None and parsed.prefix in prefixes:
            managed.setdefault(parsed.prefix, []).append(observation.at_ms)
    for prefix, times in managed.items():
        first_ms, last_ms = min(times) - AROUND_MS, max(times) + AROUND_MS
        period, named = (prefix, first_ms, last_ms), _named(first_ms, last_ms)
        decisions = store.rows(transaction_sql.DECISIONS_OF_PERIOD, *period, MOST_RECORDS, **named)
        events = store.rows(transaction_sql.EVENTS_OF_PERIOD, *period, "", MOST_RECORDS, **named)
        # What cannot be understood was reported when history was loaded.
        for decided in row_coding.decision_records(decisions)[0]:
            apply(past, decided)
        for reported in row_coding.lifecycle_events(events):
            apply(past, reported)
    for observation in seen:
        apply(past, observation)
    return past


def joined_past_of(
    current: CurrentState, store: Store, transactions: Iterable[BrokerTransaction], *, whole: bool = False
) -> State:
    """Return a state of these transactions, with what was decided and reported of these of ours alone.

    An hour of a pipeline has thousands of events: of which ones to make objects, the database tells. But for ``whole``, what is
    reported of a transaction is left out where it changes nothing of what a list shows: its coordinator committed it, as was
    decided near it in time. Raises StoreFailed.
    """
    past = State(settled_kept=MOST_RECORDS)
    for prefix, known in _put_transactions(current, past, transactions).items():
        near, decided = _decided_near(store, prefix, [each for each in known if _is_committed(each) and not whole])
        records = {record.offset: record for record in near}
        others = [each for each in known if not _is_committed(each) or each.handle_identity not in decided]
        if others:
            period = _period(others, AROUND_MS)
            named = _named(*period)
            handles = {transaction.handle_identity for transaction in others}
            keys = [transaction_key(KAFKA, *handle) for handle in handles]
            names = [list(map(str, column)) for column in zip(*handles, strict=True)]
            rows = store.rows(transaction_sql.DECISIONS_OF_HANDLES, prefix, *period, keys, MOST_RECORDS, **named)
            reported = store.rows(transaction_sql.EVENTS_OF_HANDLES, *names, prefix, *period, MOST_RECORDS, **named)
            columns, odd = row_coding.events_in_columns([text.encode() for _, _, text in reported])
            put_events(past, columns)
            for event in odd:
                apply(past, event)
            for record in row_coding.decision_records(rows)[0]:
                records.setdefault(record.offset, record)
        for _, record in sorted(records.items()):
            apply(past, record)
    return past


def _decided_near(
    store: Store, prefix: str, committed: Sequence[BrokerTransaction]
) -> tuple[list[DecisionSeen], set[HandleIdentity]]:
    """Return the commit decisions that list some of these, as they were decided, and what they rest on; with it which they list.

    Looked for at the time of the transactions themselves, by clocks that hardly differ: what is not found there is elsewhere.
    """
    if not committed:
        return [], set()
    handles, (first_ms, last_ms) = {each.handle_identity for each in committed}, _period(committed, NEAR_MS)
    near = (prefix, first_ms, last_ms, MOST_RECORDS)
    rows = store.rows(transaction_sql.DECISIONS_NEAR, *near, **_named(first_ms, last_ms))
    seen: list[DecisionSeen] = []
    decided: set[HandleIdentity] = set()
    for each in row_coding.decision_records(rows)[0]:
        if not isinstance(each.record, Decision):
            seen.append(each)
        elif each.counts and each.record.ruling is Ruling.COMMIT:
            listed = handles.intersection(map(handle_identity, each.record.handles))
            decided |= listed
            seen += [each] if listed else []
    return seen, decided


def _is_committed(transaction: BrokerTransaction) -> bool:
    return transaction.is_final and not transaction.is_aborting


def _put_transactions(
    current: CurrentState, past: State, transactions: Iterable[BrokerTransaction]
) -> dict[str, list[BrokerTransaction]]:
    """Fold transactions; return those of each pipeline of ours."""
    with current.reading() as state:
        prefixes = state.ledger.prefixes()
    managed: dict[str, list[BrokerTransaction]] = {}
    for transaction in transactions:
        put_transaction(past, transaction)
        parsed = TransactionalId.parse(transaction.identity.transaction)
        if parsed is not None and parsed.prefix in prefixes:
            managed.setdefault(parsed.prefix, []).append(transaction)
    return managed


def _period(known: Sequence[BrokerTransaction], around_ms: int) -> tuple[int, int]:
    first_ms = min(transaction.identity.start_ms for transaction in known) - around_ms
    last_ms = max(transaction.ended_ms or transaction.identity.start_ms for transaction in known) + around_ms
    return first_ms, last_ms


def _named(first_ms: int, last_ms: int) -> dict[str, int]:
    """Return a time as ``Store.rows`` takes it."""
    return {"since_ms": first_ms, "until_ms": last_ms}
