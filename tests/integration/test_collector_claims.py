"""A lifecycle event that lies, on a real broker: it decides no verdict and no order, whatever it claims."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.lifecycle.decisions import BatchAttempt, Ruling
from indoubt.lifecycle.events import EventType
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def collector(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    """Return a collector that takes a driver for gone after a second of silence."""
    DecisionLog(connection).ensure_topic()
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_DRIVER_SILENT_MS": "1000"}
    with running(broker.bootstrap_servers, tmp_path_factory.mktemp("collector"), environment=settings) as process:
        yield process


@pytest.fixture
def pipeline(connection: KafkaConnection, lifecycle_topic: str) -> ReportedPipeline:
    return ReportedPipeline(connection, lifecycle_topic)


def test_a_foreign_transaction_stays_foreign_whatever_an_event_claims(
    collector: CollectorProcess, connection: KafkaConnection, pipeline: ReportedPipeline
) -> None:
    sink, id_ = make_sink(connection), f"bank-{uuid.uuid4().hex[:8]}"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"somebody else's row")
    assert producer.flush(LIMIT_S) == 0
    seen = collector.wait_for(id_, verdict="foreign")
    # A newer run, and an event that puts the transaction into the run before: "abort it", were it ours.
    claimed = {"producer_id": seen["producer_id"], "producer_epoch": seen["producer_epoch"], "transaction": id_}
    for type_ in (EventType.TRANSACTION_PREPARED, EventType.TRANSACTION_ABORTED):
        pipeline.tell(type_, id_, batch=0, slot=0, resource_manager="kafka", **claimed)
    pipeline.start_run()
    pipeline.tell(EventType.CHECKPOINT_COMPLETED, "0", batch=0, rows=1, bytes=1, duration_ms=1)
    wait_until("the claims are read", lambda: collector.rows(f"checkpoints?pipeline={pipeline.prefix}"), LIMIT_S)

    row = collector.wait_for(id_, state="open")
    assert (row["verdict"], row["pipeline"], row["loses_data"]) == ("foreign", "bank", True)
    unconfirmed = collector.order("abort", row)
    assert unconfirmed.status_code == 409
    assert "'confirm'" in unconfirmed.json()["detail"]
    assert sink.view(id_).state == "Ongoing"
    assert collector.preview(pipeline=pipeline.prefix)["rows"] == []
    producer.commit_transaction(LIMIT_S)
    (loss,) = wait_until("its end is seen", lambda: collector.rows(f"losses?transaction={id_}"), LIMIT_S)
    assert (loss["verdict"], loss["pipeline"]) == ("not lost", "bank")


def test_an_abort_of_ours_names_the_batch_that_the_log_tells(
    collector: CollectorProcess, pipeline: ReportedPipeline
) -> None:
    """Its event claims batch 6, which has the right parity: the log knows that batch 0 is the next one."""
    pipeline.tell(EventType.PIPELINE_STARTED, pipeline.prefix, job="j", settings={"interval_ms": 100})
    handle = pipeline.prepare(b"left over", reported_batch=6)
    row = collector.wait_for(handle.transaction, verdict="abort it", may_abort=True)
    assert (row["batch"], row["loses_data"]) == (6, False)
    dry = collector.order("abort", row, dry_run=True).json()
    assert "abort decision for batch 0" in dry["steps"][0]["description"]
    done = collector.order("abort", row).json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    ledger = pipeline.log.read_to_end()
    counting = ledger.counting(BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=0, attempt=pipeline.attempt))
    assert counting is not None
    assert (counting.ruling, counting.who) == (Ruling.ABORT, "operator:anna")
    assert ledger.first(BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=6, attempt=pipeline.attempt)) is None
    row = collector.wait_for(handle.transaction, state="aborted", verdict="settled")
    assert row["batch"] == 0
