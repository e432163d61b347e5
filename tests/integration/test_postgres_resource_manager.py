"""What is PostgreSQL's own: gids as plain text, times of preparation, databases and owners, sessions that are ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import psycopg
import pytest

from indoubt.lifecycle.errors import Unreachable
from indoubt.lifecycle.outcomes import Committed, RetryLater
from indoubt.resource_managers.postgres.resource_manager import PostgresResourceManager
from indoubt.resource_managers.postgres.session import PostgresSession
from tests.integration.database_fixtures import LIMIT_S, DatabaseSink, ask, connect, counts, make_sink

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(postgres) -> Iterator[DatabaseSink]:
    yield from make_sink(postgres)


def prepare_foreign(sink: DatabaseSink, gid: str, word: str) -> None:
    with connect(sink.server.connection) as driver:
        driver.execute("begin")
        driver.execute(f"insert into {sink.table} values (%s, 1)", (word,))  # noqa: S608 (a name made here)
        driver.execute(psycopg.sql.SQL("prepare transaction {}").format(psycopg.sql.Literal(gid)))


def test_a_prefix_that_looks_like_the_drivers_own_xids_stays_plain_text(sink):
    """psycopg reads ``1_YQ==_YQ==`` as an XA xid of its own; a gid of ours is sent as it is."""
    odd = DatabaseSink(sink.server, table=sink.table, prefix=f"12_{sink.prefix}_YQ")
    handle = odd.prepare(counts(a=1))
    assert odd.prepared() == [handle.transaction]
    assert odd.commit(handle) == Committed(handle=handle)


@pytest.mark.parametrize("gid", ["somebody's 'own' gid", "1_YQ==_YQ==", "p:1:2:3:deadbeefX"])
def test_foreign_gids_are_shown_with_their_time_and_can_be_rolled_back(sink, gid):
    before_ms = time.time_ns() // 1_000_000 - 1
    prepare_foreign(sink, gid, "a")
    manager = sink.manager()
    (view,) = [v for v in manager.list_transactions() if v.transaction == gid]
    assert view.state == "Prepared"
    assert view.started_at_ms is not None
    assert before_ms <= view.started_at_ms <= time.time_ns() // 1_000_000 + 1
    assert manager.recover("p") == []
    assert manager.fence([view], LIMIT_S) == [""]
    assert [v for v in manager.list_transactions() if v.transaction == gid] == []
    assert sink.seen() == {}


def test_other_databases_of_the_server_are_not_listed(sink):
    """COMMIT PREPARED works only in the database of the transaction: a manager sees what it can finish."""
    handle = sink.prepare(counts(a=1))
    elsewhere = PostgresResourceManager(sink.server.administrator)
    assert handle.transaction not in [view.transaction for view in elsewhere.list_transactions()]
    assert handle.transaction in [view.transaction for view in sink.manager().list_transactions()]


def test_a_branch_of_another_owner_is_refused_with_the_servers_words(sink):
    ask(sink.server.administrator, "create role another login password 'x'")
    handle = sink.prepare(counts(a=1))
    another = PostgresResourceManager(dataclasses.replace(sink.server.connection, user="another", password="x"))
    answer = another.commit([handle], [sink.marker()], 0.5)[0]
    assert isinstance(answer, RetryLater)
    assert "permission denied to finish prepared transaction" in answer.reason
    assert isinstance(sink.commit(handle), Committed)
    ask(sink.server.administrator, "drop role another")


def test_the_writing_session_is_named_after_its_branch(sink):
    open_ = sink.begin()
    names = [row[0] for row in sink.ask("select application_name from pg_stat_activity")]
    assert open_.provisional_handle.transaction in names
    open_.abort()


def test_a_statement_that_hangs_is_given_up_within_the_limit(sink):
    with PostgresSession(sink.server.connection, lock_timeout_s=1, limit_s=1) as session:
        with pytest.raises(Unreachable, match=r"no answer in 1 s: is the server up"):
            session.query("select pg_sleep(60)")
        with pytest.raises(Unreachable):
            session.query("select 1")


def test_a_server_process_that_hangs_during_a_commit_gives_retry_later(sink):
    handle = sink.prepare(counts(a=1))
    postmaster = sink.server.pid
    assert postmaster is not None
    with sink.frozen(postmaster):
        answer = sink.commit(handle, limit_s=1.0)
    assert isinstance(answer, RetryLater)
    assert isinstance(sink.commit(handle), Committed)


def test_what_is_written_waits_for_the_disk_whatever_the_server_is_set_to(sink):
    ask(sink.server.administrator, "alter role indoubt set synchronous_commit = off")
    settings = (
        "select current_setting('synchronous_commit'), current_setting('timezone'), current_setting('lock_timeout')"
    )
    try:
        with PostgresSession(sink.server.connection, lock_timeout_s=1) as session:
            before = session.query(settings)
            session.begin()
            assert session.query(settings) == [("on", "UTC", "1s")]
            session.commit()
            assert session.query(settings) == before != [("on", "UTC", "1s")], "a pooler lends the session to others"
    finally:
        ask(sink.server.administrator, "alter role indoubt reset synchronous_commit")


def test_a_dead_writers_transaction_is_ended_by_the_next_of_its_slot(sink):
    """A host that was cut off leaves its connection open at the server: its session's name tells, and it is ended."""
    first = sink.begin(attempt=1)
    first.write(counts(a=1))
    second = sink.begin(attempt=2)
    with pytest.raises(Unreachable, match="terminating connection"):
        first.write(counts(b=1))
    second.write(counts(a=2))
    second.abort()
    first.abort()
