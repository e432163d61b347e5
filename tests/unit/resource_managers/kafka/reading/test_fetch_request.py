"""The Fetch of our own beside that of kafka-python: what is asked, and what is read of an answer."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.parser import KafkaProtocol

from indoubt.resource_managers.kafka.answers import answer_of
from indoubt.resource_managers.kafka.reading.committed_records import VERSION, FetchCommitted, FetchedRecords

TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData


def encoded(
    records: bytes | None = b"",
    aborted: list[tuple[int, int]] | None = None,
    *,
    topic: str = "topic",
    error: int = 0,
    whole_error: int = 0,
) -> bytes:
    """Return kafka-python's answer of one partition, without its header."""
    named = PARTITION.AbortedTransaction
    partition = PARTITION(
        partition_index=3,
        error_code=error,
        high_watermark=2**40,
        last_stable_offset=2**40 - 1,
        log_start_offset=5,
        aborted_transactions=aborted
        if aborted is None
        else [named(producer_id=producer_id, first_offset=first) for producer_id, first in aborted],
        preferred_read_replica=-1,
        records=records,
    )
    topics = [] if whole_error else [TOPIC(topic=topic, partitions=[partition])]
    response = FetchResponse(throttle_time_ms=77, error_code=whole_error, session_id=0, responses=topics)
    response.API_VERSION = VERSION
    return bytes(response.encode())


def received(answer: bytes, before: bytes = b"") -> KafkaBytes:
    """Return it as kafka-python's parser hands it over; ``before`` was read already."""
    whole = KafkaBytes(len(before) + len(answer))
    whole.write(before + answer)
    whole.seek(len(before))
    return whole


@given(
    records=st.binary(max_size=300),
    aborted=st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), max_size=5),
    topic=st.text("abcdefghijklmnopqrstuvwxyz.-_0123456789", min_size=1, max_size=249),
)
def test_an_answer_is_read_as_kafka_python_wrote_it(records, aborted, topic):
    found = FetchedRecords.decode(received(encoded(records, aborted, topic=topic), b"head"))
    assert (found.throttle_time_ms, found.error_code, found.aborted) == (77, 0, tuple(aborted))
    assert bytes(found.records) == records


@pytest.mark.parametrize("records", [None, b""])
def test_an_answer_without_records_or_aborted_ones_is_empty(records):
    found = FetchedRecords.decode(received(encoded(records, None)))
    assert (found.error_code, found.aborted, bytes(found.records)) == (0, (), b"")


@pytest.mark.parametrize("where", ["error", "whole_error"])
def test_an_error_of_the_partition_or_of_the_whole_answer_is_told(where):
    found = FetchedRecords.decode(received(encoded(**{where: 1})))
    assert answer_of(found).name == "OffsetOutOfRangeError"
    assert bytes(found.records) == b""


def test_an_answer_without_the_topic_is_empty():
    response = FetchResponse(throttle_time_ms=5, error_code=0, session_id=0, responses=[])
    response.API_VERSION = VERSION
    found = FetchedRecords.decode(received(bytes(response.encode())))
    assert (found.throttle_time_ms, found.error_code, found.aborted, bytes(found.records)) == (5, 0, (), b"")


def test_an_answer_that_is_cut_off_anywhere_is_refused():
    whole = encoded(b"records", [(1, 2), (3, 4)])
    for length in range(len(whole)):
        with pytest.raises((struct.error, ValueError)):
            FetchedRecords.decode(received(whole[:length]))


def test_the_records_are_shown_where_they_were_received():
    answer = received(encoded(b"0123456789"))
    found = FetchedRecords.decode(answer)
    assert found.records.obj is answer


@given(
    topic=st.text("abcdefghij.-_", min_size=1, max_size=249),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**62),
    most_bytes=st.integers(1, 2**31 - 1),
)
def test_a_request_is_what_kafka_python_makes_of_it(topic, partition, offset, most_bytes):
    named = FetchRequest.FetchTopic
    own = named.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes)
    other = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=most_bytes,
        isolation_level=1,
        topics=[named(topic=topic, partitions=[own])],
        forgotten_topics_data=[],
    )
    other.API_VERSION = VERSION
    request = FetchCommitted(topic, partition, offset, most_bytes)
    request.API_VERSION = VERSION
    for each in (request, other):
        each.with_header(correlation_id=2**30, client_id="somebody")
    assert bytes(request.encode(framed=True, header=True)) == bytes(other.encode(framed=True, header=True))


def test_kafka_pythons_parser_hands_the_answer_over():
    parser = KafkaProtocol(client_id="somebody")
    request = FetchCommitted("topic", 3, 0, 1_000)
    request.API_VERSION = VERSION
    correlation_id = parser.send_request(request)
    answer = struct.pack(">i", correlation_id) + encoded(b"records", [(1, 2)])
    ((found_id, found),) = parser.receive_bytes(struct.pack(">i", len(answer)) + answer)
    assert found_id == correlation_id
    assert isinstance(found, FetchedRecords)
    assert (bytes(found.records), found.aborted) == (b"records", ((1, 2),))
