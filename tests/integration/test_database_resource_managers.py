"""The contract on MySQL (MariaDB) and PostgreSQL, and what the two promise beyond it, judged by an independent connection."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa
import pytest

from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from indoubt.lifecycle.errors import ZombieWriter
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RetryLater, Unknown
from indoubt.resource_managers.database.markers import KEPT_BATCHES
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from tests.integration.database_fixtures import LIMIT_S, DatabaseSink, counts, make_sink
from tests.integration.resource_manager_contract import ResourceManagerContract, SinkUnderTest

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql", "postgres"])
def sink(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(request.getfixturevalue("mariadb" if request.param == "mysql" else "postgres"))


ONE_DATABASE = pytest.mark.parametrize(
    "sink", ["mysql", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)
"""On a test that settles hundreds of branches: the other database in the long run."""


class Table(SinkUnderTest):
    """A table of word counts; a word that is written again overwrites."""

    def __init__(self, sink: DatabaseSink) -> None:
        super().__init__(sink.prefix)
        self._sink = sink

    def manager(self) -> DatabaseResourceManager:
        return self._sink.manager()

    def manager_without_a_server(self) -> DatabaseResourceManager:
        return self._sink.manager_at(port=1)

    def managers_by_other_ways(self) -> list[DatabaseResourceManager]:
        schema = self._sink.server.connection.database if self._sink.kind == "mysql" else "public"
        return [self._sink.manager_at(host="localhost"), self._sink.manager(table=f"{schema}.{self._sink.table}")]

    def manager_of_another_sink(self) -> DatabaseResourceManager:
        return self._sink.manager(table="indoubt_markers")

    def rows(self, *words: str) -> pa.RecordBatch:
        return counts(**dict.fromkeys(words, 1))

    def visible(self) -> list[str]:
        return sorted(self._sink.seen())

    def prepared(self) -> list[str]:
        return dataclasses.replace(self._sink, prefix=self.prefix).prepared()


class TestMySql(ResourceManagerContract):
    @pytest.fixture
    def sink(self, mariadb: MariaDbServer) -> Iterator[Table]:
        yield from map(Table, make_sink(mariadb))


class TestPostgres(ResourceManagerContract):
    @pytest.fixture
    def sink(self, postgres: PostgresServer) -> Iterator[Table]:
        yield from map(Table, make_sink(postgres))


def test_the_handle_names_a_branch_that_no_time_ends(sink):
    handle = sink.prepare(counts(a=1))
    assert handle.transaction.startswith(f"{sink.prefix}:0:1:0:")
    assert (handle.producer_id, handle.producer_epoch, handle.timeout_ms) == (None, None, 0)
    assert sink.manager().check([handle])[0].time_left_ms > 10**12
    sink.manager().rollback([handle], LIMIT_S)
    assert "does not list it" in sink.manager().check([handle])[0].reason


def test_commit_again_is_already_committed(sink):
    handle = sink.prepare(counts(a=1))
    sink.commit(handle)
    assert sink.commit(handle) == AlreadyCommitted(handle=handle)


def test_commit_after_a_rollback_is_lost_and_leaves_a_tombstone(sink):
    handle = sink.prepare(counts(a=1))
    sink.manager().rollback([handle], LIMIT_S)
    assert isinstance(sink.commit(handle), Lost)
    assert sink.markers() == [(0, 0, 1, "tombstone")]


@ONE_DATABASE
def test_two_hundred_branches_are_committed_in_one_call(sink):
    manager = sink.manager()
    handles = [sink.prepare(counts(**{f"word{slot}": slot}), slot=slot) for slot in range(200)]
    assert len(sink.prepared()) == 200
    outcomes = manager.commit(handles, [sink.marker()] * 200, 60)
    assert outcomes == [Committed(handle=handle) for handle in handles]
    assert sink.seen() == {f"word{slot}": slot for slot in range(200)}


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
