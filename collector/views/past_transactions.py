"""Transactions that have left memory, put together again of what history has of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.fold import apply, put_events, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import row_decoding, transaction_sql
from indoubt.collector.history.observation_tables import PREPARED_BRANCHES
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import KAFKA, BrokerTransaction, HandleIdentity, handle_identity
from indoubt.collector.records.observations import DecisionSeen
from indoubt.collector.verdicts import loss_cases
from indoubt.collector.verdicts.data_loss import Loss
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.decisions import Decision, Ruling
from indoubt.lifecycle.durations import DAY_MS, HOUR_MS
from indoubt.lifecycle.identity import TransactionalId, transaction_key
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.events import EARLIER_COUNTED

AROUND_MS = HOUR_MS
"""Decisions and events about a transaction are looked for from so long before its opening until so long after its end."""
NEAR_MS = 2_000
"""Where clocks differ by no more, a commit is decided so near to its transactions: between their openings and their ends."""
MOST_RECORDS = 20_000
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
    past = _past_of_key(current, store, key)

    def found_in(state: State) -> Iterable[TransactionView]:
        view = transaction_join.find(state, key)
        return [view] if view is not None else []

    judged = current.transactions.judged_of_past(past, found_in)
    if not judged:
        return None
    view = judged[0].view
    with current.reading():
        inputs = loss_cases.loss_inputs(past, current.decision_log_status[0], [view])
    handles = view.listing[1].handles if view.listing is not None else ()
    siblings = sorted(sibling.key for sibling in handles if sibling.key != view.handle_key)
    return judged[0], next(iter(loss_cases.judged(inputs)), None), siblings


def _past_of_key(current: CurrentState, store: Store, key: str) -> State:
    named = transaction_join.named_by(key)
    if named is None:
        return past_of_branches(current, store, transaction_join.branch_names(key))
    handle, start_ms = named
    first, last = (start_ms, start_ms) if start_ms is not None else (0, MAX_WHOLE_NUMBER)
    of_producer = (handle.transaction, handle.producer_id, first, last)
    rows = store.rows(transaction_sql.TRANSACTIONS_OF_PRODUCER, *of_producer, since_ms=first)
    return past_of(current, store, row_decoding.transactions(rows))


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
    between = row_decoding.transactions(rows)
    past = past_of(current, store, (each for each in between if each.identity[1:] in chosen))
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


def past_of_branches(current: CurrentState, store: Store, names: Sequence[str]) -> State:
    """Return a state of the branches of these names, with what was decided and reported of ours. Raises StoreFailed."""
    past = State(settled_kept=MOST_RECORDS)
    seen = list(PREPARED_BRANCHES.observations(store.rows(transaction_sql.BRANCHES_OF_NAMES, list(names))))
    with current.reading() as state:
        prefixes = state.ledger.prefixes()
    managed: dict[str, list[int]] = {}
    for observation in seen:
        parsed = BranchId.parse(observation.transaction)
        if parsed is not None and parsed.prefix in prefixes:
            managed.setdefault(parsed.prefix, []).append(observation.at_ms)
    for prefix, times in managed.items():
        _put_period(past, store, prefix, min(times) - AROUND_MS, max(times) + AROUND_MS)
    for observation in seen:
        apply(past, observation)
    return past


def past_of(current: CurrentState, store: Store, transactions: Iterable[BrokerTransaction]) -> State:
    """Return a state of these transactions, with what was decided and reported of ours around them. Raises StoreFailed."""
    past = State(settled_kept=MOST_RECORDS)
    for prefix, known in _put_transactions(current, past, transactions).items():
        _put_reports(past, store, prefix, known)
    return past


def joined_past_of(current: CurrentState, store: Store, transactions: Iterable[BrokerTransaction]) -> State:
    """Return the same with what was decided and reported of these transactions alone: enough to join them, not to judge them.

    An hour of a pipeline has thousands of events: of which ones to make objects, the database tells. What is reported of a
    transaction is left out where it changes nothing of what is shown: its coordinator committed it, as was decided near it in
    time. Raises StoreFailed.
    """
    past = State(settled_kept=MOST_RECORDS)
    for prefix, known in _put_transactions(current, past, transactions).items():
        near, decided = _decided_near(store, prefix, [each for each in known if _is_committed(each)])
        records = {record.offset: record for record in near}
        others = [each for each in known if not _is_committed(each) or each.handle_identity not in decided]
        if others:
            period = _around(others)
            named = _named(*period)
            handles = {transaction.handle_identity for transaction in others}
            keys = [transaction_key(KAFKA, *handle) for handle in handles]
            names = [list(map(str, column)) for column in zip(*handles, strict=True)]
            rows = store.rows(transaction_sql.DECISIONS_OF_HANDLES, prefix, *period, keys, MOST_RECORDS, **named)
            reported = store.rows(transaction_sql.EVENTS_OF_HANDLES, *names, prefix, *period, MOST_RECORDS, **named)
            columns, odd = row_decoding.events_in_columns([text.encode() for _, _, text in reported])
            put_events(past, columns)
            for event in odd:
                apply(past, event)
            for record in row_decoding.decision_records(rows)[0]:
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
    for each in row_decoding.decision_records(rows)[0]:
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


def _put_reports(past: State, store: Store, prefix: str, known: Sequence[BrokerTransaction]) -> None:
    ids = {transaction.identity.transaction for transaction in known}
    # Of one id only its own events; of several all of the time.
    _put_period(past, store, prefix, *_around(known), json.dumps(ids.pop()) if len(ids) == 1 else "")


def _around(known: Sequence[BrokerTransaction]) -> tuple[int, int]:
    return _period(known, AROUND_MS)


def _period(known: Sequence[BrokerTransaction], around_ms: int) -> tuple[int, int]:
    first_ms = min(transaction.identity.start_ms for transaction in known) - around_ms
    last_ms = max(transaction.ended_ms or transaction.identity.start_ms for transaction in known) + around_ms
    return first_ms, last_ms


def _put_period(past: State, store: Store, prefix: str, first_ms: int, last_ms: int, part: str = "") -> None:
    period, named = (prefix, first_ms, last_ms), _named(first_ms, last_ms)
    decisions = store.rows(transaction_sql.DECISIONS_OF_PERIOD, *period, MOST_RECORDS, **named)
    events = store.rows(transaction_sql.EVENTS_OF_PERIOD, *period, part, MOST_RECORDS, **named)
    # What cannot be understood was reported when history was loaded.
    for decided in row_decoding.decision_records(decisions)[0]:
        apply(past, decided)
    for reported in row_decoding.lifecycle_events(events):
        apply(past, reported)


def _named(first_ms: int, last_ms: int) -> dict[str, int]:
    """Return a time as ``Store.rows`` takes it."""
    return {"since_ms": first_ms, "until_ms": last_ms}
