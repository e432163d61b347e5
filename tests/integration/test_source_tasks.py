"""Tasks that read several partitions of the source: as many transactions as tasks, and a replay finds each one's rows again."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.lifecycle.decisions import Settled
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import PipelineProcess, abort_by_taking_ids, make_topics, produce, wait_until
from tests.integration.test_pipeline_protocol import expect_exactly, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.long]
SOURCE, SINK, PREFIX = "in-source-tasks", "out-source-tasks", "source-tasks"
PARTITIONS, TASKS = 5, 2


def test_a_part_of_a_batch_that_was_lost_is_replayed(connection: KafkaConnection, tmp_path: Path) -> None:
    log = DecisionLog(connection)
    log.ensure_topic()
    make_topics(connection, "transaction_lifecycle", SINK)
    make_topics(connection, SOURCE, partitions=PARTITIONS)
    produce(connection, SOURCE, values(0, 200))
    settings = {"source": SOURCE, "sink": SINK, "prefix": PREFIX, "source_tasks": TASKS, "restart_delay_ms": 8_000}
    with PipelineProcess(connection, tmp_path, **settings) as pipeline:
        expect_exactly(connection, SINK, values(0, 200))
        pipeline.arm("mid-commit", "kill")
        produce(connection, SOURCE, values(200, 200), PARTITIONS)
        wait_until("one of the transactions is committed", lambda: pipeline.reached("mid-commit"))
        unsettled = log.read_to_end().unsettled(PREFIX)
        abort_by_taking_ids(connection, [handle.transaction for _, handle in unsettled])
        expect_exactly(connection, SINK, values(0, 400))
        ledger = log.read_to_end()
        decisions = ledger.checkpoint_commits(pipeline.status["checkpoint_id"])
        assert {handle.slot for decision in decisions for handle in decision.handles} == set(range(TASKS))
        assert {len(decision.handles) for decision in decisions} <= {1, TASKS}
        ends = [ledger.outcome(handle.key) for handle in unsettled[0][0].handles]
        assert {end.settled for end in ends if end is not None} == {Settled.COMMITTED, Settled.LOST}
        assert pipeline.status["restarts"] >= 1
