"""Spark's Arrow batches are limited by bytes unless the source's records are small, at each place that is looked at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pipeline.run import arrow_batches
from pipeline.run.arrow_batches import has_small_records
from resource_managers.kafka.connection import KafkaConnection
from resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import PipelineProcess, make_topics, produce, read_committed, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SMALL, LARGE = b"x" * 100, b"x" * 50_000


def topic_of(connection: KafkaConnection, name: str, values: list[bytes]) -> str:
    make_topics(connection, name, partitions=1)
    producer = Producer(connection.for_librdkafka(**{"linger.ms": 50}))
    for value in values:
        producer.produce(name, value)
    assert producer.flush(60) == 0
    return name


@pytest.mark.parametrize(
    ("values", "is_small"),
    [
        ([SMALL] * 1_000, True),
        ([SMALL], True),
        ([], False),
        ([LARGE] * 100 + [SMALL] * 900, False),
        ([SMALL] * 450 + [LARGE] * 100 + [SMALL] * 450, False),
        ([SMALL] * 900 + [LARGE] * 100, False),
        ([b"x" * 1_990] * 200, True),
        ([b"x" * 2_010] * 200, False),
    ],
    ids=["small", "one", "none", "large first", "large in the middle", "large last", "just small", "just large"],
)
def test_records_are_small_where_all_places_have_small_ones(
    connection: KafkaConnection, request: pytest.FixtureRequest, values: list[bytes], is_small: bool
) -> None:
    name = "sizes-" + request.node.callspec.id.replace(" ", "-")
    assert has_small_records(connection, topic_of(connection, name, values)) is is_small


def test_a_broker_that_does_not_answer_leaves_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_batches, "LIMIT_S", 0.5)
    assert not has_small_records(KafkaConnection("127.0.0.1:1"), "in")


@pytest.mark.long
def test_rows_of_a_megabyte_pass_with_little_memory(connection: KafkaConnection, tmp_path: Path) -> None:
    """Together they are larger than the memory that the JVM has for a batch of rows."""
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle", "in-large", "out-large")
    rows = [b"%06d" % n + b"x" * 900_000 for n in range(600)]
    produce(connection, "in-large", rows)
    settings = {"source": "in-large", "sink": "out-large", "prefix": "large", "max_offsets_per_trigger": 100_000}
    with PipelineProcess(connection, tmp_path, spark_properties="spark.driver.memory=600m", **settings) as pipeline:
        commit = tmp_path / "checkpoint" / "commits" / "0"
        wait_until("the batch that holds all rows", lambda: commit.exists() or pipeline.status.get("restarts"))
    assert pipeline.status["restarts"] == 0, pipeline.log
    seen = read_committed(connection, "out-large")
    # Not the rows themselves: what a failed comparison would print of them has gigabytes.
    assert Counter({row[:6]: number for row, number in seen.items()}) == Counter(row[:6] for row in rows)
    damaged = [row[:6] for row in seen if row[6:] != b"x" * 900_000]
    assert damaged == []
