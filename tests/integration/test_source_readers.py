"""Both readers of the source: a batch that one began and that was lost in part, the other writes again, and only that part."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from indoubt.lifecycle.decisions import Settled
from indoubt.pipeline.config.settings import READERS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import LIMIT_S
from tests.integration.pipeline_process import PipelineProcess, abort_by_taking_ids, make_topics, produce, wait_until
from tests.integration.test_pipeline_protocol import expect_exactly, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.long]
PARTITIONS, TASKS = 5, 2


@pytest.mark.parametrize("source_tasks", [0, 1])
def test_a_source_that_is_empty_at_first_is_read(
    connection: KafkaConnection, tmp_path: Path, source_tasks: int
) -> None:
    name = f"readers-empty-{source_tasks}"
    source, sink = f"in-{name}", f"out-{name}"
    make_topics(connection, source, sink, "transaction_lifecycle")
    settings = {"source": source, "sink": sink, "prefix": name, "source_tasks": source_tasks}
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        wait_until("a batch without rows has ended", lambda: (tmp_path / "checkpoint" / "commits" / "0").exists())
        produce(connection, source, values(0, 100))
        expect_exactly(connection, sink, values(0, 100))
        assert pipeline.status["restarts"] == 0


@pytest.mark.parametrize("source_tasks", [0, TASKS])
@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(READERS)))
def test_one_replays_what_the_other_began(
    connection: KafkaConnection, tmp_path: Path, first: str, second: str, source_tasks: int
) -> None:
    name = f"readers-{first}-{source_tasks}"
    source, sink = f"in-{name}", f"out-{name}"
    log = DecisionLog(connection)
    log.ensure_topic()
    make_topics(connection, "transaction_lifecycle", sink)
    make_topics(connection, source, partitions=PARTITIONS)
    produce(connection, source, values(0, 200))
    settings = {"source": source, "sink": sink, "prefix": name, "source_tasks": source_tasks}
    with PipelineProcess(connection, tmp_path, source_reader=first, **settings) as pipeline:
        expect_exactly(connection, sink, values(0, 200))
        pipeline.arm("mid-commit", "freeze")
        # Over every partition, so that the batch has several transactions, whatever part of the records it holds.
        produce(connection, source, values(200, 200), PARTITIONS)
        wait_until("a part of the transactions is committed", lambda: pipeline.reached("mid-commit"))
        unsettled = log.read_to_end().unsettled(name)
        abort_by_taking_ids(connection, [handle.transaction for _, handle in unsettled])
        # The supervisor first: it would start a run with the same reader.
        pipeline.process.kill()
        pipeline.process.wait(LIMIT_S)
        pipeline.kill_driver()
    (pipeline.crash_points / "mid-commit.reached").unlink()
    with PipelineProcess(connection, tmp_path, source_reader=second, **settings):
        expect_exactly(connection, sink, values(0, 400))
    ledger = log.read_to_end()
    ends = [ledger.outcome(handle.key) for decision, _ in unsettled for handle in decision.handles]
    assert {end.settled for end in ends if end is not None} == {Settled.COMMITTED, Settled.LOST}
    assert max(len(decision.handles) for decision, _ in unsettled) <= (source_tasks or PARTITIONS)
