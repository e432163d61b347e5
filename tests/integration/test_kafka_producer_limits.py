"""Rows through brokers that encrypt, hold a producer back or take only small batches, read back by an independent consumer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from demo.broker import Broker
from indoubt.lifecycle.errors import RecordTooLarge, Unreachable
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.lifecycle.identity import Marker
from indoubt.lifecycle.outcomes import Committed
from indoubt.resource_managers.kafka.answers import BrokerAnswer
from indoubt.resource_managers.kafka.batch_delivery import BatchDelivery
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.wire import wire
from indoubt.resource_managers.protocol import SlotAttempt
from tests.integration.certificates import make_authority, tls_client, tls_listener
from tests.integration.kafka_fixtures import Sink, fingerprint_of, make_sink, wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = pytest.mark.integration

MARKER = Marker(batch=0, attempt=1, checkpoint_id="L")
MESSAGE_BYTES = 20_000
"""The broker's message.max.bytes, so that of every topic that has none of its own."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_authority(Path(tmp_path_factory.mktemp("kafka-tls")))


@pytest.fixture(scope="module")
def connection(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    """Connect to a broker whose only client listener takes TLS, and which takes small batches only."""
    settings, client = tls_listener(authority), tls_client(authority)
    settings |= {"message.max.bytes": str(MESSAGE_BYTES)}
    with Broker(tmp_path_factory.mktemp("tls-broker"), settings=settings, client=client) as running:
        yield KafkaConnection(running.bootstrap_servers, client)


def large_sink(connection: KafkaConnection) -> Sink:
    """Return a sink whose topic takes batches as large as brokers commonly do."""
    return make_sink(connection, **{"max.message.bytes": "1048588"})


def write(sink: Sink, batches: list[pa.RecordBatch], **properties_: str) -> None:
    """Write the batches in a transaction and commit it; exactly their values are visible then."""
    transaction = sink.manager(**properties_).begin(SlotAttempt(prefix=sink.prefix, slot=0, marker=MARKER))
    for batch in batches:
        transaction.write(batch)
    assert isinstance(sink.commit(transaction.prepare(fingerprint_of())), Committed)
    written = Counter(value for batch in batches for value in batch.column("value").to_pylist())
    assert read_committed(sink.connection, sink.topic) == written


def noise(count: int, seed: int) -> list[pa.RecordBatch]:
    """Return rows of one size without keys, and rows of many sizes with keys."""
    chance = random.Random(seed)
    equal = [chance.randbytes(100) for _ in range(count)]
    uneven = [chance.randbytes(chance.randrange(20, 400)) for _ in range(count)]
    keys = [chance.randbytes(chance.randrange(1, 30)) for _ in range(count)]
    return [
        pa.record_batch({"value": pa.array(equal, pa.binary())}),
        pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(uneven, pa.binary())}),
    ]


@contextmanager
def quota(connection: KafkaConnection, bytes_per_s: float) -> Iterator[None]:
    """Hold every client back to so many bytes/s that it produces (producer_byte_rate), for as long as the block lasts."""
    entry = AlterClientQuotasRequest.EntryData
    entity = entry.EntityData(entity_type="client-id", entity_name=None)
    for remove in (False, True):
        change = entry.OpData(key="producer_byte_rate", value=bytes_per_s, remove=remove)
        request = AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=[change])], validate_only=False)

        def changed(request: AlterClientQuotasRequest = request) -> bool:
            """A client that is held back sends nothing for a while."""
            (response,) = wire(connection).send([(None, request)])
            assert isinstance(response, BrokerAnswer) or [row.error_code for row in response.entries] == [0]
            return not isinstance(response, BrokerAnswer)

        wait_until("the quota is changed", changed)
        if not remove:
            yield


@pytest.mark.long
def test_megabytes_are_written_over_tls(connection):
    write(large_sink(connection), [batch for seed in range(2) for batch in noise(10_000, seed)])


def test_a_broker_of_another_authority_is_not_written_to(connection, authority, monkeypatch):
    monkeypatch.setattr("indoubt.resource_managers.kafka.wire.BOOTSTRAP_LIMIT_S", 1.0)
    other = KafkaConnection(connection.bootstrap_servers, tls_client(authority, "other-ca.pem"))
    with pytest.raises(Unreachable):
        Sink(connection=other, topic="any", prefix="any").begin()


def test_a_producer_that_is_held_back_loses_and_doubles_no_row(connection, monkeypatch):
    take, held_back = BatchDelivery._take, []

    def note(delivery, answered):
        held_back.append(getattr(answered.response, "throttle_time_ms", 0))
        take(delivery, answered)

    monkeypatch.setattr(BatchDelivery, "_take", note)
    sink = large_sink(connection)
    # A broker lets ten seconds' worth of it pass at once.
    with quota(connection, 250_000):
        write(sink, noise(5_000, 7) + noise(5_000, 8))
    assert max(held_back) > 0, "no answer said that the producer was held back"


@pytest.mark.long
def test_rows_without_a_transaction_are_held_back_and_not_lost(connection):
    sink = large_sink(connection)
    batches = noise(5_000, 9) + noise(5_000, 10)
    writer = sink.manager(**{"batch.size": "50000"}).begin_without_transaction(DeliveryGuarantee.NONE)
    with quota(connection, 250_000):
        for batch in batches:
            writer.write(batch)
        writer.finish()
    written = Counter(value for batch in batches for value in batch.column("value").to_pylist())
    assert read_committed(connection, sink.topic) == written


def test_a_broker_that_takes_small_batches_gets_small_ones(connection):
    limit = str(MESSAGE_BYTES)
    write(make_sink(connection), noise(3_000, 5), **{"message.max.bytes": limit})


def test_a_record_above_the_brokers_limit_is_named(connection):
    sink = make_sink(connection)
    transaction = sink.begin()
    transaction.write(pa.record_batch({"value": pa.array([b"x" * 2 * MESSAGE_BYTES])}))
    with pytest.raises(RecordTooLarge, match=sink.topic):
        transaction.prepare(fingerprint_of())
    transaction.abort()
    assert read_committed(connection, sink.topic) == Counter()
