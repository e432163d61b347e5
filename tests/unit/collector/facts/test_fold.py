"""The fold: facts of different sources join to the same state in whatever order they arrive."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from indoubt.collector.facts.eviction import trim
from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import find, views
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import (
    BranchProof,
    CheckpointFile,
    CheckpointFileKind,
    DecisionSeen,
    IdExpired,
    Observation,
)
from indoubt.lifecycle.checkpoints import CheckpointState
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.errors import MalformedRecord
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.states import TransactionState
from tests.unit.collector.observations import (
    PREFIX,
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    event,
    folded,
    handle,
    only_view,
    outcome,
    run_started,
    transaction_event,
)

OTHER = handle("ip-count-1-1", producer_id=9, slot=1)
STORY: list[Observation] = [
    event(EventType.PIPELINE_STARTED, -900, job="ip_count", settings={"interval_ms": 5000}),
    event(EventType.CHECKPOINT_STARTED, -10, batch=41),
    event(EventType.PIPELINE_ALIVE, 90_000, job="ip_count"),
    event(EventType.PIPELINE_ALIVE, 80_000, job="ip_count"),
    broker_record(BrokerStatus.EMPTY, -5, start=None),
    broker_record(BrokerStatus.ONGOING, 0),
    broker_record(BrokerStatus.ONGOING, 7, partitions=("sink-0", "sink-1")),
    broker_record(BrokerStatus.ONGOING, 3, transaction="ip-count-1-1", producer_id=9, start=3),
    transaction_event(EventType.TRANSACTION_OPENED, 1),
    transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()),
    transaction_event(EventType.TRANSACTION_PREPARED, 510, OTHER, handle=OTHER.to_json()),
    run_started(0),
    decided(1, handle(), OTHER),
    outcome(2, handle(), Settled.COMMITTED),
    # Another process ended it by EndTxn of version 5: the epoch moves.
    broker_record(BrokerStatus.PREPARE_COMMIT, 1500, epoch=5, version=2),
    broker_record(BrokerStatus.COMPLETE_COMMIT, 1505, epoch=5, version=2, partitions=()),
    broker_record(BrokerStatus.PREPARE_ABORT, 60_100, transaction="ip-count-1-1", producer_id=9, start=3, epoch=5),
    broker_record(BrokerStatus.COMPLETE_ABORT, 60_110, transaction="ip-count-1-1", producer_id=9, start=3, epoch=5),
    transaction_event(EventType.TRANSACTION_LOST, 60_200, OTHER, reason="timed out"),
    broker_record(BrokerStatus.ONGOING, 70_000, transaction="flink-3", producer_id=44, start=70_000, epoch=0),
    CheckpointFile(pipeline=PREFIX, number=41, kind=CheckpointFileKind.OFFSETS, at_ms=T0 - 12, modified_ns=1),
    CheckpointFile(pipeline=PREFIX, number=41, kind=CheckpointFileKind.COMMITS, at_ms=T0 + 65_000, modified_ns=2),
]


def interleaved(story: Sequence[Observation], seed: int) -> list[Observation]:
    """Return the story shuffled; decisions keep the order of their log, which is one partition."""
    shuffled = list(story)
    random.Random(seed).shuffle(shuffled)
    decisions = iter(o for o in story if isinstance(o, DecisionSeen))
    return [next(decisions) if isinstance(o, DecisionSeen) else o for o in shuffled]


@pytest.mark.parametrize("seed", range(200))
def test_any_order_of_arrival_gives_the_same_state(seed: int) -> None:
    assert folded(*interleaved(STORY, seed)) == folded(*STORY)


def test_the_story_joins_broker_handles_decisions_and_outcomes() -> None:
    by_id = {view.transaction: view for view in views(folded(*STORY), settled=True)}
    first, second, foreign = by_id["ip-count-0-1"], by_id["ip-count-1-1"], by_id["flink-3"]
    assert (first.state, first.managed, first.slot, first.outcome is not None) == (
        TransactionState.COMMITTED,
        True,
        0,
        True,
    )
    assert first.broker is not None
    assert first.broker.partitions == {"sink-0", "sink-1"}
    assert first.batch_attempt is not None
    assert first.batch_attempt.batch == 41
    assert (second.state, second.written_again_ms) == (TransactionState.WRITTEN_AGAIN, T0 + 65_000)
    assert (foreign.state, foreign.managed, foreign.pipeline) == (TransactionState.OPEN, False, "flink")


def test_open_and_lost_ones_come_without_the_committed() -> None:
    assert {v.transaction for v in views(folded(*STORY), settled=False)} == {"ip-count-1-1", "flink-3"}


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ((BrokerStatus.PREPARE_COMMIT,), TransactionState.COMMITTING),
        ((BrokerStatus.PREPARE_ABORT,), TransactionState.ABORTING),
        ((BrokerStatus.PREPARE_EPOCH_FENCE,), TransactionState.ABORTING),
        ((BrokerStatus.COMPLETE_COMMIT,), TransactionState.COMMITTED),
        ((BrokerStatus.COMPLETE_ABORT,), TransactionState.ABORTED),
    ],
)
def test_the_end_joins_its_handle_although_the_epoch_moved(
    end: tuple[BrokerStatus, ...], state: TransactionState
) -> None:
    records = [broker_record(status, 900, epoch=5, version=2) for status in end]
    prepared = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
    view = only_view(run_started(0), *records, prepared)
    assert (view.state, view.handle) == (state, handle())


def test_an_epoch_that_stays_has_a_transaction_per_start_time() -> None:
    records = [broker_record(BrokerStatus.ONGOING, at, transaction="old-client", start=at) for at in (0, 100, 200)]
    state = folded(*records, broker_record(BrokerStatus.COMPLETE_COMMIT, 90, transaction="old-client", start=0))
    found = list(views(state, settled=True))
    assert len({view.key for view in found}) == 3
    for view in found:
        again = find(state, view.key)
        assert again is not None
        assert again.broker == view.broker


def test_a_key_from_before_the_broker_was_seen_finds_the_transaction_later() -> None:
    prepared = transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())
    early = only_view(run_started(0), prepared)
    state = folded(run_started(0), prepared, broker_record(BrokerStatus.ONGOING, 0))
    later = find(state, early.key)
    assert later is not None
    assert later.broker is not None
    assert later.revision == early.revision


@pytest.mark.parametrize(
    "key", ["", "kafka", "kafka:a", "kafka:a:b:c", "kafka:a:1:1", "kafka:ip-count-0-1:0:4@1", "x@y"]
)
def test_a_key_that_names_nothing_finds_nothing(key: str) -> None:
    assert find(folded(broker_record(BrokerStatus.ONGOING, 0)), key) is None


def test_the_revision_changes_with_state_and_decision() -> None:
    steps: list[Observation] = [
        run_started(0),
        broker_record(BrokerStatus.ONGOING, 0),
        transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()),
        decided(1, handle()),
        broker_record(BrokerStatus.PREPARE_COMMIT, 1500, epoch=5, version=2),
        broker_record(BrokerStatus.COMPLETE_COMMIT, 1505, epoch=5, version=2),
    ]
    revisions = [only_view(*steps[: n + 1]).revision for n in (1, 2, 3, 4, 5)]
    assert len(set(revisions)) == 5


def test_memory_stays_bounded_and_open_transactions_stay() -> None:
    state = State(settled_kept=50, checkpoints_kept=20)
    apply(state, broker_record(BrokerStatus.ONGOING, 0, transaction="open"))
    for n in range(3000):
        apply(state, broker_record(BrokerStatus.ONGOING, n, transaction=f"t-{n}", start=n))
        apply(state, broker_record(BrokerStatus.COMPLETE_COMMIT, n + 1, transaction=f"t-{n}", start=n))
        apply(state, event(EventType.CHECKPOINT_COMPLETED, n, batch=n))
    trim(state)
    assert len(state.broker) == 51
    assert len(state.checkpoints) == 20
    assert not state.older_by_handle.keys() - {b.handle_identity for b in state.broker.values()}
    assert {v.transaction for v in views(state, settled=False)} == {"open"}


def test_the_transactions_that_ended_last_stay() -> None:
    state, ends = State(settled_kept=50), list(range(1, 1001))
    for id_, end in (("late", 2_000), ("early", 1)):
        # A later transaction of its id shows that it has ended; when, is told afterwards.
        apply(state, broker_record(BrokerStatus.ONGOING, 0, transaction=id_))
        apply(state, broker_record(BrokerStatus.ONGOING, 1, transaction=id_, start=1))
        apply(state, broker_record(BrokerStatus.PREPARE_COMMIT, end, transaction=id_))
    random.Random(7).shuffle(ends)
    for end in ends:
        apply(state, broker_record(BrokerStatus.ONGOING, 0, transaction=f"t-{end}"))
        apply(state, broker_record(BrokerStatus.PREPARE_COMMIT, end, transaction=f"t-{end}"))
        apply(state, broker_record(BrokerStatus.COMPLETE_COMMIT, end + 5, transaction=f"t-{end}"))
        assert len(state.ended.identities) <= 52
    trim(state)
    assert {identity.transaction for identity in state.ended.identities} == {
        "late",
        *(f"t-{end}" for end in range(952, 1001)),
    }


def test_decisions_of_transactions_that_are_no_longer_kept_are_dropped_too() -> None:
    state = State(settled_kept=50)
    apply(state, run_started(0))
    for n in range(1, 1001):
        one = handle(f"ip-count-0-{n % 2}", epoch=n)
        apply(state, broker_record(BrokerStatus.ONGOING, n, transaction=one.transaction, start=n, epoch=n))
        apply(state, decided(2 * n, one, batch=n))
        apply(state, outcome(2 * n + 1, one, Settled.COMMITTED))
        apply(state, broker_record(BrokerStatus.COMPLETE_COMMIT, n, transaction=one.transaction, start=n, epoch=n))
    trim(state)
    assert len(state.ledger.commit_decisions(PREFIX)) == 50
    assert state.ledger.listing(handle("ip-count-0-0", epoch=1000).key) is not None
    assert state.ledger.outcome(handle("ip-count-0-1", epoch=1).key) is None


LOSS = (
    run_started(0),
    broker_record(BrokerStatus.ONGOING, 0),
    decided(1, handle()),
    broker_record(BrokerStatus.PREPARE_ABORT, 60_000, epoch=5),
    broker_record(BrokerStatus.COMPLETE_ABORT, 60_010, epoch=5),
)


def others_end(state: State, count: int, begin: int = 100_000) -> None:
    for n in range(begin, begin + count):
        apply(state, broker_record(BrokerStatus.COMPLETE_COMMIT, n, transaction=f"t-{n % 50}", producer_id=n, start=n))


def test_a_lost_transaction_stays_until_its_batch_is_replayed() -> None:
    state = State(settled_kept=50)
    for seen in LOSS:
        apply(state, seen)
    others_end(state, 400)
    assert [(v.transaction, v.state) for v in views(state, settled=False)] == [("ip-count-0-1", TransactionState.LOST)]
    assert len(state.broker) <= 101
    apply(state, decided(2, handle("ip-count-0-0", epoch=7), batch=42))
    trim(state)
    others_end(state, 400, begin=200_000)
    assert not state.aborted
    assert state.ledger.listing(handle().key) is None
    assert state.ended.lost_forgotten == 0


def test_a_lost_branch_and_a_lost_handle_that_nothing_else_tells_of_stay() -> None:
    tombstone, reported = database_handle(), database_handle("postgres", nonce="00000002")
    state = State(settled_kept=5)
    for seen in (
        run_started(0),
        decided(1, tombstone, reported),
        outcome(2, reported, Settled.LOST),
        branch_listed(tombstone),
        branch_gone(tombstone, BranchProof.TOMBSTONE),
    ):
        apply(state, seen)
    for n in range(100):
        other = database_handle(nonce=f"{n:08x}"[::-1])
        apply(state, branch_listed(other, at=10_000 + n))
        apply(state, branch_gone(other, BranchProof.COMMITTED, at=10_001 + n))
        apply(state, transaction_event(EventType.TRANSACTION_PREPARED, 10_000 + n, other))
    trim(state)
    lost = {view.key for view in views(state, settled=False) if view.state is TransactionState.LOST}
    assert lost == {tombstone.key, reported.key}


def test_beyond_their_bound_the_oldest_lost_ones_leave_and_are_counted() -> None:
    state = State(settled_kept=5, lost_kept=3)
    apply(state, run_started(0))
    lost = [handle(f"ip-count-{slot}-1", slot=slot, producer_id=slot) for slot in range(6)]
    apply(state, decided(1, *lost))
    for slot, one in enumerate(lost):
        apply(
            state,
            broker_record(BrokerStatus.COMPLETE_ABORT, 60_000 + slot, transaction=one.transaction, producer_id=slot),
        )
    others_end(state, 60)
    trim(state)
    assert sorted(v.slot or 0 for v in views(state, settled=False)) == [3, 4, 5]
    assert state.ended.lost_forgotten == 3


def test_the_commits_of_an_id_are_those_in_memory() -> None:
    state = State(settled_kept=50)
    for n in range(300):
        end = BrokerStatus.COMPLETE_ABORT if n % 5 == 0 else BrokerStatus.COMPLETE_COMMIT
        for status in (BrokerStatus.PREPARE_COMMIT, end) if n % 5 else (end,):
            apply(state, broker_record(status, n, transaction=f"orders-0-{n % 7}", start=n, epoch=n))
    trim(state)
    in_memory = Counter(t.identity.transaction for t in state.broker.values() if t.is_committing)
    assert state.commits.of_id == in_memory
    assert in_memory.total() == 40
    assert state.commits.ids_of_application == {"orders": len(in_memory)}
    assert state.commits.of_application("orders-1-1")
    assert not state.commits.of_application("order-0-1")
    for n in range(300, 1000):
        apply(state, broker_record(BrokerStatus.COMPLETE_ABORT, n, transaction="other", start=n, epoch=n))
    trim(state)
    assert not state.commits.of_id
    assert not state.commits.ids_of_application


def test_a_failed_attempt_that_is_tried_again_completes() -> None:
    state = folded(
        event(EventType.CHECKPOINT_STARTED, 0, batch=3),
        event(EventType.CHECKPOINT_FAILED, 100, batch=3, reason="boom"),
        event(EventType.CHECKPOINT_STARTED, 10_000, batch=3),
        event(EventType.CHECKPOINT_COMPLETED, 11_000, batch=3, rows=7, bytes=70, duration_ms=1000),
    )
    checkpoint = state.checkpoints[PREFIX, 3]
    assert (checkpoint.state, checkpoint.duration_ms, checkpoint.rows) == (CheckpointState.COMPLETED, 1000, 7)
    assert checkpoint.failed_ms == T0 + 100


@pytest.mark.parametrize(
    "broken",
    [
        event(EventType.TRANSACTION_OPENED, 0, transaction="x", producer_id="seven", producer_epoch=0),
        event(EventType.TRANSACTION_OPENED, 0, pipeline=""),
        event(EventType.TRANSACTION_PREPARED, 0, handle={"transaction": "x"}),
        event(EventType.CHECKPOINT_COMPLETED, 0),
        event(EventType.CHECKPOINT_COMPLETED, 0, batch=1, rows="many"),
        event(EventType.PIPELINE_STARTED, 0, settings=[1]),
    ],
)
def test_an_event_with_wrong_data_changes_nothing(broken: Observation) -> None:
    state = folded(*STORY)
    with pytest.raises(MalformedRecord):
        apply(state, broken)
    assert state == folded(*STORY)


def test_an_expired_id_takes_its_inits_along() -> None:
    state = folded(broker_record(BrokerStatus.EMPTY, 0, start=None), IdExpired(transaction="ip-count-0-1"))
    assert state.inits == {}


MYSQL, POSTGRES = database_handle(nonce="00000001"), database_handle("postgres", nonce="00000002")
GLOBAL: list[Observation] = [
    run_started(0),
    transaction_event(EventType.TRANSACTION_OPENED, 0, MYSQL),
    transaction_event(EventType.TRANSACTION_PREPARED, 500, MYSQL, handle=MYSQL.to_json()),
    transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json()),
    transaction_event(EventType.TRANSACTION_OPENED, 0, POSTGRES),
    decided(1, handle(), MYSQL, POSTGRES),
    outcome(2, MYSQL, Settled.COMMITTED),
]


@pytest.mark.parametrize("seed", range(20))
def test_branches_join_in_any_order_and_are_found_by_their_keys(seed: int) -> None:
    state = folded(*interleaved(GLOBAL, seed))
    assert state == folded(*GLOBAL)
    found = {view.resource_manager: view for view in views(state, settled=True)}
    assert {name: view.state for name, view in found.items()} == {
        "kafka": TransactionState.DECIDED,
        "mysql": TransactionState.COMMITTED,
        "postgres": TransactionState.DECIDED,
    }
    for one in (handle(), MYSQL, POSTGRES):
        view = find(state, one.key)
        assert view is not None
        assert (view.key, view.pipeline, view.slot, view.managed) == (one.key, PREFIX, 0, True)
    assert find(state, MYSQL.key.replace("mysql", "postgres")) is None
    assert found["mysql"].timeout_ms is found["postgres"].deadline_ms is None


def test_a_branch_known_by_its_opening_has_its_own_resource_manager() -> None:
    view = only_view(run_started(0), transaction_event(EventType.TRANSACTION_OPENED, 0, POSTGRES))
    assert (view.resource_manager, view.key, view.state) == ("postgres", POSTGRES.key, TransactionState.OPEN)


def test_that_it_runs_is_no_sign_of_progress() -> None:
    facts = folded(event(EventType.CHECKPOINT_STARTED, 0, batch=41), *STORY[2:4]).pipelines[PREFIX]
    assert (facts.last_seen_ms, facts.alive_ms) == (T0, T0 + 90_000), (
        "a batch that stands still is found by its last sign"
    )
