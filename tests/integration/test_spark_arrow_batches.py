"""Spark's Arrow batches are cut by bytes unless the source's records are small, at each place that is looked at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from indoubt.pipeline.config.settings import PipelineSettings
from indoubt.pipeline.run import arrow_batches
from indoubt.pipeline.run.arrow_batches import MAX_BYTES, MAX_ROWS, UNLIMITED, batch_limits
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
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


def limits_of(connection: KafkaConnection, source: str, spark_properties: str = "") -> dict[str, str]:
    settings = PipelineSettings(
        job="passthrough",
        bootstrap_servers=connection.bootstrap_servers,
        checkpoint="unused",
        prefix="unused",
        source=source,
        sink="unused",
        spark_properties=spark_properties,
    )
    return batch_limits(settings)


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        pytest.param([SMALL] * 1_000, "20000", id="small"),
        pytest.param([SMALL], "20000", id="one", marks=pytest.mark.long),
        pytest.param([b""] * 10, "20000", id="no bytes", marks=pytest.mark.long),
        pytest.param([], None, id="none"),
        pytest.param([b"x" * 400] * 50, "5000", id="medium", marks=pytest.mark.long),
        pytest.param([LARGE] * 100 + [SMALL] * 900, None, id="large first"),
        pytest.param(
            [SMALL] * 450 + [LARGE] * 100 + [SMALL] * 450, None, id="large in the middle", marks=pytest.mark.long
        ),
        pytest.param([SMALL] * 900 + [LARGE] * 100, None, id="large last", marks=pytest.mark.long),
        pytest.param([b"x" * 2_000] * 200, "1000", id="just small"),
        pytest.param([b"x" * 2_001] * 200, None, id="just large"),
    ],
)
def test_batches_are_cut_by_rows_where_all_places_have_small_records(
    connection: KafkaConnection, request: pytest.FixtureRequest, values: list[bytes], rows: str | None
) -> None:
    name = "sizes-" + request.node.callspec.id.replace(" ", "-")
    expected = {MAX_BYTES: UNLIMITED, MAX_ROWS: rows} if rows else {}
    assert limits_of(connection, topic_of(connection, name, values)) == expected


def test_limits_that_are_given_stay(connection: KafkaConnection) -> None:
    topic = topic_of(connection, "sizes-given", [SMALL] * 10)
    assert limits_of(connection, topic, f"{MAX_BYTES}=1000000") == {}
    assert limits_of(connection, topic, f"{MAX_ROWS}=300") == {MAX_BYTES: UNLIMITED}


def test_a_broker_that_does_not_answer_leaves_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_batches, "LIMIT_S", 0.5)
    assert limits_of(KafkaConnection("127.0.0.1:1"), "in") == {}


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
