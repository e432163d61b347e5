"""The pipeline on a real broker and real Spark: each rule of the protocol that a rival, a timeout or bad input can break.

What kill -9 at each step does is judged by test_demo_headless.py, on whole runs.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling
from indoubt.lifecycle.events import EventType, decode
from indoubt.pipeline.checkpoints.checkpoint_directory import FILE
from indoubt.resource_managers.topics.decision_log import DecisionLog
from indoubt.resource_managers.topics.decision_log_topic import DecisionLogTopic
from tests.integration.pipeline_process import (
    PipelineProcess,
    make_topics,
    open_transactions,
    produce,
    read_committed,
    wait_until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def topics(connection, request):
    name = request.node.name.replace("test_", "")[:60].replace("[", "-").replace("]", "")
    DecisionLog(connection).ensure_topic()
    make_topics(connection, "transaction_lifecycle", f"in-{name}", f"out-{name}")
    return {"source": f"in-{name}", "sink": f"out-{name}", "prefix": name}


def values(start: int, count: int) -> list[bytes]:
    return [b"row %06d" % n for n in range(start, start + count)]


def group_lag(connection, topics: dict[str, str]) -> int:
    """Return what an ordinary lag tool would show for the pipeline's consumer group; -1 before its first commit."""
    consumer = Consumer(connection.for_librdkafka(**{"group.id": topics["prefix"]}))
    try:
        partitions = [TopicPartition(topics["source"], n) for n in (0, 1)]
        committed = consumer.committed(partitions, timeout=30)
        if any(position.offset < 0 for position in committed):
            return -1
        ends = [consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions]
        return sum(ends) - sum(position.offset for position in committed)
    finally:
        consumer.close()


def expect_exactly(connection, sink: str, expected: list[bytes]) -> None:
    """Wait until the reader sees as many rows as expected, then compare each row's count."""
    wait_until(f"{len(expected)} rows in {sink}", lambda: read_committed(connection, sink).total() >= len(expected))
    assert read_committed(connection, sink) == Counter(expected)


@pytest.mark.long
def test_operators_abort_of_an_undecided_batch_wins_over_a_live_driver(connection, topics, tmp_path):
    log = DecisionLog(connection)
    with PipelineProcess(connection, tmp_path, **topics) as pipeline:
        produce(connection, topics["source"], values(0, 100))
        expect_exactly(connection, topics["sink"], values(0, 100))
        pipeline.arm("after-prepare", "freeze")
        produce(connection, topics["source"], values(100, 100))
        wait_until("the driver stands still before its decision", lambda: pipeline.reached("after-prepare"))
        status = pipeline.status
        batch = max(d.batch_attempt.batch for d in log.read_to_end().checkpoint_commits(status["checkpoint_id"])) + 1
        batch_attempt = BatchAttempt(checkpoint_id=status["checkpoint_id"], batch=batch, attempt=status["attempt"])
        log.decide(
            Decision(
                prefix=topics["prefix"],
                batch_attempt=batch_attempt,
                ruling=Ruling.ABORT,
                handles=(),
                who="anna",
                at_ms=0,
            )
        )
        wake(pipeline)
        expect_exactly(connection, topics["sink"], values(0, 200))
        commits = [d.batch_attempt for d in log.read_to_end().commits_of(status["checkpoint_id"], batch)]
        assert commits, "the batch was decided by a later attempt"
        assert batch_attempt not in commits
        assert pipeline.status["restarts"] >= 1


def wake(pipeline: PipelineProcess) -> None:
    """Let a frozen driver go on: its processes and the commit worker that froze with them."""
    for stat in list(Path("/proc").glob("[0-9]*/stat")):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
            if state == "T" and str(pipeline.crash_points) in (stat.parent / "environ").read_text(errors="replace"):
                os.kill(int(stat.parent.name), signal.SIGCONT)
        except (FileNotFoundError, ProcessLookupError):
            continue


@pytest.mark.long
def test_of_two_queries_under_one_prefix_the_earlier_one_stops(connection, topics, tmp_path):
    produce(connection, topics["source"], values(0, 100))
    with PipelineProcess(connection, tmp_path / "first", **topics) as first:
        expect_exactly(connection, topics["sink"], values(0, 100))
        # The second has its own checkpoint directory, so it starts from the first row: a new checkpoint id.
        second_sink = topics["sink"] + "-2"
        make_topics(connection, second_sink)
        with PipelineProcess(connection, tmp_path / "second", **{**topics, "sink": second_sink}):
            expect_exactly(connection, second_sink, values(0, 100))
            produce(connection, topics["source"], values(100, 100))
            assert first.wait_exit() == 3
            assert "a newer run" in first.log or "started after this one" in first.log
            expect_exactly(connection, second_sink, values(0, 200))
        assert read_committed(connection, topics["sink"]) == Counter(values(0, 100))


@pytest.mark.long
def test_stopped_pipeline_goes_on_where_it_was(connection, topics, tmp_path):
    """Also when the head of its decision log, with the start of its run, is deleted all the time. It says that it runs."""
    made = f"log-of-{topics['prefix']}"
    short = {"decisions_snapshot_interval_ms": 0, "decisions_keep_days": 0, "sweep_interval_ms": 500}
    produce(connection, topics["source"], values(0, 100))
    directory = tmp_path / "one place"
    told = f"events-of-{topics['prefix']}"
    own = {**topics, **short, "decisions_topic": made, "lifecycle_topic": told}
    with PipelineProcess(connection, tmp_path, checkpoint=f"file://{tmp_path}/one%20place", **own) as pipeline:
        expect_exactly(connection, topics["sink"], values(0, 100))
        wait_until("the consumer group shows the checkpoint", lambda: group_lag(connection, topics) == 0)
        decisions = DecisionLogTopic(connection, made)
        attempt = pipeline.status["attempt"]
        wait_until("the run's start is deleted from the log", lambda: decisions.ends()[0] > attempt)
    assert pipeline.process.returncode == 0
    assert EventType.PIPELINE_ALIVE in {decode(event).type for event in read_committed(connection, told)}
    ledger = DecisionLog(connection, made).read_to_end()
    assert ledger.last_decided_batch(pipeline.status["checkpoint_id"]) is not None
    assert ledger.unsettled(topics["prefix"]) == [], "the log says that what was decided is committed"
    produce(connection, topics["source"], values(100, 100))
    checkpoint_id = (directory / FILE).read_text()
    with PipelineProcess(connection, tmp_path, checkpoint=str(directory), **own) as again:
        expect_exactly(connection, topics["sink"], values(0, 200))
    assert (directory / FILE).read_text() == checkpoint_id
    assert not (tmp_path / "one%20place").exists(), "Spark and the pipeline read the URI alike"
    assert "StreamingQueryListenerBus" not in again.log, "whom Spark tells of the last batch still listened"


@pytest.mark.long
def test_wrong_starts_end_at_once_with_one_clear_line(connection, topics, tmp_path):
    finite = f"finite-{topics['prefix']}"
    make_topics(connection, finite, partitions=1)
    wrong = {
        f"--entity-name {finite} --add-config retention.ms=-1": {"decisions_topic": finite},
        "does not exist": {"sink": "no-such-topic"},
        "transaction.max.timeout.ms": {"transaction_timeout_ms": 3_600_000},
        "cannot be written": {"checkpoint": "/proc/nowhere"},
    }
    for number, (said, change) in enumerate(wrong.items()):
        with PipelineProcess(
            connection, tmp_path / str(number), **{**topics, "restart_attempts": 0, **change}
        ) as pipeline:
            assert pipeline.wait_exit() != 0
        assert said in pipeline.log
        assert "Traceback" not in pipeline.log, pipeline.log


@pytest.mark.long
def test_an_oversized_record_stops_the_batch_and_is_named(connection, topics, tmp_path):
    admin_settings = {"max.message.bytes": "10000000"}
    entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in admin_settings.items()]
    resource = ConfigResource("TOPIC", topics["source"], incremental_configs=entries)
    admin = AdminClient(connection.for_librdkafka())
    admin.incremental_alter_configs([resource])[resource].result(30)
    produce(connection, topics["source"], [b"small", b"x" * 2_000_000])
    with PipelineProcess(connection, tmp_path, **topics, restart_attempts=0) as pipeline:
        assert pipeline.wait_exit() == 1
        assert "RecordTooLarge" in pipeline.log
    assert read_committed(connection, topics["sink"]).total() == 0
    assert open_transactions(connection, topics["prefix"]) == []
