"""What MySQL (MariaDB) and PostgreSQL promise alike, asked on the real servers and judged by an independent connection."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from lifecycle.errors import ZombieWriter
from lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RetryLater, RolledBack, Unknown
from resource_managers.database.markers import KEPT_BATCHES
from tests.integration.database_fixtures import FINGERPRINT, LIMIT_S, DatabaseSink, counts, make_sink

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql", "postgres"])
def sink(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(request.getfixturevalue("mariadb" if request.param == "mysql" else "postgres"))


ONE_DATABASE = pytest.mark.parametrize(
    "sink", ["mysql", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)
"""On a test that settles hundreds of branches: the other database in the long run."""


def test_prepared_rows_are_invisible_until_another_connection_commits_them(sink):
    handle = sink.prepare(counts(a=1, b=2))
    assert sink.seen() == {}
    assert sink.prepared() == [handle.transaction]
    assert sink.commit(handle) == Committed(handle=handle)
    assert sink.seen() == {"a": 1, "b": 2}
    assert sink.prepared() == []


def test_the_handle_says_what_it_holds(sink):
    handle = sink.prepare(counts(a=1, b=2))
    assert (handle.resource_manager, handle.slot, handle.rows, handle.fingerprint) == (
        sink.kind,
        0,
        2,
        "1:0000000000000abc",
    )
    assert (handle.producer_id, handle.producer_epoch, handle.timeout_ms) == (None, None, 0)
    assert handle.bytes > 0
    assert handle.opened_at_ms <= handle.prepared_at_ms
    assert handle.transaction.startswith(f"{sink.prefix}:0:1:0:")


def test_commit_again_is_already_committed(sink):
    handle = sink.prepare(counts(a=1))
    assert isinstance(sink.commit(handle), Committed)
    assert sink.commit(handle) == AlreadyCommitted(handle=handle)
    assert sink.seen() == {"a": 1}


def test_commit_after_a_rollback_is_lost_and_leaves_a_tombstone(sink):
    handle = sink.prepare(counts(a=1))
    assert sink.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]
    assert isinstance(sink.commit(handle), Lost)
    assert sink.markers() == [(0, 0, 1, "tombstone")]
    assert isinstance(sink.commit(handle), Lost), "asked again, it is lost still"
    assert sink.seen() == {}


def test_rollback_of_a_committed_one_is_already_committed(sink):
    handle = sink.prepare(counts(a=1))
    sink.commit(handle)
    assert sink.manager().rollback([handle], LIMIT_S) == [AlreadyCommitted(handle=handle)]
    assert sink.seen() == {"a": 1}


def test_check_says_whether_the_branch_is_there(sink):
    handle = sink.prepare(counts(a=1))
    (ready,) = sink.manager().check([handle])
    assert ready.ready
    assert ready.time_left_ms > 10**12
    sink.manager().rollback([handle], LIMIT_S)
    (gone,) = sink.manager().check([handle])
    assert not gone.ready
    assert "does not list it" in gone.reason


def test_recover_returns_this_prefix_only(sink):
    handle = sink.prepare(counts(a=1))
    longer = DatabaseSink(sink.server, table=sink.table, prefix=sink.prefix + ".more")
    other = longer.prepare(counts(b=1))
    try:
        assert [view.transaction for view in sink.manager().recover(sink.prefix)] == [handle.transaction]
        assert {handle.transaction, other.transaction} <= {v.transaction for v in sink.manager().list_transactions()}
    finally:
        longer.roll_back_all()


def test_fence_rolls_back_what_recover_found(sink):
    sink.prepare(counts(a=1))
    views = sink.manager().recover(sink.prefix)
    assert sink.manager().fence(views, LIMIT_S) == [""]
    assert sink.prepared() == []
    assert sink.manager().fence(views, LIMIT_S) == [""], "gone is gone"


@ONE_DATABASE
def test_two_hundred_branches_are_committed_in_one_call(sink):
    manager = sink.manager()
    handles = [sink.prepare(counts(**{f"word{slot}": slot}), slot=slot) for slot in range(200)]
    assert len(sink.prepared()) == 200
    outcomes = manager.commit(handles, [sink.marker()] * 200, 60)
    assert outcomes == [Committed(handle=handle) for handle in handles]
    assert sink.seen() == {f"word{slot}": slot for slot in range(200)}


def test_each_handle_gets_its_own_answer_in_order(sink):
    committed, open_, lost = (sink.prepare(counts(**{f"w{slot}": slot}), slot=slot) for slot in range(3))
    sink.commit(committed)
    sink.manager().rollback([lost], LIMIT_S)
    answers = sink.manager().commit([lost, open_, committed], [sink.marker()] * 3, LIMIT_S)
    assert [type(answer) for answer in answers] == [Lost, Committed, AlreadyCommitted]
    assert [answer.handle for answer in answers] == [lost, open_, committed]
    assert sink.seen() == {"w0": 0, "w1": 1}


def test_nothing_to_do_is_no_error_and_needs_no_server(sink):
    nowhere = sink.manager_at(port=1)
    assert (nowhere.commit([], [], 1), nowhere.rollback([], 1), nowhere.fence([], 1)) == ([], [], [])
    assert nowhere.check([]) == []


def test_an_empty_slot_is_prepared_and_committed_too(sink):
    handle = sink.prepare(counts())
    assert (handle.rows, handle.bytes) == (0, 0)
    assert isinstance(sink.commit(handle), Committed)
    assert sink.markers() == [(0, 0, 1, "committed")]


def test_flushed_is_called_when_the_rows_are_there_and_the_marker_is_not(sink):
    transaction = sink.begin()
    transaction.write(counts(a=1))
    called = []
    handle = transaction.prepare(FINGERPRINT, flushed=lambda: called.append(sink.prepared()))
    assert called == [[]], "once, before anything was prepared"
    assert sink.prepared() == [handle.transaction]


def test_what_fails_in_flushed_leaves_nothing(sink):
    transaction = sink.begin()
    transaction.write(counts(a=1))
    with pytest.raises(ZeroDivisionError):
        transaction.prepare(FINGERPRINT, flushed=lambda: 1 // 0)
    transaction.abort()
    sink.commit(sink.prepare(counts(a=2)))
    assert sink.seen() == {"a": 2}


def test_abort_leaves_nothing_and_abort_after_prepare_does_nothing(sink):
    transaction = sink.begin()
    transaction.write(counts(a=1))
    transaction.abort()
    transaction.abort()
    prepared = sink.begin()
    prepared.write(counts(a=2))
    handle = prepared.prepare(FINGERPRINT)
    prepared.abort()
    assert sink.prepared() == [handle.transaction]
    assert isinstance(sink.commit(handle), Committed)
    assert sink.seen() == {"a": 2}


def test_rows_committed_outside_are_not_seen_before_all_slots_are_decided(sink):
    """Atomicity is per slot: said in docs/databases.md."""
    first, second = sink.prepare(counts(a=1), slot=0), sink.prepare(counts(b=1), slot=1)
    sink.commit(first)
    assert sink.seen() == {"a": 1}
    sink.commit(second)
    assert sink.seen() == {"a": 1, "b": 1}


def test_lost_is_not_said_while_an_open_transaction_holds_the_markers_key(sink):
    handle = sink.prepare(counts(a=1))
    sink.manager().rollback([handle], LIMIT_S)
    with sink.open_marker(handle) as preparing:
        answer = sink.commit(handle, limit_s=0.5)
        assert isinstance(answer, RetryLater)
        assert "holds the marker's key" in answer.reason
        preparing.commit()
    assert isinstance(sink.commit(handle), Committed | AlreadyCommitted)


def test_another_try_of_the_task_does_not_block_settling_a_lost_branch(sink):
    listed = sink.prepare(counts(a=1))
    # Woken, an earlier try of the task rolls back what the next one prepared, and prepares by itself.
    rival = sink.prepare(counts(a=1))
    assert sink.prepared() == [rival.transaction]
    assert isinstance(sink.commit(listed), Lost)
    assert sink.prepared() == []
    assert sink.seen() == {}


def test_a_branch_whose_twin_was_committed_is_unknown_not_lost(sink):
    first = sink.prepare(counts(a=1))
    second = sink.prepare(counts(a=1))
    sink.commit(second)
    answer = sink.commit(first)
    assert isinstance(answer, Unknown)
    assert second.transaction in answer.reason


def test_a_replay_in_the_same_slot_does_not_settle_the_earlier_attempt(sink):
    lost = sink.prepare(counts(a=1), batch=3, attempt=1)
    replayed = sink.prepare(counts(a=1), batch=3, attempt=2)
    sink.commit(replayed, batch=3, attempt=2)
    assert isinstance(sink.commit(lost, batch=3, attempt=1), Lost)
    assert sink.markers() == [(0, 3, 1, "tombstone"), (0, 3, 2, "committed")]


@ONE_DATABASE
def test_markers_do_not_grow_and_the_newest_stays(sink):
    for batch in range(3 * KEPT_BATCHES):
        sink.commit(sink.prepare(counts(a=batch), batch=batch), batch=batch)
    batches = [batch for _, batch, _, _ in sink.markers()]
    assert batches[-1] == 3 * KEPT_BATCHES - 1
    assert len(batches) <= 2 * KEPT_BATCHES + 1
    with pytest.raises(ZombieWriter):
        sink.begin(batch=3 * KEPT_BATCHES - 1)


def test_a_marker_that_may_have_been_pruned_is_unknown_never_lost(sink):
    old = sink.prepare(counts(a=1))
    sink.commit(old)
    for batch in (20, 2 * KEPT_BATCHES, 2 * KEPT_BATCHES + 1):
        sink.commit(sink.prepare(counts(a=batch), batch=batch), batch=batch)
    assert 0 not in [batch for _, batch, _, _ in sink.markers()]
    answer = sink.commit(old)
    assert isinstance(answer, Unknown)
    assert "long ago" in answer.reason


def test_a_name_that_is_not_ours_is_unknown(sink):
    handle = dataclasses.replace(sink.prepare(counts(a=1)), transaction="somebody's own")
    assert isinstance(sink.commit(handle), Unknown)
