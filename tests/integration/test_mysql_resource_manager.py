"""What is MySQL's and MariaDB's own: XAER_NOTA while a connection is open, foreign xids, sessions that are ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa
import pytest

from indoubt.lifecycle.branch_id import BranchId
from indoubt.lifecycle.errors import RecordTooLarge, ResourceManagerError, SettingsError, Unreachable
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RetryLater, RolledBack
from indoubt.resource_managers.mysql import forgotten_branches
from indoubt.resource_managers.mysql.resource_manager import MySqlResourceManager
from indoubt.resource_managers.mysql.session import MySqlSession
from tests.integration.database_fixtures import (
    COLUMNS,
    FINGERPRINT,
    LIMIT_S,
    DatabaseSink,
    ask,
    connect,
    counts,
    make_sink,
    slot_attempt,
)
from tests.integration.pipeline_process import wait_until

pytestmark = pytest.mark.integration


MARKER = "insert into indoubt_markers (checkpoint_id, slot, batch, attempt, branch, state) values (%s, %s, 0, 1, %s, 'committed')"
TEXT = (("word", pa.string()), ("text", pa.string()), ("bytes", pa.binary()))


@pytest.fixture
def sink(mariadb) -> Iterator[DatabaseSink]:
    yield from make_sink(mariadb)


class ForeignXa:
    """Somebody else's XA transaction, by the driver alone; prepared, and its connection open until ``close``."""

    def __init__(self, sink: DatabaseSink, xid: str, word: str, *, marker_of: Handle | None = None) -> None:
        self.driver = connect(sink.server.connection)
        statement = f"insert into {sink.table} values (%s, 1)"  # noqa: S608 (a name made here)
        with self.driver.cursor() as cursor:
            cursor.execute(f"xa start {xid}")
            cursor.execute(statement, (word,))
            if marker_of is not None:
                cursor.execute(MARKER, (sink.checkpoint_id, marker_of.slot, marker_of.transaction))
            cursor.execute(f"xa end {xid}")
            cursor.execute(f"xa prepare {xid}")

    def detach(self) -> None:
        """End the session half way: others may finish the branch now, and InnoDB has not let go of it (COM_RESET_CONNECTION)."""
        self.driver._execute_command(0x1F, b"")
        self.driver._read_ok_packet()

    def close(self) -> None:
        self.driver.close()


def branch(sink: DatabaseSink) -> BranchId:
    return BranchId.new(prefix=sink.prefix, batch=0, attempt=1, slot=0)


def test_commit_waits_while_the_preparing_connection_is_open(sink):
    id_ = branch(sink)
    handle = dataclasses.replace(sink.prepare(counts(b=1), slot=1), transaction=str(id_), slot=0)
    preparing = ForeignXa(sink, f"'{id_.gtrid}','{id_.bqual}',1", "a", marker_of=handle)
    early = sink.commit(handle, limit_s=0.5)
    assert isinstance(early, RetryLater)
    assert "the connection that prepared it is still open" in early.reason
    assert isinstance(sink.manager().rollback([handle], 0.5)[0], RetryLater)
    with sink.in_background(lambda: sink.commit(handle)) as answer:
        preparing.close()
        assert answer() == Committed(handle=handle)
    assert sink.seen() == {"a": 1}


def forgotten(sink: DatabaseSink, word: str) -> Handle:
    """Return a branch that MariaDB said it had committed while its connection ended: it did not, and lists it no more."""
    id_ = branch(sink)
    xid = f"'{id_.gtrid}','{id_.bqual}',1"
    handle = dataclasses.replace(sink.prepare(counts(b=1), slot=1), transaction=str(id_), slot=0)
    assert sink.manager().fence(sink.manager().recover(sink.prefix), LIMIT_S) == [""]
    preparing = ForeignXa(sink, xid, word, marker_of=handle)
    preparing.detach()
    sink.ask(f"xa commit {xid}")
    preparing.close()
    assert (sink.seen(), sink.prepared()) == ({}, [])
    return handle


def test_a_branch_that_the_server_forgot_at_its_commit_is_committed(sink):
    handle = forgotten(sink, "a")
    assert sink.commit(handle) == Committed(handle=handle)
    assert (sink.seen(), sink.prepared()) == ({"a": 1}, [])
    assert isinstance(sink.commit(handle), AlreadyCommitted)
    sink.commit(sink.prepare(counts(a=2), batch=1), batch=1)
    assert sink.seen() == {"a": 2}, "nothing holds the row any more"


def test_a_branch_that_the_server_forgot_is_rolled_back(sink):
    handle = forgotten(sink, "a")
    assert sink.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]
    assert (sink.seen(), sink.prepared()) == ({}, [])
    sink.commit(sink.prepare(counts(a=2), batch=1), batch=1)
    assert sink.seen() == {"a": 2}, "nothing holds the row any more"


def test_a_commit_that_the_server_answers_without_a_branch_is_not_believed(sink):
    """A name that is listed and holds nothing: the marker is missing, so the batch is replayed."""
    handle = dataclasses.replace(sink.prepare(counts(b=1)), transaction=str(branch(sink)))
    assert sink.manager().fence(sink.manager().recover(sink.prefix), LIMIT_S) == [""]
    id_ = BranchId.parse(handle.transaction)
    assert id_ is not None
    with MySqlSession(sink.server.connection, lock_timeout_s=1) as session:
        forgotten_branches.list_again(session, id_)
    wait_until("the name in XA RECOVER", lambda: sink.prepared() == [handle.transaction], LIMIT_S)
    assert isinstance(sink.commit(handle), Lost)
    assert sink.prepared() == []


def test_a_hundred_commits_right_after_prepare(sink):
    """The server notices a closed connection a little later: those that it still holds are asked for again."""
    for batch in range(100):
        handle = sink.prepare(counts(a=batch), batch=batch)
        assert sink.commit(handle, batch=batch) == Committed(handle=handle)
    assert sink.seen() == {"a": 99}


@pytest.mark.parametrize(
    ("xid", "shown"),
    [
        ("'atomikos.1','bean',4871251", "'atomikos.1','bean',4871251"),
        ("X'00ff','',7", "X'00ff',X'',7"),
        ("'it''s','a b',1", "X'69742773',X'612062',1"),
        ("'p:1:2','3:deadbeef',2", "'p:1:2','3:deadbeef',2"),
    ],
)
def test_foreign_xids_are_shown_and_can_be_rolled_back(sink, xid, shown):
    ForeignXa(sink, xid, "a").close()
    manager = sink.manager()
    (view,) = wait_until(
        f"{shown} in the list", lambda: [v for v in manager.list_transactions() if v.transaction == shown], LIMIT_S
    )
    assert (view.state, view.started_at_ms, view.timeout_ms) == ("Prepared", None, None)
    assert manager.recover("p") == []
    assert manager.fence([view], LIMIT_S) == [""]
    assert [v for v in manager.list_transactions() if v.transaction == shown] == []
    assert sink.seen() == {}


def test_a_rollback_of_a_name_that_is_no_xid_finds_nothing(sink):
    handle = dataclasses.replace(sink.prepare(counts(a=1)), transaction="no xid")
    assert sink.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]


def test_each_session_refuses_what_it_would_have_to_change(sink):
    with MySqlSession(sink.server.connection, lock_timeout_s=1.2) as session:
        mode, zone, lock = session.query("select @@sql_mode, @@time_zone, @@innodb_lock_wait_timeout")[0]
    assert "STRICT_ALL_TABLES" in mode
    assert (zone, lock) == ("+00:00", 2)


def test_a_server_that_hangs_is_unreachable_within_the_limit(sink):
    handle = sink.prepare(counts(a=1))
    process = sink.server.pid
    assert process is not None
    with sink.frozen(process):
        answer = sink.commit(handle, limit_s=1.0)
        assert isinstance(answer, RetryLater)
        with pytest.raises(Unreachable):
            MySqlSession(sink.server.connection, lock_timeout_s=1, limit_s=1)
    assert isinstance(sink.commit(handle), Committed)


def test_a_connection_of_another_kind_is_refused(postgres):
    with pytest.raises(SettingsError, match="a connection to postgres was given to the resource manager 'mysql'"):
        MySqlResourceManager(postgres.connection)


def test_a_dead_writers_transaction_is_ended_by_the_next_of_its_slot(sink):
    """A host that was cut off leaves its connection open at the server: its lock names it, and it is ended."""
    first = sink.begin(attempt=1)
    first.write(counts(a=1))
    second = sink.begin(attempt=2)
    with pytest.raises(Unreachable):
        first.write(counts(b=1))
    second.write(counts(a=2))
    second.abort()
    first.abort()


def test_a_row_larger_than_a_packet_is_refused_before_it_is_sent(mariadb):
    tables = make_sink(mariadb, "word varchar(50) primary key, text longtext, bytes longblob", TEXT)
    sink = next(tables)
    ask(mariadb.administrator, "set global max_allowed_packet = 4194304")
    try:
        fits = {"word": ["a", "b", "c"], "text": ["x" * 2_000_000] * 3, "bytes": [b"x" * 900_000] * 3}
        sink.commit(sink.prepare(pa.RecordBatch.from_pydict(fits, schema=pa.schema(list(TEXT)))))
        assert sink.ask(f"select word, length(text), length(bytes) from {sink.table} order by word") == [  # noqa: S608
            (word, 2_000_000, 900_000) for word in "abc"
        ]
        large = {"word": ["a"], "text": ["\n" * 2_200_000], "bytes": [b""]}
        with pytest.raises(
            RecordTooLarge, match=r"a row of 4,400,001 bytes .*max_allowed_packet = 4,194,304\): raise it"
        ):
            sink.prepare(pa.RecordBatch.from_pydict(large, schema=pa.schema(list(TEXT))), batch=1)
    finally:
        ask(mariadb.administrator, "set global max_allowed_packet = 16777216")
    assert next(tables, None) is None


def test_numbers_that_mysql_cannot_hold_are_refused(mariadb):
    columns = (("word", pa.string()), ("v", pa.float64()))
    tables = make_sink(mariadb, "word varchar(50) primary key, v double", columns)
    sink = next(tables)
    rows = pa.RecordBatch.from_pydict({"word": ["a"], "v": [float("nan")]}, schema=pa.schema(list(columns)))
    with pytest.raises(ResourceManagerError, match="nan can not be used with MySQL"):
        sink.prepare(rows)
    assert next(tables, None) is None


def test_the_attempt_in_a_slot_is_noted_once_a_run(sink):
    for batch in range(3):
        sink.begin(batch=batch, attempt=7).abort()
    assert sink.ask("select slot, attempt from indoubt_writers where prefix = %s", (sink.prefix,)) == [(0, 7)]


def test_a_recreated_decision_log_counts_attempts_from_the_start(sink):
    sink.begin(attempt=500).abort()
    sink.begin(attempt=2).abort()
    assert sink.ask("select slot, attempt from indoubt_writers where prefix = %s", (sink.prefix,)) == [(0, 2)]


def test_another_database_of_the_server_has_writers_of_its_own(sink):
    ask(sink.server.administrator, "create database other")
    ask(sink.server.administrator, f"create table other.{sink.table} like indoubt.{sink.table}")
    elsewhere = MySqlResourceManager(dataclasses.replace(sink.server.administrator, database="other"), table=sink.table)
    elsewhere.verify(COLUMNS)
    first = sink.begin(attempt=1)
    elsewhere.begin(slot_attempt(sink.prefix, attempt=2, checkpoint_id=sink.checkpoint_id)).abort()
    first.write(counts(a=1))
    assert isinstance(sink.commit(first.prepare(FINGERPRINT)), Committed)
    ask(sink.server.administrator, "drop database other")


def test_an_error_that_the_driver_does_not_call_its_own_is_one_line(sink):
    manager = sink.manager_at(password="пароль")
    with pytest.raises(ResourceManagerError, match=r"connect as 'indoubt': the driver failed: UnicodeEncodeError"):
        manager.list_transactions()
