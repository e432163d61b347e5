"""Which records, columns and settings a sink takes, and what it promises without transactions."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pyarrow as pa
import pytest

from indoubt.lifecycle.errors import RecordTooLarge, ResourceManagerError, SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Marker
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.kafka_fixtures import Sink, fingerprint_of, make_sink, rows
from tests.integration.sink_reader import expect, seen

pytestmark = pytest.mark.integration


@pytest.fixture
def sink(connection) -> Sink:
    return make_sink(connection)


def test_a_record_that_the_client_does_not_take_is_named_with_its_size(sink):
    transaction = sink.begin()
    with pytest.raises(RecordTooLarge, match=r"2,000,001 bytes.*message\.max\.bytes"):
        transaction.write(rows(b"small", b"x" * 2_000_000))
    transaction.abort()
    assert seen(sink).total() == 0
    assert sink.manager().recover(sink.prefix) == []


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


def test_what_no_restart_will_mend_is_a_wrong_setting(sink):
    value = [("value", pa.binary())]
    with pytest.raises(SettingsError, match="no-such-topic"):
        dataclasses.replace(sink, topic="no-such-topic").manager().verify(value)
    with pytest.raises(SettingsError, match=r"transaction\.max\.timeout\.ms"):
        sink.manager(3_600_000).verify(value)


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
    with pytest.raises(ResourceManagerError, match=f"{sink.topic}.*refused a batch"):
        failing.finish()
    failing.abort()


def test_none_sends_and_reports_nothing(connection):
    sink = make_sink(connection, **{"max.message.bytes": "2000"})
    # A topic that was made a moment ago may not take a record yet, and without an acknowledgement the loss would go unnoticed.
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
