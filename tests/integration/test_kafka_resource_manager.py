"""Every classified answer of the broker, asked for on the real one and judged by an independent reader."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from lifecycle.errors import (
    Fenced,
    RecordTooLarge,
    ResourceManagerError,
    SettingsError,
    ZombieWriter,
)
from lifecycle.guarantees import DeliveryGuarantee
from lifecycle.identity import Handle, Marker
from lifecycle.outcomes import AlreadyCommitted, Committed, Lost, RolledBack, Unknown
from resource_managers.kafka.connection import ARROW, LIBRDKAFKA, PRODUCERS
from resource_managers.kafka.markers import KafkaMarkers
from resource_managers.kafka.missing_markers import MissingMarkers
from resource_managers.kafka.resource_manager import KafkaResourceManager
from resource_managers.protocol import SlotAttempt
from tests.integration.kafka_fixtures import LIMIT_S, Sink, fingerprint_of, ids, make_sink, rows, wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = pytest.mark.integration


@pytest.fixture(params=PRODUCERS)
def sink(connection, request) -> Sink:
    return make_sink(connection, producer=request.param)


arrow_in_the_long_run = pytest.mark.parametrize(
    "sink", [LIBRDKAFKA, pytest.param(ARROW, marks=pytest.mark.long)], indirect=True
)
"""On a test that takes seconds."""


def seen(sink: Sink) -> Counter[bytes]:
    return read_committed(sink.connection, sink.topic)


def expect(sink: Sink, *values: bytes) -> None:
    wait_until(f"{len(values)} committed rows in {sink.topic}", lambda: seen(sink).total() >= len(values))
    assert seen(sink) == Counter(values)


def test_prepared_rows_are_invisible_until_commit(sink):
    handle = sink.prepare(b"a", b"b")
    assert seen(sink).total() == 0
    assert (handle.rows, handle.slot, handle.timeout_ms) == (2, 0, 60_000)
    assert handle.bytes == 4, "two keys and two values of one byte"
    assert handle.opened_at_ms <= handle.prepared_at_ms
    assert isinstance(sink.commit(handle), Committed)
    expect(sink, b"a", b"b")


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


def test_commit_again_is_committed_and_doubles_nothing(sink):
    handle = sink.prepare(b"a")
    assert isinstance(sink.commit(handle), Committed)
    assert isinstance(sink.commit(handle), Committed | AlreadyCommitted)
    expect(sink, b"a")


def test_commit_after_a_later_batch_committed_is_already_committed(sink):
    first = sink.prepare(b"a", batch=0)
    sink.commit(first, batch=0)
    for batch in (1, 2):
        sink.commit(sink.prepare(b"%d" % batch, batch=batch), batch=batch)
    assert isinstance(sink.commit(first, batch=0), AlreadyCommitted)
    expect(sink, b"a", b"1", b"2")


def test_commit_after_an_abort_is_lost(sink):
    handle = sink.prepare(b"a")
    assert sink.manager().rollback([handle], LIMIT_S) == [RolledBack(handle=handle)]
    assert isinstance(sink.commit(handle), Lost)
    assert seen(sink).total() == 0


def test_commit_after_the_brokers_timeout_is_lost(sink):
    marker = Marker(batch=0, attempt=1, checkpoint_id="L")
    transaction = sink.manager(1_000).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=marker))
    transaction.write(rows(b"a"))
    handle = transaction.prepare(fingerprint_of(b"a"))
    wait_until("the broker aborts it", lambda: sink.view(handle.transaction).state == "CompleteAbort")
    assert not sink.manager().check([handle])[0].ready
    assert isinstance(sink.commit(handle), Lost)
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


def test_commit_of_a_fenced_handle_without_any_newer_commit_is_lost(sink):
    handle = sink.prepare(b"a", attempt=1)
    newer = sink.prepare(b"b", attempt=2)
    sink.manager().rollback([newer], LIMIT_S)
    assert isinstance(sink.commit(handle), Lost)


@pytest.mark.parametrize("batch", [4, 5], ids=["same id", "the slot's other id"])
def test_a_stale_handle_does_not_commit_what_a_newer_attempt_has_open(sink, batch):
    handle = sink.prepare(b"a", batch=4, attempt=1)
    newer = sink.prepare(b"b", batch=batch, attempt=2)
    assert isinstance(sink.commit(handle, batch=4), Lost)
    assert sink.manager().check([newer])[0].reason == ""
    assert isinstance(sink.commit(newer, batch=batch, attempt=2), Committed)
    expect(sink, b"b")


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


def test_rollback_of_a_committed_transaction_says_so(sink):
    handle = sink.prepare(b"a")
    sink.commit(handle)
    wait_until("completion", lambda: sink.view(handle.transaction).state == "CompleteCommit")
    assert sink.manager().rollback([handle], LIMIT_S) == [AlreadyCommitted(handle=handle)]
    expect(sink, b"a")


def test_rollback_never_hits_a_later_transaction_of_the_same_id(sink):
    old = sink.prepare(b"a", batch=0)
    sink.commit(old)
    new = sink.prepare(b"b", batch=2)
    assert new.transaction == old.transaction
    sink.manager().rollback([old], LIMIT_S)
    assert isinstance(sink.commit(new, batch=2), Committed)
    expect(sink, b"a", b"b")


def test_an_empty_slot_still_holds_its_marker(sink):
    handle = sink.prepare()
    assert handle.rows == 0
    assert sink.manager().check([handle])[0].ready
    assert isinstance(sink.commit(handle), Committed)
    assert sink.stable_marker(slot=0) == Marker(batch=0, attempt=1, checkpoint_id="L")
    assert sink.stable_marker(slot=1) is None


def test_a_zombie_may_not_begin_again(sink):
    sink.commit(sink.prepare(b"a", batch=3, attempt=5), batch=3, attempt=5)
    for batch, attempt in ((3, 5), (3, 4), (2, 5)):
        with pytest.raises(ZombieWriter, match="superseded"):
            sink.begin(batch, attempt)
    sink.begin(3, 6, decided={5}).abort()
    sink.begin(4, 5).abort()
    # A new checkpoint id starts from batch 0: markers of another checkpoint id prove nothing about it.
    sink.begin(0, 9, checkpoint_id="M").abort()


def test_begin_takes_the_slot_from_a_writer_that_left_its_other_id_open(sink):
    left = sink.prepare(b"old", batch=1)
    transaction = sink.begin(batch=2, attempt=2)
    transaction.write(rows(b"new"))
    handle = transaction.prepare(fingerprint_of(b"new"))
    assert not sink.manager().check([left])[0].ready
    assert isinstance(sink.commit(handle, batch=2, attempt=2), Committed)
    expect(sink, b"new")


def test_a_zombie_that_begins_spares_what_the_live_attempt_prepared(sink):
    sink.commit(sink.prepare(b"a", batch=4, attempt=8), batch=4, attempt=8)
    live = sink.prepare(b"b", batch=5, attempt=8)
    with pytest.raises(ZombieWriter):
        sink.begin(batch=4, attempt=3)
    assert sink.manager().check([live])[0].ready
    assert isinstance(sink.commit(live, batch=5, attempt=8), Committed)


def test_a_zombie_that_aborts_late_spares_the_next_batch(sink, monkeypatch):
    """It finds its slot's other transaction open and not superseded; then its batch is committed, and the next one prepared."""
    left = sink.prepare(b"left", batch=3, attempt=1)
    latest, live = KafkaMarkers.latest, []

    def stand_still(markers, *arguments):
        found = latest(markers, *arguments)
        monkeypatch.undo()
        sink.commit(sink.prepare(b"a", batch=4, attempt=2), batch=4, attempt=2)
        live.append(sink.prepare(b"b", batch=5, attempt=2))
        return found

    monkeypatch.setattr(KafkaMarkers, "latest", stand_still)
    with pytest.raises(ZombieWriter, match="superseded"):
        sink.begin(batch=4, attempt=1)
    assert not sink.manager().check([left])[0].ready
    assert sink.manager().check(live)[0].ready
    assert isinstance(sink.commit(live[0], batch=5, attempt=2), Committed)


def test_a_zombie_that_begins_does_not_touch_what_is_open_under_its_own_id(sink):
    sink.commit(sink.prepare(b"a", batch=4, attempt=8), batch=4, attempt=8)
    sink.commit(sink.prepare(b"b", batch=5, attempt=8), batch=5, attempt=8)
    live = sink.prepare(b"c", batch=6, attempt=8)
    with pytest.raises(ZombieWriter):
        sink.begin(batch=4, attempt=3)
    assert isinstance(sink.commit(live, batch=6, attempt=8), Committed)


@pytest.mark.parametrize("writes", [True, False])
def test_a_zombie_that_asks_late_for_its_epoch_aborts_nothing(sink, monkeypatch, writes):
    """Between taking the id and asking for producer id and epoch it stands still; its successor takes the id and prepares.

    The producer of our own is told them as it takes the id, and stands still right after.
    """
    holder, name = (
        (KafkaResourceManager, "_identity")
        if sink.producer == LIBRDKAFKA
        else (MissingMarkers, "require_nothing_left_open")
    )
    ask, successors = getattr(holder, name), []

    def late(*arguments):
        monkeypatch.undo()
        successors.append(sink.prepare(b"successor", attempt=2))
        return ask(*arguments)

    monkeypatch.setattr(holder, name, late)
    zombie = sink.begin(attempt=1)
    if writes:
        zombie.write(rows(b"zombie"))
        with pytest.raises(Fenced):
            zombie.prepare(fingerprint_of(b"zombie"))
    zombie.abort()
    assert sink.manager().check(successors)[0].ready
    assert isinstance(sink.commit(successors[0], attempt=2), Committed)
    expect(sink, b"successor")


def test_a_writer_knows_for_certain_who_it_is_whatever_its_id_had_before(sink):
    def begun(batch, attempt):
        transaction = sink.begin(batch, attempt)
        assert transaction._identity.is_certain
        return transaction

    begun(0, 1).prepare(fingerprint_of())
    over_open = begun(0, 2).prepare(fingerprint_of())
    sink.commit(over_open, 0, 2)
    over_committed = begun(2, 2).prepare(fingerprint_of())
    sink.manager().rollback([over_committed], LIMIT_S)
    begun(2, 3).abort()
    begun(2, 4).abort()


def test_a_writer_whose_id_was_taken_cannot_prepare(sink):
    transaction = sink.begin(attempt=1)
    transaction.write(rows(b"a"))
    sink.begin(attempt=2).abort()
    with pytest.raises(Fenced, match="newer producer"):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert seen(sink).total() == 0


def test_abort_undoes_and_may_be_called_twice(sink):
    transaction = sink.begin()
    transaction.write(rows(b"a"))
    transaction.abort()
    transaction.abort()
    assert seen(sink).total() == 0
    assert sink.prefix not in str(ids(sink.manager().recover(sink.prefix)))


@arrow_in_the_long_run
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


def test_recover_parses_ids_whole(sink):
    mine = sink.prepare(b"a")
    others = [dataclasses.replace(sink, prefix=sink.prefix + suffix) for suffix in ("_count", "-0", "2")]
    left = [other.prepare(b"b") for other in others]
    manager = sink.manager()
    assert ids(manager.recover(sink.prefix)) == {mine.transaction}
    assert {handle.transaction for handle in [mine, *left]} <= ids(manager.list_transactions())
    manager.rollback([mine, *left], LIMIT_S)
    assert manager.recover(sink.prefix) == []


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


def test_fence_never_hits_a_newer_transaction_of_the_same_id(sink):
    old = sink.prepare(b"a", attempt=1)
    view = sink.view(old.transaction)
    newer = sink.prepare(b"b", attempt=2)
    sink.manager().fence([view], 2.0)
    assert isinstance(sink.commit(newer, attempt=2), Committed)
    expect(sink, b"b")


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
    (error,) = sink.manager().shut_out([seen_open], LIMIT_S)
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


def test_a_record_that_the_client_does_not_take_is_named_with_its_size(sink):
    transaction = sink.begin()
    with pytest.raises(RecordTooLarge, match=r"2,000,001 bytes.*message\.max\.bytes"):
        transaction.write(rows(b"small", b"x" * 2_000_000))
    transaction.abort()
    assert seen(sink).total() == 0
    assert sink.manager().recover(sink.prefix) == []


@pytest.mark.parametrize("batches", [1, 30], ids=["found at prepare", "found while writing"])
def test_a_record_that_the_topic_refuses_is_named_though_flush_returns_0(connection, batches):
    sink = make_sink(connection, producer=LIBRDKAFKA, **{"max.message.bytes": "2000"})
    transaction = sink.begin()

    def write_and_prepare() -> None:
        for _ in range(batches):
            transaction.write(rows(b"x" * 5_000))
            assert transaction._sender.sender.producer.flush(LIMIT_S) == 0, "as if all were well"
        transaction.prepare(fingerprint_of())

    with pytest.raises(RecordTooLarge, match=sink.topic):
        write_and_prepare()
    transaction.abort()
    assert seen(sink).total() == 0


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        (pa.record_batch({"key": pa.array([b"a"])}), "value"),
        (pa.record_batch({"value": pa.array([1, 2])}), "int64"),
        (pa.record_batch({"key": pa.array([1.5]), "value": pa.array([b"a"])}), "double"),
    ],
    ids=["no value", "number", "number as key"],
)
def test_wrong_columns_are_refused_by_name(sink, batch, named):
    transaction = sink.begin()
    with pytest.raises(SettingsError, match=named):
        transaction.write(batch)
    transaction.abort()
    with pytest.raises(SettingsError, match=named):
        sink.manager().verify([(field.name, field.type) for field in batch.schema])


def test_columns_of_other_sinks_are_left_to_them(sink):
    columns = {"word": pa.array(["x"]), "value": pa.array([b"a"]), "count": pa.array([1]), "key": pa.array([b"k"])}
    batch = pa.record_batch(columns)
    assert sink.manager().verify([(field.name, field.type) for field in batch.schema]) == {"key", "value"}
    transaction = sink.begin()
    transaction.write(batch)
    handle = transaction.prepare(fingerprint_of(b"a"))
    assert (handle.rows, handle.bytes) == (1, 2)
    assert isinstance(sink.commit(handle), Committed)
    expect(sink, b"a")


@arrow_in_the_long_run
def test_what_no_restart_will_mend_is_a_wrong_setting(sink):
    value = [("value", pa.binary())]
    with pytest.raises(SettingsError, match="no-such-topic"):
        dataclasses.replace(sink, topic="no-such-topic").manager().verify(value)
    with pytest.raises(SettingsError, match=r"transaction\.max\.timeout\.ms"):
        sink.manager(3_600_000).verify(value)


@arrow_in_the_long_run
def test_missing_sink_topic_is_named(sink):
    absent = dataclasses.replace(sink, topic="no-such-topic")
    with pytest.raises(ResourceManagerError, match="no-such-topic"):
        absent.prepare(b"a")


def test_at_least_once_waits_for_delivery_and_says_what_failed(connection):
    sink = make_sink(connection, **{"max.message.bytes": "2000"})
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    writer.write(rows(b"a", b"b"))
    writer.finish()
    assert (writer.rows, writer.bytes) == (2, 4)
    expect(sink, b"a", b"b")
    failing = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    failing.write(rows(b"x" * 5_000))
    with pytest.raises(ResourceManagerError, match=f"{sink.topic}.*too large"):
        failing.finish()
    failing.abort()


def test_none_sends_and_reports_nothing(connection):
    sink = make_sink(connection, **{"max.message.bytes": "2000"})
    # A topic that was made a moment ago may not take a record yet, and without acknowledgement nobody would hear of it.
    first = sink.manager().begin_without_transaction(DeliveryGuarantee.AT_LEAST_ONCE)
    first.write(rows(b"first"))
    first.finish()
    writer = sink.manager().begin_without_transaction(DeliveryGuarantee.NONE)
    writer.write(rows(b"a"))
    writer.finish()
    expect(sink, b"first", b"a")
    refused = sink.manager().begin_without_transaction(DeliveryGuarantee.NONE)
    refused.write(rows(b"x" * 5_000))
    refused.finish()
    assert seen(sink) == Counter([b"first", b"a"])


def test_broker_tells_its_largest_timeout(sink):
    assert sink.manager().broker_max_transaction_timeout_ms() == 900_000


def test_a_timeout_above_the_brokers_is_refused_by_name(sink):
    marker = Marker(batch=0, attempt=1, checkpoint_id="L")
    with pytest.raises(ResourceManagerError, match=r"transaction\.max\.timeout\.ms"):
        sink.manager(3_600_000).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=marker))
