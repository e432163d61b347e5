"""Rules of the marker, of flush and of the writer's connection: what makes an outcome provable later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql.types import StructType

from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Marker
from indoubt.lifecycle.outcomes import Committed, RetryLater
from indoubt.pipeline.sink.data_source import TwoPhaseCommitSink
from tests.integration import database_fixtures, kafka_fixtures
from tests.integration.database_fixtures import FINGERPRINT, DatabaseSink, counts
from tests.integration.kafka_fixtures import LIMIT_S, Sink, wait_until
from tests.integration.protocol_run import ProtocolSinks, protocol_sinks

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(connection) -> Sink:
    return kafka_fixtures.make_sink(connection)


@pytest.fixture(params=["mariadb", "postgres"])
def table(request: pytest.FixtureRequest) -> Iterator[DatabaseSink]:
    yield from database_fixtures.make_sink(request.getfixturevalue(request.param))


@pytest.fixture
def topic_sink(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def marker_of(sink: Sink) -> Marker | None:
    return sink.stable_marker()


def test_the_marker_is_inside_the_transaction_in_kafka(sink):
    assert marker_of(sink) is None
    sink.manager().rollback([sink.prepare(b"a", batch=3, attempt=7)], LIMIT_S)
    assert marker_of(sink) is None, "aborted with its transaction"
    assert isinstance(sink.commit(sink.prepare(b"a", batch=3, attempt=8), batch=3, attempt=8), Committed)
    assert marker_of(sink) == Marker(batch=3, attempt=8, checkpoint_id="L"), "committed with it"


def test_the_marker_is_inside_the_transaction_in_a_database(table):
    handle = table.prepare(counts(a=1), batch=3, attempt=7)
    assert table.markers() == [], "prepared with it, and not to be seen"
    table.manager().rollback([handle], LIMIT_S)
    assert table.markers() == []
    table.commit(table.prepare(counts(a=1), batch=3, attempt=8), batch=3, attempt=8)
    assert table.markers() == [(0, 3, 8, "committed")]


def test_nothing_is_called_lost_while_a_marker_is_unstable(sink):
    """UNSTABLE says only that some transaction of the slot is open: it may be the one that is asked about."""
    handle = sink.prepare(b"a", batch=4)
    with pytest.raises(ResourceManagerError, match="UnstableOffsetCommit"):
        sink.stable_marker(limit_s=0.3)
    # An epoch that the coordinator does not take, while a transaction of this very producer is open.
    other_epoch = replace(handle, producer_epoch=handle.producer_epoch + 1)
    marker = Marker(batch=4, attempt=1, checkpoint_id="L")
    (outcome,) = sink.manager().commit([other_epoch], [marker], 0.3)
    assert isinstance(outcome, RetryLater)
    assert sink.manager().check([handle])[0].ready, "asking aborted nothing"
    assert isinstance(sink.commit(handle, batch=4), Committed)


def test_the_database_connection_is_closed_before_the_handle_is_returned(table):
    """Another connection cannot finish an XA branch while the one that prepared it is there."""
    before = sessions(table)
    transaction = table.begin()
    try:
        transaction.write(counts(a=1))
        writing = sessions(table) - before
        assert writing, "the writer has a session"
        transaction.prepare(FINGERPRINT)
        # The server notes the end of a connection a moment after the client has closed it.
        wait_until("the end of the writer's session", lambda: not writing & sessions(table))
    finally:
        transaction.abort()


def sessions(table: DatabaseSink) -> set[int]:
    """Return the server's ids of its sessions but for the one that asks."""
    if table.kind == "postgres":
        found = table.ask("select pid from pg_stat_activity where pid <> pg_backend_pid()")
    else:
        found = table.ask("select id from information_schema.processlist where id <> connection_id()")
    return {id_ for (id_,) in found}


def test_recovery_is_never_in_stream_writer(topic_sink):
    """Spark calls ``streamWriter`` once a batch, in the commit worker too: what is open then is the batch under way."""
    run = topic_sink.run()
    message = run.slot(0, b"a")
    log_end = topic_sink.ledger().next_offset
    for _ in range(2):
        TwoPhaseCommitSink(run.options.to_spark()).streamWriter(StructType([]), False)
    assert topic_sink.ledger().next_offset == log_end, "no run was started"
    run.commit(message)
    topic_sink.expect(b"a", pending=0)
