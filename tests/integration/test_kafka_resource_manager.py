"""The contract on Kafka, and each classified answer of the broker, from the real one, judged by an independent reader."""

from __future__ import annotations

import dataclasses
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.errors import ProducerFencedError

from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker, TransactionalId
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RolledBack, Unknown
from indoubt.resource_managers.kafka import descriptions, transaction
from indoubt.resource_managers.kafka.answers import answer_of_error
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.markers import KafkaMarkers, judge
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.kafka_fixtures import LIMIT_S, Sink, fingerprint_of, ids, make_sink, rows, wait_until
from tests.integration.resource_manager_contract import ResourceManagerContract, SinkUnderTest
from tests.integration.sink_reader import expect, seen

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(connection) -> Sink:
    return make_sink(connection)


class Topic(SinkUnderTest):
    """A topic whose values are the words, each row a record."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink.prefix)
        self._sink = sink

    def manager(self) -> KafkaResourceManager:
        return self._sink.manager()

    def manager_without_a_server(self) -> KafkaResourceManager:
        return KafkaResourceManager(KafkaConnection("127.0.0.1:1"), topic=self._sink.topic)

    def managers_by_other_ways(self) -> list[KafkaResourceManager]:
        port = self._sink.connection.bootstrap_servers.rpartition(":")[2]
        return [KafkaResourceManager(KafkaConnection(f"localhost:{port}"), topic=self._sink.topic)]

    def manager_of_another_sink(self) -> KafkaResourceManager:
        return KafkaResourceManager(self._sink.connection, topic="transaction_decisions")

    def rows(self, *words: str) -> pa.RecordBatch:
        return rows(*(word.encode() for word in words))

    def visible(self) -> list[str]:
        return sorted(value.decode() for value in seen(self._sink).elements())

    def prepared(self) -> list[str]:
        """Return those that are open and have an offset in them: the marker is one. Asked with another client's admin."""
        admin = KafkaAdminClient(**self._sink.connection.for_kafka_python())
        try:
            ids = [TransactionalId.of(self.prefix, slot, batch) for slot in range(4) for batch in range(2)]
            listed = {row.transactional_id for rows in admin.list_transactions().values() for row in rows}
            mine = admin.describe_transactions(listed & set(map(str, ids)))
        finally:
            admin.close()
        return sorted(
            id_
            for id_, row in mine.items()
            if row.state.value == "Ongoing" and any(at.topic == "__consumer_offsets" for at in row.topic_partitions)
        )


class TestKafka(ResourceManagerContract):
    @pytest.fixture
    def sink(self, connection: KafkaConnection) -> Topic:
        return Topic(make_sink(connection))


def test_handle_is_the_coordinators_own_view(sink):
    handle = sink.prepare(b"a")
    view = sink.view(handle.transaction)
    assert (view.state, view.producer_id, view.producer_epoch) == (
        "Ongoing",
        handle.producer_id,
        handle.producer_epoch,
    )
    assert view.timeout_ms == 60_000
    assert (sink.topic, 0) in view.partitions or (sink.topic, 1) in view.partitions
    assert sink.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]


def test_commit_after_the_brokers_timeout_is_lost(sink):
    marker = Marker(batch=0, attempt=1, checkpoint_id="L")
    transaction = sink.manager(1_000).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=marker))
    transaction.write(rows(b"a"))
    handle = transaction.prepare(fingerprint_of(b"a"))
    wait_until("the broker aborts it", lambda: sink.view(handle.transaction).state == "CompleteAbort")
    assert not sink.manager().check([handle])[0].ready
    assert isinstance(sink.commit(handle), Lost)
    # What a broker answers at transaction.version 2 once it has KAFKA-20785, and any broker below it.
    fenced = answer_of_error(ProducerFencedError)
    markers = KafkaMarkers(sink.connection, "transaction_decisions")
    judged = judge(sink.connection, markers, handle, marker, fenced, LIMIT_S)
    assert isinstance(judged.outcome, Lost)
    assert judged.commit is False
    assert seen(sink).total() == 0


def test_commit_after_a_newer_attempt_took_the_id_is_lost(sink):
    handle = sink.prepare(b"a", attempt=1)
    newer = sink.prepare(b"b", attempt=2)
    assert isinstance(sink.commit(newer, attempt=2), Committed)
    older = dataclasses.replace(handle)
    outcome = sink.commit(older, attempt=1)
    # The newer attempt's marker stands over the older one: the log's first outcome, not this answer, counts then.
    assert isinstance(outcome, AlreadyCommitted)
    expect(sink, b"b")


@pytest.mark.parametrize("ahead_ms", [90_000, -90_000])
def test_a_writers_clock_that_is_off_changes_no_time_that_is_left(sink, monkeypatch, ahead_ms):
    for module in (transaction, descriptions):
        monkeypatch.setattr(module, "now_ms", lambda: time.time_ns() // 1_000_000 + ahead_ms)
    (readiness,) = sink.manager().check([sink.prepare(b"a")])
    assert readiness.ready
    assert 50_000 < readiness.time_left_ms <= 60_000


def test_commit_of_an_id_that_nobody_knows_is_unknown_never_lost(sink):
    real = sink.prepare(b"a")
    sink.manager().rollback([real], LIMIT_S)
    gone = dataclasses.replace(real, transaction=f"{sink.prefix}-77-0", slot=77)
    assert isinstance(sink.commit(gone), Unknown)


def test_one_unknown_handle_fails_no_other(sink):
    manager = sink.manager()
    handles = [sink.prepare(b"%d" % slot, slot=slot) for slot in range(3)]
    handles.insert(1, dataclasses.replace(handles[0], transaction=f"{sink.prefix}-78-0", slot=78))
    readiness = manager.check(handles)
    assert [r.ready for r in readiness] == [True, False, True, True]
    assert [r.handle for r in readiness] == handles
    assert all(50_000 < r.time_left_ms <= 60_000 for r in readiness if r.ready)
    marker = Marker(batch=0, attempt=1, checkpoint_id="L")
    outcomes = manager.commit(handles, [marker] * 4, LIMIT_S)
    assert [type(outcome) for outcome in outcomes] == [Committed, Unknown, Committed, Committed]
    assert [outcome.handle for outcome in outcomes] == handles
    expect(sink, b"0", b"1", b"2")


def test_abort_while_the_first_rows_are_on_their_way_leaves_nothing_open(sink):
    # librdkafka alone ends nothing at the broker while its first AddPartitionsToTxn is unanswered, some 4 ms after the
    # first row: so the abort comes at many moments around that.
    for slot in range(60):
        transaction = sink.begin(slot=slot)
        transaction.write(rows(b"a"))
        time.sleep(slot % 20 / 2000)
        transaction.abort()
    assert ids(sink.manager().recover(sink.prefix)) == set()
    assert seen(sink).total() == 0


def test_fence_aborts_what_is_open_and_shuts_its_writer_out(sink):
    transaction = sink.begin()
    transaction.write(rows(b"a"))
    transaction._sender.flush()
    manager = sink.manager()
    views = manager.recover(sink.prefix)
    assert manager.fence(views, LIMIT_S) == [""]
    assert manager.recover(sink.prefix) == []
    with pytest.raises(ResourceManagerError):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert seen(sink).total() == 0


def test_a_foreign_transaction_is_seen_and_fenced(sink):
    producer = Producer(sink.connection.for_librdkafka(**{"transactional.id": f"billing {sink.prefix}"}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"x")
    assert producer.flush(LIMIT_S) == 0
    manager = sink.manager()
    views = [view for view in manager.list_transactions() if view.transaction == f"billing {sink.prefix}"]
    assert [view.state for view in views] == ["Ongoing"]
    assert manager.fence(views, LIMIT_S) == [""]
    assert not [view for view in manager.list_transactions() if view.transaction == f"billing {sink.prefix}"]


def test_a_foreign_transaction_just_committed_is_not_called_aborted(sink):
    """At transaction.version 2 EndTxn(abort) of what librdkafka has committed succeeds: it aborts another one, an empty one."""
    id_ = f"billing {sink.prefix}"
    producer = Producer(sink.connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"kept")
    assert producer.flush(LIMIT_S) == 0
    seen_open = sink.view(id_)
    producer.commit_transaction(LIMIT_S)
    (error,) = sink.manager().abort_open([seen_open], LIMIT_S)
    assert "ended before" in error or "its owner committed it first" in error
    expect(sink, b"kept")


def test_abort_marker_on_a_partition_frees_its_readers(sink):
    handle = sink.prepare(b"a")
    view = sink.view(handle.transaction)
    partition = next(partition for topic, partition in view.partitions if topic == sink.topic)
    committed = Producer(sink.connection.for_librdkafka())
    committed.produce(sink.topic, b"behind", partition=partition)
    assert committed.flush(LIMIT_S) == 0
    assert seen(sink).total() == 0, "the reader waits behind the open transaction"
    producer = (handle.producer_id, handle.producer_epoch)
    sink.manager().end_on_partition((sink.topic, partition), producer, -1, commit=False)
    expect(sink, b"behind")
    sink.manager().rollback([handle], LIMIT_S)


def test_hundred_handles_are_committed_in_one_go(sink):
    handles = [sink.prepare(slot=slot) for slot in range(8)]
    absent = [dataclasses.replace(handles[0], transaction=f"{sink.prefix}-{slot}-0") for slot in range(100, 350)]
    marker = Marker(batch=0, attempt=1, checkpoint_id="L")
    many: list[Handle] = [*absent[:125], *handles, *absent[125:]]
    outcomes = sink.manager().commit(many, [marker] * len(many), LIMIT_S)
    assert [type(outcome) for outcome in outcomes] == [*[Unknown] * 125, *[Committed] * 8, *[Unknown] * 125]
