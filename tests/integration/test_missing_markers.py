"""A coordinator takes end markers for written that a partition never got (KAFKA-20734): what the pipeline does about it.

At transaction.version 2 and 1: at 2 the end of a transaction moves its epoch, at 1 it stays; init moves it at both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.lifecycle.errors import ResourceManagerError
from indoubt.lifecycle.identity import Handle, Marker
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RetryLater
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.missing_markers import LEFT_OPEN
from indoubt.resource_managers.kafka.partitions import KafkaPartitions
from indoubt.resource_managers.kafka.wire import wire
from tests.integration.kafka_fixtures import LIMIT_S, Sink, fingerprint_of, make_sink, rows, wait_until
from tests.integration.past_the_coordinator import SETTINGS, Writer
from tests.integration.pipeline_process import read_committed
from tests.integration.protocol_run import ProtocolSinks, Stopped, protocol_sinks, stop_at

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
LEFT = "is over for its coordinator and open on"


@pytest.fixture(scope="module", params=[2, 1])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def connection(level: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    broker = Broker(tmp_path_factory.mktemp("broker"), settings=SETTINGS)
    broker.transaction_version = level
    with broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture
def sink(connection: KafkaConnection) -> Sink:
    return make_sink(connection)


@pytest.fixture
def sinks(connection: KafkaConnection, tmp_path: Path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ghost:
    """A prepared transaction with a row that its coordinator does not know of."""

    sink: Sink
    handle: Handle

    @property
    def writer(self) -> Writer:
        return Writer.of(self.sink.connection, self.handle)

    @property
    def is_open(self) -> bool:
        return bool(self.writer.open_on(self.sink.topic))


def ghost(sink: Sink, partition: int = 0, batch: int = 0) -> Ghost:
    """Prepare an empty slot, then write its row past the coordinator."""
    handle = sink.prepare(batch=batch)
    Writer.of(sink.connection, handle).produce(sink.topic, partition, b"ghost")
    return Ghost(sink=sink, handle=handle)


def visible(sink: Sink) -> list[bytes]:
    return sorted(read_committed(sink.connection, sink.topic).elements())


def taken(sink: Sink, id_: str) -> Producer:
    """Return a stranger's producer that has just taken an id."""
    settings = {"transactional.id": id_, "linger.ms": 0, "log_level": 0}
    producer = Producer(sink.connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    return producer


def test_a_commit_writes_the_marker_that_its_coordinator_passed_by(sink: Sink) -> None:
    left = ghost(sink)
    assert isinstance(sink.commit(left.handle), Committed)
    assert not left.is_open
    wait_until("the row is visible", lambda: visible(sink) == [b"ghost"])


def test_a_rollback_writes_the_marker_that_its_coordinator_passed_by(sink: Sink) -> None:
    left = ghost(sink)
    sink.manager().rollback([left.handle], LIMIT_S)
    assert not left.is_open
    assert isinstance(sink.commit(sink.prepare(b"real", attempt=2), attempt=2), Committed)
    assert visible(sink) == [b"real"]


def test_a_task_that_gives_up_leaves_nothing_open(sink: Sink) -> None:
    transaction = sink.begin()
    transaction.write(rows(b"a"))
    transaction._sender.flush()
    writer = Writer.now(sink.connection, transaction.provisional_handle.transaction)
    wait_until("its first row is written", lambda: bool(writer.open_on(sink.topic)))
    untouched = 1 - writer.open_on(sink.topic)[0].partition[1]
    writer.produce(sink.topic, untouched, b"ghost")
    transaction.abort()
    assert not writer.open_on(sink.topic)


def test_a_begin_over_an_open_transaction_leaves_nothing_open(sink: Sink) -> None:
    left = ghost(sink)
    second = sink.prepare(b"real", attempt=2)
    assert isinstance(sink.commit(second, attempt=2), Committed)
    assert not left.is_open
    assert visible(sink) == [b"real"]


@pytest.mark.parametrize("values", [[b"real"], []], ids=["rows there", "no rows there"])
def test_rows_left_open_by_an_abort_are_never_committed(sink: Sink, values: list[bytes]) -> None:
    """Nothing is written before they are ended, and no later commit of the slot's ids ends them."""
    left = ghost(sink)
    left.writer.end(commit=False)
    assert left.is_open
    for batch in (0, 1):
        with pytest.raises(ResourceManagerError, match=LEFT):
            sink.prepare(*values, batch=batch, attempt=2)
    manager = sink.manager()
    (view,) = manager.recover(sink.prefix)
    assert (view.key, view.state, view.partitions) == (left.handle.key, LEFT_OPEN, ((sink.topic, 0),))
    assert manager.fence([view], LIMIT_S) == [""]
    assert not left.is_open
    for batch in (0, 1):
        assert isinstance(sink.commit(sink.prepare(*values, batch=batch, attempt=3), batch, 3), Committed)
    assert visible(sink) == values * 2


def test_rows_left_open_by_a_commit_are_not_thrown_away(sink: Sink) -> None:
    left = ghost(sink)
    left.writer.end(commit=True)
    manager = sink.manager()
    (error,) = manager.fence(manager.recover(sink.prefix), LIMIT_S)
    assert "its coordinator says that it was committed" in error
    assert left.is_open
    assert isinstance(sink.commit(left.handle), Committed), "asked once more, as recovery does"
    assert visible(sink) == [b"ghost"]


def test_an_epoch_that_init_moved_is_not_taken_for_the_end(sink: Sink) -> None:
    """Aborted and passed by; then its id is taken anew and commits elsewhere. One epoch on is that one's end at level 1."""
    left = ghost(sink)
    left.writer.end(commit=False, version=4)
    later = taken(sink, left.handle.transaction)
    later.begin_transaction()
    later.produce(sink.topic, b"fine", partition=1)
    later.commit_transaction(LIMIT_S)
    row = wait_until("it is committed", lambda: _committed(left.writer))
    assert row.producer_epoch == left.writer.epoch + 1
    with pytest.raises(ResourceManagerError, match=LEFT):
        sink.prepare(b"real", attempt=2)
    assert left.is_open
    assert visible(sink) == [b"fine"]


def test_what_was_undecided_is_ended_by_the_next_start(sinks: ProtocolSinks) -> None:
    run = sinks.run()
    (handle,) = run.slot(0, b"never").handles
    writer = Writer.of(sinks.connection, handle)
    writer.produce(sinks.sinks.topic, _untouched(writer, sinks.sinks.topic), b"ghost")
    writer.end(commit=False)
    second = sinks.run()
    assert second.recovered.rolled_back == 1
    assert not writer.open_on(sinks.sinks.topic)
    second.commit(second.slot(0, b"real"))
    sinks.expect(b"real", pending=0)


def test_what_was_decided_is_made_visible_by_the_next_start(
    sinks: ProtocolSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sinks.run()
    message = run.slot(0, b"decided")
    writer = Writer.of(sinks.connection, message.handles[0])
    writer.produce(sinks.sinks.topic, _untouched(writer, sinks.sinks.topic), b"decided too")
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)
    writer.end(commit=True)
    assert writer.open_on(sinks.sinks.topic)
    assert sinks.run().recovered.committed == 1
    sinks.expect(b"decided", b"decided too", pending=0)


def test_a_marker_is_refused_where_a_later_epoch_has_written(sink: Sink) -> None:
    left = ghost(sink)
    left.writer.end(commit=False)
    later = Writer(
        connection=sink.connection, id=left.writer.id, producer_id=left.writer.producer_id, epoch=left.writer.epoch + 1
    )
    later.produce(sink.topic, 0, b"live")
    leader = KafkaPartitions(sink.connection, "").layout([sink.topic]).leaders[sink.topic, 0]
    producer = (left.writer.producer_id, left.writer.epoch)
    answer = wire(sink.connection).write_marker(leader, (sink.topic, 0), producer, -1, commit=False)
    assert answer.name == "InvalidProducerEpochError"
    assert left.is_open


def without_its_offset(sink: Sink) -> Writer:
    """Return the writer of an open transaction whose coordinator does not know of the slot's marker in it."""
    transaction = sink.begin(batch=2)
    transaction.write(rows(b"a"))
    transaction._sender.flush()
    writer = Writer.now(sink.connection, transaction.provisional_handle.transaction)
    writer.commit_offset(Marker(batch=2, attempt=1, checkpoint_id="L"))
    return writer


def handle_of(writer: Writer) -> Handle:
    return Handle(
        resource_manager="kafka",
        transaction=writer.id,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        slot=0,
        rows=1,
        bytes=1,
        fingerprint=str(fingerprint_of(b"a")),
        opened_at_ms=0,
        prepared_at_ms=time.time_ns() // 1_000_000,
        timeout_ms=60_000,
    )


def committed_without_its_offset(sink: Sink) -> Handle:
    """Return a committed transaction whose slot's marker has no end on the offsets' partition."""
    writer = without_its_offset(sink)
    # As where the cluster's level was not known yet, or was raised since: EndTxn 5 denies what 4 has committed.
    writer.end(commit=True, version=4)
    assert writer.open_on(CONSUMER_OFFSETS)
    return handle_of(writer)


def test_a_rollback_ends_the_offsets_too(sink: Sink) -> None:
    sink.commit(sink.prepare(batch=0))
    writer = without_its_offset(sink)
    sink.manager().rollback([handle_of(writer)], LIMIT_S)
    assert not writer.open_on(CONSUMER_OFFSETS)
    assert sink.stable_marker() == Marker(batch=0, attempt=1, checkpoint_id="L")


def test_offsets_left_open_by_an_abort_are_ended_by_the_next_start(sink: Sink) -> None:
    writer = without_its_offset(sink)
    writer.end(commit=False)
    with pytest.raises(ResourceManagerError, match="have no end marker"):
        sink.prepare(b"b", batch=3)
    manager = sink.manager()
    (view,) = manager.recover(sink.prefix)
    assert [topic for topic, _ in view.partitions] == [CONSUMER_OFFSETS]
    assert manager.fence([view], LIMIT_S) == [""]
    assert isinstance(sink.commit(sink.prepare(b"b", batch=3), batch=3), Committed)
    assert visible(sink) == [b"b"]


def test_a_commit_without_its_offset_is_known_by_its_coordinator(sink: Sink) -> None:
    sink.commit(sink.prepare(batch=0))
    handle = committed_without_its_offset(sink)
    assert isinstance(sink.commit(handle, batch=2), Committed | AlreadyCommitted)
    assert not Writer.of(sink.connection, handle).open_on(CONSUMER_OFFSETS)
    assert sink.stable_marker() == Marker(batch=2, attempt=1, checkpoint_id="L")


def test_committed_without_its_offset_is_never_called_lost(sink: Sink) -> None:
    """Its id went on, and the slot's other id is in use: the offsets are unstable for two reasons."""
    sink.commit(sink.prepare(batch=0))
    handle = committed_without_its_offset(sink)
    taken(sink, handle.transaction)
    other = taken(sink, f"{sink.prefix}-0-1")
    other.begin_transaction()
    other.produce(sink.topic, b"open", partition=0)
    other.flush(LIMIT_S)
    (outcome,) = sink.manager().commit([handle], [Marker(batch=2, attempt=1, checkpoint_id="L")], 1.0)
    assert not isinstance(outcome, Lost)
    assert isinstance(outcome, RetryLater)
    assert "have no end marker" in outcome.reason
    with pytest.raises(ResourceManagerError, match="have no end marker"):
        sink.prepare(b"b", batch=4)


def _committed(writer: Writer) -> Any:
    described = writer.described()
    return described if described.state == "CompleteCommit" else None


def _untouched(writer: Writer, topic: str) -> int:
    """Return a partition that this transaction did not write to."""
    return 1 - writer.open_on(topic)[0].partition[1]
