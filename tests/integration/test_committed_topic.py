"""The source, in pipelines: which tasks a batch has, and that a batch which is run again has the same; jobs of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from indoubt.lifecycle.decisions import Settled
from indoubt.pipeline.runtime.status_file import WRONG_SETTINGS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import (
    LIMIT_S,
    PipelineProcess,
    abort_by_taking_ids,
    make_topics,
    produce,
    read_committed,
    wait_until,
)
from tests.integration.test_pipeline_protocol import expect_exactly, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.long]
PARTITIONS = 5
OWN_JOBS = """
import pyarrow.compute as pc

import indoubt.spark


def in_capitals(rows):
    return rows.set_column(1, "value", pc.ascii_upper(rows["value"].cast("string")).cast("binary"))


def of_two_topics(spark, settings):
    each = indoubt.spark.Each(change=in_capitals, schema="key binary, value binary")
    topics = f"{settings.prefix}-a,{settings.prefix}-b"
    return indoubt.spark.read(
        spark, topics, bootstrap=settings.bootstrap_servers, starting_offsets="latest", each=each
    )


def by_sparks_source(spark, settings):
    options = {"kafka.bootstrap.servers": settings.bootstrap_servers, "subscribe": f"{settings.prefix}-a"}
    options |= {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    return spark.readStream.format("kafka").options(**options).load().select("key", "value")


def by_ours(spark, settings):
    return indoubt.spark.read(spark, f"{settings.prefix}-a", bootstrap=settings.bootstrap_servers)


def wrong(spark, settings):
    return indoubt.spark.read(spark, "a", bootstrap=settings.bootstrap_servers, starting_offsets="first")
"""


@pytest.fixture
def own_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_jobs.py").write_text(OWN_JOBS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_an_empty_source_is_read_with_partitions_that_it_gets_later(
    connection: KafkaConnection, tmp_path: Path
) -> None:
    name = "topic-empty"
    source, sink = f"in-{name}", f"out-{name}"
    make_topics(connection, source, sink, "transaction_lifecycle")
    with PipelineProcess(connection, tmp_path, source=source, sink=sink, prefix=name) as pipeline:
        wait_until("a batch without rows has ended", lambda: (tmp_path / "checkpoint" / "commits" / "0").exists())
        produce(connection, source, values(0, 100))
        expect_exactly(connection, sink, values(0, 100))
        admin = AdminClient(connection.for_librdkafka())
        admin.create_partitions([NewPartitions(source, PARTITIONS)])[source].result(LIMIT_S)
        wait_until(
            "the broker lists the new partitions",
            lambda: len(admin.list_topics(source, timeout=LIMIT_S).topics[source].partitions) == PARTITIONS,
        )
        produce(connection, source, values(100, 100), PARTITIONS)
        expect_exactly(connection, sink, values(0, 200))
        assert pipeline.status["restarts"] == 0


@pytest.mark.parametrize(("tasks", "task_records", "most"), [(4, 1, 4), (4, 20_000, 1)])
def test_a_part_of_a_batch_that_was_lost_is_replayed(
    connection: KafkaConnection, tmp_path: Path, tasks: int, task_records: int, most: int
) -> None:
    name = f"topic-{tasks}-{task_records}"
    source, sink = f"in-{name}", f"out-{name}"
    log = DecisionLog(connection)
    log.ensure_topic()
    make_topics(connection, "transaction_lifecycle", sink)
    make_topics(connection, source, partitions=PARTITIONS)
    produce(connection, source, values(0, 200))
    settings = {"source": source, "sink": sink, "prefix": name, "tasks": tasks, "task_records": task_records}
    with PipelineProcess(connection, tmp_path, **settings, restart_delay_ms=8_000) as pipeline:
        expect_exactly(connection, sink, values(0, 200))
        pipeline.arm("mid-commit" if most > 1 else "after-decision", "kill")
        produce(connection, source, values(200, 200), PARTITIONS)
        point = "mid-commit" if most > 1 else "after-decision"
        wait_until("the batch is decided", lambda: pipeline.reached(point))
        unsettled = log.read_to_end().unsettled(name)
        abort_by_taking_ids(connection, [handle.transaction for _, handle in unsettled])
        expect_exactly(connection, sink, values(0, 400))
        ledger = log.read_to_end()
        decisions = ledger.checkpoint_commits(pipeline.status["checkpoint_id"])
        assert max(len(decision.handles) for decision in decisions) <= most
        ends = [ledger.outcome(handle.key) for handle in unsettled[0][0].handles]
        # With several, one was committed before the others were lost.
        expected = {Settled.COMMITTED, Settled.LOST} if most > 1 else {Settled.LOST}
        assert {end.settled for end in ends if end is not None} == expected
        assert pipeline.status["restarts"] >= 1


def test_a_source_that_is_deleted_fails_the_query_and_says_so(connection: KafkaConnection, tmp_path: Path) -> None:
    name = "topic-deleted"
    source, sink = f"in-{name}", f"out-{name}"
    make_topics(connection, source, sink, "transaction_lifecycle")
    produce(connection, source, values(0, 10))
    settings = {"source": source, "sink": sink, "prefix": name, "restart_attempts": 0}
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        expect_exactly(connection, sink, values(0, 10))
        admin = AdminClient(connection.for_librdkafka())
        admin.delete_topics([source])[source].result(LIMIT_S)
        assert pipeline.wait_exit(2 * LIMIT_S) != 0
        assert f"source topic {source!r} is not there" in pipeline.log


def test_a_job_of_ones_own_reads_topics_and_changes_records_where_they_are_read(
    connection: KafkaConnection, tmp_path: Path, own_jobs: None
) -> None:
    name = "topic-own"
    topics, sink = (f"{name}-a", f"{name}-b"), f"out-{name}"
    make_topics(connection, *topics, sink, "transaction_lifecycle")
    produce(connection, topics[0], [b"before"])
    with PipelineProcess(connection, tmp_path / "run", job="own_jobs:of_two_topics", sink=sink, prefix=name):
        first = tmp_path / "run" / "checkpoint" / "commits" / "0"
        wait_until("the first batch", first.exists, LIMIT_S)
        for topic in topics:
            produce(connection, topic, [topic.encode()])
        wait_until("the rows of both", lambda: read_committed(connection, sink).total() == len(topics), LIMIT_S)
    assert read_committed(connection, sink).keys() == {topic.upper().encode() for topic in topics}


def test_ours_and_sparks_source_go_on_from_each_others_checkpoint(
    connection: KafkaConnection, tmp_path: Path, own_jobs: None
) -> None:
    name = "topic-either"
    make_topics(connection, f"{name}-a", f"out-{name}", "transaction_lifecycle")
    for number, job in enumerate(("by_ours", "by_sparks_source", "by_ours")):
        produce(connection, f"{name}-a", values(number * 10, 10))
        with PipelineProcess(connection, tmp_path / "run", job=f"own_jobs:{job}", sink=f"out-{name}", prefix=name):
            expect_exactly(connection, f"out-{name}", values(0, number * 10 + 10))


def test_a_wrong_parameter_is_refused(connection: KafkaConnection, tmp_path: Path, own_jobs: None) -> None:
    make_topics(connection, "out-topic-wrong", "transaction_lifecycle")
    settings = {"job": "own_jobs:wrong", "sink": "out-topic-wrong", "prefix": "topic-wrong"}
    with PipelineProcess(connection, tmp_path / "run", **settings) as pipeline:
        assert pipeline.wait_exit(LIMIT_S) == WRONG_SETTINGS
        assert "starting_offsets is 'first'; it takes earliest or latest" in pipeline.log
