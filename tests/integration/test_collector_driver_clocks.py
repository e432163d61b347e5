"""A real collector and a driver whose clock is wrong: a newer run is told by the order of the log, silence by what arrives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from demo.broker import Broker
from indoubt.lifecycle.decisions import BatchAttempt, Ruling
from indoubt.lifecycle.events import EventType
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration import reported_pipeline
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration
WRONG_MS = [90_000, -90_000]


@pytest.fixture(params=WRONG_MS, ids=["ahead", "behind"])
def pipeline(
    request: pytest.FixtureRequest,
    connection: KafkaConnection,
    lifecycle_topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> ReportedPipeline:
    """Return a pipeline whose driver's clock is wrong."""
    right = reported_pipeline.now_ms
    monkeypatch.setattr(reported_pipeline, "now_ms", lambda: right() + request.param)
    DecisionLog(connection).ensure_topic()
    return ReportedPipeline(connection, lifecycle_topic)


def rules_of(collector: CollectorProcess, transaction: str) -> set[tuple[str, int, str]]:
    return {(row["verdict"], row["rule"], row["certainty"]) for row in collector.transactions(transaction)}


@pytest.mark.long
def test_a_newer_run_is_told_by_the_log_and_its_abort_is_decided_first(
    broker: Broker, lifecycle_topic: str, pipeline: ReportedPipeline, tmp_path: Path
) -> None:
    environment = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic}
    with running(broker.bootstrap_servers, tmp_path / "data", environment=environment) as collector:
        first, attempts = pipeline.prepare(b"of the first run"), [pipeline.attempt]
        collector.wait_for(first.transaction, state="prepared", rule=15)
        assert rules_of(collector, first.transaction) == {("in progress", 15, "likely")}

        def is_superseded() -> bool:
            # The collector asks where the log ends once it has seen the transaction: some run starts after that.
            pipeline.attempt = pipeline.start_run()
            attempts.append(pipeline.attempt)
            return ("abort it", 12, "certain") in rules_of(collector, first.transaction)

        wait_until("a newer run, for certain", is_superseded, LIMIT_S)
        row = collector.wait_for(first.transaction, rule=12)
        answer = collector.order("abort", row)
        assert answer.status_code == 200, answer.text
        collector.wait_for(first.transaction, state="aborted")
        named = [BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=0, attempt=at) for at in attempts]
        ledger = pipeline.log.read_to_end()
        decided = next((found for each in named if (found := ledger.first(each)) is not None), None)
        assert decided is not None, "an abort decision names its batch"
        assert decided[1].ruling is Ruling.ABORT
        assert [handle.transaction for handle in decided[1].handles] == [first.transaction]

        second = pipeline.prepare(b"of the newest run", slot=1)
        collector.wait_for(second.transaction, state="prepared")
        time.sleep(2.0)
        assert 12 not in {
            rule for _, rule, certainty in rules_of(collector, second.transaction) if certainty == "certain"
        }
        pipeline.decide(second)
        assert pipeline.log.read_to_end().listing(second.key) is not None, "the newest run's decision counts"


@pytest.mark.long
def test_a_driver_is_silent_once_nothing_of_it_arrives(
    broker: Broker, lifecycle_topic: str, pipeline: ReportedPipeline, tmp_path: Path
) -> None:
    environment = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_DRIVER_SILENT_MS": "3000"}
    settings = {"interval_ms": 500, "alive_ms": 500}
    pipeline.tell(EventType.PIPELINE_STARTED, pipeline.prefix, job="test", settings=settings)
    with running(broker.bootstrap_servers, tmp_path / "data", environment=environment) as collector:
        handle = pipeline.prepare(b"slow")
        collector.wait_for(handle.transaction, state="prepared")
        seen = set()
        for _ in range(16):
            pipeline.tell(EventType.CHECKPOINT_STARTED, "0", batch=0)
            time.sleep(0.5)
            seen |= {(rule, certainty) for _, rule, certainty in rules_of(collector, handle.transaction)}
        assert 13 not in {rule for rule, _ in seen}, "its events arrive"
        assert (12, "certain") not in seen
        silent = wait_until(
            "it is silent",
            lambda: ("abort it", 13, "likely") in rules_of(collector, handle.transaction),
            LIMIT_S,
        )
        assert silent
