"""A search joins transactions of the past with their own records alone, and they look as with all of their pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.fold import apply, put_transaction
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.history import row_coding, sql, transaction_sql
from indoubt.collector.history.store import Store
from indoubt.collector.records.facts import BrokerTransaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.views import search
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.past_of_identities import joined_past_of
from indoubt.collector.views.transaction_rows import found_row
from indoubt.lifecycle.decisions import Ruling, Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.search import FoundTransactionRow
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.observations import broker_record, decided, handle, outcome, run_started, transaction_event
from tests.unit.collector.serve.api.served_api import decision_seen, event_seen, observed

BATCHES, SLOTS = 6, 2
ENDS = {
    "commit": (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT),
    "abort": (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT),
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """How a batch went: ``aborts``: the slots that the coordinator undid; ``late_ms``: how far the driver's clock is ahead."""

    ruling: Ruling = Ruling.COMMIT
    aborts: frozenset[int] = frozenset()
    is_decided_twice: bool = False
    late_ms: int = 0
    events: frozenset[EventType] = frozenset((EventType.TRANSACTION_OPENED, EventType.TRANSACTION_PREPARED))


@contextmanager
def current_of(directory: Path, batches: Sequence[Batch]) -> Iterator[CurrentState]:
    """Give one whose history has these batches, one each second, and whose memory has none."""
    store = Store(directory / "history.duckdb")
    made = CurrentState(store, settled_kept=0, checkpoints_kept=10)
    numbers, offsets = count(), count(1)
    made.observe([decision_seen(run_started(0))])
    for batch, how in enumerate(batches):
        at, epoch = batch * 1_000, batch
        handles = [handle(f"ip-count-{slot}-{batch % 2}", epoch, slot, slot * 2 + batch % 2) for slot in range(SLOTS)]
        for of in handles:
            opened = transaction_event(EventType.TRANSACTION_OPENED, at, of, batch=batch)
            prepared = transaction_event(EventType.TRANSACTION_PREPARED, at + 200, of, handle=of.to_json(), batch=batch)
            made.observe(
                [event_seen(next(numbers), seen) for seen in (opened, prepared) if seen.event.type in how.events]
            )
        decided_at = at + 300 + how.late_ms
        made.observe([decision_seen(decided(next(offsets), *handles, at=decided_at, ruling=how.ruling, batch=batch))])
        if how.is_decided_twice:
            again = handle("ip-count-9-0", epoch, 9, 99)
            made.observe([decision_seen(decided(next(offsets), again, at=decided_at + 10, batch=batch))])
        for slot, of in enumerate(handles):
            end = "abort" if how.ruling is Ruling.ABORT or slot in how.aborts else "commit"
            id_, producer_id = of.transaction, of.producer_id or 0
            seen = [
                broker_record(status, at + late, transaction=id_, producer_id=producer_id, epoch=epoch, start=at)
                for status, late in ((BrokerStatus.ONGOING, 0), (ENDS[end][0], 400), (ENDS[end][1], 410))
            ]
            made.observe([observed(next(numbers), record) for record in seen])
            if end == "commit":
                made.observe([decision_seen(outcome(next(offsets), of, Settled.COMMITTED, at=at + 500 + how.late_ms))])
    store.flushed()
    try:
        yield made
    finally:
        store.close()


@pytest.fixture
def current(tmp_path: Path) -> Iterator[CurrentState]:
    """Return one of six batches: in the third a transaction is lost, the fourth was rolled back, the fifth decided twice."""
    batches = [Batch()] * BATCHES
    batches[2] = Batch(aborts=frozenset((1,)))
    batches[3] = Batch(ruling=Ruling.ABORT)
    batches[4] = Batch(is_decided_twice=True)
    with current_of(tmp_path, batches) as made:
        yield made


def known(current: CurrentState) -> list[BrokerTransaction]:
    rows = current._store.rows(sql.TRANSACTIONS_OF_IDS, "ip-count", 0, 1_000)
    return list(row_coding.transactions(rows))


def whole_of(current: CurrentState, every: Sequence[BrokerTransaction]) -> State:
    """Return a state of these, with all that their pipeline decided and reported."""
    whole, rows = State(settled_kept=1_000), current._store.rows
    for transaction in every:
        put_transaction(whole, transaction)
    decisions = row_coding.decision_records(rows(sql.DECISIONS_OF_PREFIX, "ip-count", 1_000))[0]
    events = row_coding.lifecycle_events(rows('select partition, "offset", event from lifecycle_events'))
    for observation in (*decisions, *events):
        apply(whole, observation)
    return whole


def seen_in(past: State, transaction: BrokerTransaction) -> TransactionView:
    """Return a transaction but for what was written again: that all of history tells, here nothing of others is read."""
    view = transaction_join.at_coordinator(past, transaction.identity)
    if view.state is not TransactionState.WRITTEN_AGAIN:
        return view
    return replace(view, state=TransactionState.LOST, written_again_ms=None)


def shown_of(past: State, transaction: BrokerTransaction) -> FoundTransactionRow:
    found = search._found(past, transaction.identity, seen_in(past, transaction))
    return found_row(found)


def is_same(part: State, whole: State, transaction: BrokerTransaction) -> None:
    assert shown_of(part, transaction) == shown_of(whole, transaction)
    if seen_in(whole, transaction).state is not TransactionState.COMMITTED:
        assert seen_in(part, transaction) == seen_in(whole, transaction)


def test_transactions_look_as_with_all_that_their_pipeline_reported(current: CurrentState) -> None:
    every = known(current)
    assert len(every) == BATCHES * SLOTS
    whole = whole_of(current, every)
    states = set()
    for transaction in every:
        part = joined_past_of(current, current._store, [transaction])
        is_same(part, whole, transaction)
        assert {reported.batch_attempt.batch for reported in part.reported.values() if reported.batch_attempt} == {
            transaction.identity.start_ms // 1_000 % 1_000
        }, "nothing of other batches is read"
        states.add(seen_in(part, transaction).state)
    assert states == {TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.LOST}
    together = joined_past_of(current, current._store, every)
    for each in every:
        is_same(together, whole, each)


def test_of_what_was_committed_as_decided_no_event_is_read(
    current: CurrentState, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = known(current)
    asked = []
    rows = current._store.rows
    monkeypatch.setattr(
        current._store, "rows", lambda query, *values, **_: asked.append((query, values)) or rows(query, *values)
    )
    joined_past_of(current, current._store, every)
    [named] = [values[0] for query, values in asked if query == transaction_sql.EVENTS_OF_HANDLES]
    undone = [each.identity.transaction for each in every if not each.is_committing]
    assert sorted(named) == sorted(undone)
    assert len(undone) == 3


slots = st.frozensets(st.sampled_from(range(SLOTS)))
kinds = st.frozensets(st.sampled_from((EventType.TRANSACTION_OPENED, EventType.TRANSACTION_PREPARED)))
batches = st.builds(
    Batch,
    ruling=st.sampled_from(Ruling),
    aborts=slots,
    is_decided_twice=st.booleans(),
    late_ms=st.sampled_from((0, 0, 1_500, 5_000, -5_000, 3_000_000)),
    events=kinds,
)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=25)
@given(how=st.lists(batches, min_size=1, max_size=5))
def test_however_batches_went_they_look_the_same(how: list[Batch]) -> None:
    with TemporaryDirectory() as directory, current_of(Path(directory), how) as current:
        every = known(current)
        whole = whole_of(current, every)
        together = joined_past_of(current, current._store, every)
        for each in every:
            is_same(together, whole, each)
            is_same(joined_past_of(current, current._store, [each]), whole, each)
