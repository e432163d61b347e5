"""Killed servers, killed, frozen and superseded writers: what is prepared stays, what is not leaves nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from indoubt.lifecycle.errors import Unreachable, ZombieWriter
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.outcomes import Committed, Lost, RetryLater
from indoubt.resource_managers.database.errors import LockTimeout
from tests.integration.database_fixtures import FINGERPRINT, DatabaseSink, WriterProcess, counts, make_sink
from tests.integration.pipeline_process import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(params=["mysql", "postgres"])
def sink(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(request.getfixturevalue("mariadb" if request.param == "mysql" else "postgres"))


def test_a_server_killed_between_prepare_and_commit_keeps_the_branch(sink):
    handle = sink.prepare(counts(a=1))
    sink.server.kill()
    with pytest.raises(Unreachable, match=f"{sink.server.port}.*is the server up"):
        sink.manager().check([handle])
    gone = sink.commit(handle, limit_s=0.5)
    assert isinstance(gone, RetryLater)
    assert "is the server up" in gone.reason
    sink.server.start()
    assert sink.prepared() == [handle.transaction]
    assert sink.seen() == {}
    assert isinstance(sink.commit(handle), Committed)
    sink.server.kill()
    sink.server.start()
    assert sink.seen() == {"a": 1}


def test_commit_goes_on_when_the_server_comes_back_within_the_limit(sink):
    handle = sink.prepare(counts(a=1))
    sink.server.kill()
    with sink.in_background(lambda: sink.commit(handle, limit_s=60)) as answer:
        sink.server.start()
        assert isinstance(answer(), Committed)
    assert sink.seen() == {"a": 1}


def test_a_writer_killed_before_prepare_leaves_nothing(sink):
    with WriterProcess(sink, {"a": 1}, until="open") as writer:
        assert sink.prefix in writer.told()["open"]
        writer.signal(signal.SIGKILL)
    assert sink.prepared() == []
    assert isinstance(sink.commit(sink.prepare(counts(a=2), attempt=2), attempt=2), Committed)
    assert sink.seen() == {"a": 2}


def test_what_a_killed_writer_had_prepared_is_committed_by_another_process(sink):
    with WriterProcess(sink, {"a": 1}, until="prepared") as writer:
        handle = Handle.from_json(writer.told())
        writer.signal(signal.SIGKILL)
    assert sink.seen() == {}
    assert isinstance(sink.commit(handle), Committed)
    assert sink.seen() == {"a": 1}


def test_a_frozen_writer_holds_no_rows_and_cannot_prepare_when_it_wakes(sink):
    with WriterProcess(sink, {"a": 1}, until="open") as frozen:
        frozen.told()
        frozen.signal(signal.SIGSTOP)
        handle = sink.prepare(counts(a=2), attempt=2)
        assert isinstance(sink.commit(handle, attempt=2), Committed)
        frozen.signal(signal.SIGCONT)
        frozen.go_on()
        assert frozen.told()["error"] in ("Unreachable", "ResourceManagerError")
    assert sink.prepared() == []
    assert sink.seen() == {"a": 2}


def test_a_writer_superseded_in_its_slot_is_refused_before_any_commit(sink):
    newer = sink.begin(attempt=2)
    newer.write(counts(a=2))
    with pytest.raises(ZombieWriter, match="attempt 2"):
        sink.begin(attempt=1)
    handle = newer.prepare(FINGERPRINT)
    assert isinstance(sink.commit(handle, attempt=2), Committed)


def test_a_tombstone_stops_the_writer_that_was_given_up(sink):
    slow = sink.begin()
    slow.write(counts(a=1))
    assert isinstance(sink.commit(slow.provisional_handle), Lost)
    with pytest.raises(ZombieWriter, match="its marker is there already"):
        slow.prepare(FINGERPRINT)
    slow.abort()
    assert sink.prepared() == []
    assert sink.seen() == {}


def test_an_orphan_of_an_older_attempt_does_not_block_the_new_one(sink):
    orphan = sink.prepare(counts(a=1), slot=3)
    handle = sink.prepare(counts(a=2), attempt=2, slot=0)
    assert sink.prepared() == [handle.transaction], "rolled back, although it was in another slot"
    assert isinstance(sink.commit(orphan), Lost)
    assert isinstance(sink.commit(handle, attempt=2), Committed)
    assert sink.seen() == {"a": 2}


def test_an_orphan_of_an_earlier_try_does_not_block_the_next(sink):
    first = sink.prepare(counts(a=1))
    second = sink.prepare(counts(a=1))
    assert sink.prepared() == [second.transaction] != [first.transaction]


def test_begin_leaves_alone_what_a_decision_may_list(sink):
    neighbour = sink.prepare(counts(a=1), slot=1)
    stranger = DatabaseSink(sink.server, table=sink.table, prefix=f"{sink.prefix}.other")
    other = stranger.prepare(counts(b=1))
    mine = sink.prepare(counts(c=1), slot=0)
    assert sink.prepared() == sorted([neighbour.transaction, mine.transaction])
    assert stranger.prepared() == [other.transaction]
    stranger.roll_back_all()


def test_a_row_that_a_foreign_branch_holds_is_a_clear_error(sink):
    stranger = DatabaseSink(sink.server, table=sink.table, prefix=f"{sink.prefix}.other")
    stranger.prepare(counts(a=1))
    with pytest.raises(LockTimeout, match=r"another transaction holds the row; .* lists prepared ones"):
        sink.prepare(counts(a=2), lock_timeout_s=1.0)
    assert sink.prepared() == []
    stranger.roll_back_all()
    sink.commit(sink.prepare(counts(a=2)))
    assert sink.seen() == {"a": 2}


def test_a_server_killed_under_a_writing_slot_leaves_nothing(sink):
    transaction = sink.begin()
    transaction.write(counts(a=1))
    sink.server.kill()
    with pytest.raises(Unreachable):
        transaction.prepare(FINGERPRINT)
    transaction.abort()
    transaction.abort()
    sink.server.start()
    assert sink.prepared() == []
    assert sink.seen() == {}
    wait_until("the next attempt can write", lambda: sink.commit(sink.prepare(counts(a=2), attempt=2), attempt=2))
    assert sink.seen() == {"a": 2}
