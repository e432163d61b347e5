"""What MySQL (MariaDB) and PostgreSQL promise alike, asked on the real servers and judged by an independent connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RolledBack
from tests.integration.database_fixtures import LIMIT_S, DatabaseSink, counts, make_sink

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql", "postgres"])
def sink(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from make_sink(request.getfixturevalue("mariadb" if request.param == "mysql" else "postgres"))


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
