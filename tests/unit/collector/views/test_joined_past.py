"""A search joins transactions of the past with their own records alone, and they look as with all of their pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from collector.history import row_decoding, sql
from collector.history.store import Store
from collector.records.facts import BrokerTransaction
from collector.records.formats.transaction_state import BrokerStatus
from collector.state import transaction_join
from collector.state.state import State
from collector.state.transaction_view import TransactionView
from collector.verdicts.verdict_case import Limits
from collector.views.current_state import CurrentState
from collector.views.past_transactions import joined_past_of, past_of
from lifecycle.decisions import Ruling, Settled
from lifecycle.events import EventType
from lifecycle.states import TransactionState
from tests.unit.collector.api.served_api import decision_seen, event_seen, observed
from tests.unit.collector.observations import broker_record, decided, handle, outcome, run_started, transaction_event

BATCHES, SLOTS = 6, 2
ENDS = {
    "commit": (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT),
    "abort": (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT),
}


@pytest.fixture
def current(tmp_path: Path) -> Iterator[CurrentState]:
    """Return one of six batches: in the third a transaction is lost, the fourth was rolled back, the fifth decided twice."""
    store = Store(tmp_path / "history.duckdb")
    made = CurrentState(store, settled_kept=0, checkpoints_kept=10, limits=Limits())
    numbers, offsets = count(), count(1)
    made.observe([decision_seen(run_started(0))])
    for batch in range(BATCHES):
        at, epoch = batch * 1_000, batch
        handles = [handle(f"ip-count-{slot}-{batch % 2}", epoch, slot, slot * 2 + batch % 2) for slot in range(SLOTS)]
        ruling = Ruling.ABORT if batch == 3 else Ruling.COMMIT
        for of in handles:
            prepared = transaction_event(EventType.TRANSACTION_PREPARED, at + 200, of, handle=of.to_json(), batch=batch)
            opened = transaction_event(EventType.TRANSACTION_OPENED, at, of, batch=batch)
            made.observe([event_seen(next(numbers), seen) for seen in (opened, prepared)])
        made.observe([decision_seen(decided(next(offsets), *handles, at=at + 300, ruling=ruling, batch=batch))])
        if batch == 4:
            again = handle("ip-count-9-0", epoch, 9, 99)
            made.observe([decision_seen(decided(next(offsets), again, at=at + 310, batch=batch))])
        for slot, of in enumerate(handles):
            how = "abort" if ruling is Ruling.ABORT or (batch, slot) == (2, 1) else "commit"
            id_, producer_id = of.transaction, of.producer_id or 0
            seen = [
                broker_record(status, at + late, transaction=id_, producer_id=producer_id, epoch=epoch, start=at)
                for status, late in ((BrokerStatus.ONGOING, 0), (ENDS[how][0], 400), (ENDS[how][1], 410))
            ]
            made.observe([observed(next(numbers), record) for record in seen])
            if how == "commit":
                made.observe([decision_seen(outcome(next(offsets), of, Settled.COMMITTED, at=at + 500))])
    store.flushed()
    yield made
    store.close()


def known(current: CurrentState) -> list[BrokerTransaction]:
    rows = current._store.rows(sql.TRANSACTIONS_OF_IDS, "ip-count", 0, 1_000)
    found = list(row_decoding.transactions(rows))
    assert len(found) == BATCHES * SLOTS
    return found


def seen_in(past: State, transaction: BrokerTransaction) -> TransactionView:
    return transaction_join.at_coordinator(past, transaction.identity)


def test_transactions_look_as_with_all_that_their_pipeline_reported(current: CurrentState) -> None:
    every = known(current)
    whole = past_of(current, current._store, every)
    states = set()
    for transaction in every:
        part = joined_past_of(current, current._store, [transaction])
        assert seen_in(part, transaction) == seen_in(whole, transaction)
        assert {reported.batch_attempt.batch for reported in part.reported.values() if reported.batch_attempt} == {
            transaction.identity.start_ms // 1_000 % 1_000
        }, "nothing of other batches is read"
        states.add(seen_in(part, transaction).state)
    assert states == {TransactionState.COMMITTED, TransactionState.ABORTED, TransactionState.LOST}
    together = joined_past_of(current, current._store, every)
    assert [seen_in(together, each) for each in every] == [seen_in(whole, each) for each in every]


def test_what_an_earlier_version_wrote_is_counted_again(current: CurrentState) -> None:
    current._store.write(lambda connection: connection.execute("update decision_records set counts = null"))
    every = known(current)
    whole = past_of(current, current._store, every)
    for transaction in every:
        part = joined_past_of(current, current._store, [transaction])
        assert seen_in(part, transaction) == seen_in(whole, transaction)
