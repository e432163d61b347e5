"""The Produce request of our own beside that of kafka-python: the same bytes, for every version that brokers may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest

from indoubt.resource_managers.kafka.batch_builder import Batch
from indoubt.resource_managers.kafka.producer_requests import COMPACT, NEWEST, REPLICATION_LIMIT_MS, ProduceBatches

contents = st.lists(
    st.binary(min_size=1, max_size=200) | st.integers(120, 20_000).map(lambda size: b"x" * size), min_size=1, max_size=3
)


def framed(request: ProduceRequest, version: int) -> bytes:
    request.API_VERSION = version
    request.with_header(correlation_id=2**30, client_id="somebody")
    return bytes(request.encode(framed=True, header=True))


@pytest.mark.parametrize("version", range(COMPACT - 2, NEWEST + 1))
@given(batches=st.lists(contents, min_size=1, max_size=4), name=st.integers(1, 249), id_=st.text(max_size=200))
@settings(deadline=None, max_examples=30)
def test_a_request_is_what_kafka_python_makes_of_it(version, batches, name, id_):
    topic = "t" * name
    own = [
        Batch(partition=number * 70_000, number=0, count=1, parts=parts, size=sum(map(len, parts)))
        for number, parts in enumerate(batches)
    ]
    topic_ = ProduceRequest.TopicProduceData
    rows = [topic_.PartitionProduceData(index=batch.partition, records=batch.content) for batch in own]
    other = ProduceRequest(
        transactional_id=id_ or None,
        acks=-1,
        timeout_ms=REPLICATION_LIMIT_MS,
        topic_data=[topic_(name=topic, partition_data=rows)],
    )
    assert framed(ProduceBatches(id_, topic, own), version) == framed(other, version)
