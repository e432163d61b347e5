"""The decision log as the collector sees it on a real broker: cut, finite, in parts, written by a newer program."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.broker import Broker
from indoubt.collector.history.store import Store
from indoubt.collector.observe.decision_log import DecisionTopic
from indoubt.collector.observe.source import ObserverState
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decision_parts import encode_within
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable
from indoubt.lifecycle.identity import Handle
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING
from tests.integration.collector_process import LIMIT_S, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.reported_pipeline import ReportedPipeline, now_ms
from tests.integration.test_decision_log import cut_before

pytestmark = pytest.mark.integration

HANDLE = Handle(
    resource_manager="mysql",
    transaction="p:0:0:0:0a1b2c3d",
    producer_id=None,
    producer_epoch=None,
    slot=0,
    rows=1,
    bytes=1,
    fingerprint="1:0",
    opened_at_ms=1_700_000_000_000,
    prepared_at_ms=1_700_000_000_000,
    timeout_ms=0,
)
NEWER = b'{"version":99,"type":"run_started","prefix":"p","at_ms":1}'


@pytest.fixture
def log(connection: KafkaConnection) -> Iterator[DecisionLog]:
    """Return a decision log of the test's own."""
    made = DecisionLog(connection, f"decisions-{uuid.uuid4().hex[:8]}")
    made.ensure_topic()
    with closing(made):
        yield made


@contextmanager
def watching(connection: KafkaConnection, topic: str, directory: Path) -> Iterator[tuple[CurrentState, DecisionTopic]]:
    """Run the observer of a log over a history, as the collector does."""
    with closing(Store(directory / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=100, checkpoints_kept=10, limits=Limits())
        current.load()
        observer = DecisionTopic(current, store, connection, topic)
        observer.start()
        try:
            yield current, observer
        finally:
            observer.stop()


def wait_for_status(current: CurrentState, status: DecisionLogStatus, said: str = "") -> str:
    def holds() -> bool:
        return current.decision_log_status[0] is status and said in current.decision_log_status[1]

    wait_until(f"the log is {status.value} {said}", holds, LIMIT_S)
    return current.decision_log_status[1]


def wait_until_read(current: CurrentState, offset: int) -> None:
    def holds() -> bool:
        with current.reading() as state:
            return state.ledger.next_offset > offset

    wait_until(f"offset {offset} is folded", holds, LIMIT_S)


def start(log: DecisionLog, checkpoint_id: str = "L") -> int:
    return log.start_run(RunStarted(prefix="p", checkpoint_id=checkpoint_id, run=uuid.uuid4().hex[:6], at_ms=now_ms()))


def commit(attempt: int, batch: int, handles: int = 1) -> Decision:
    listed = tuple(
        replace(HANDLE, transaction=f"p:{batch}:{attempt}:{slot}:0a1b2c3d", slot=slot) for slot in range(handles)
    )
    batch_attempt = BatchAttempt(checkpoint_id="L", batch=batch, attempt=attempt)
    return Decision(
        prefix="p", batch_attempt=batch_attempt, ruling=Ruling.COMMIT, handles=listed, who="run", at_ms=now_ms()
    )


def settle(log: DecisionLog, decision: Decision) -> None:
    keys = tuple(handle.key for handle in decision.handles)
    outcome = Outcome(
        prefix="p",
        batch_attempt=decision.batch_attempt,
        handle_keys=keys,
        settled=Settled.COMMITTED,
        who="run",
        at_ms=now_ms(),
    )
    log.append(outcome)


def test_a_log_that_was_cut_is_learned_from_its_snapshot_once(
    connection: KafkaConnection, log: DecisionLog, tmp_path: Path
) -> None:
    attempt = start(log)
    for batch in range(5):
        decision = commit(attempt, batch)
        log.decide(decision)
        settle(log, decision)
    pending = commit(attempt, 5)
    log.decide(pending)
    begin = log.snapshot("p", "run")
    late = commit(attempt, 6)
    at = log.decide(late)
    cut_before(connection, log.topic, begin)
    with watching(connection, log.topic, tmp_path) as (current, observer):
        wait_for_status(current, DecisionLogStatus.READABLE)
        with current.reading() as state:
            assert state.ledger.latest_run("p") is not None
            assert state.ledger.listing(pending.handles[0].key) is not None
            assert state.ledger.listing(late.handles[0].key) == (at, late)
            assert state.last_decided["L"].batch == 6
        events = current.counts()
        wait_until("it is up", lambda: observer.status.state is ObserverState.UP, LIMIT_S)
    # Cut again, while nobody watches, and behind a newer snapshot.
    settle(log, late)
    again = log.snapshot("p", "run")
    start(log, checkpoint_id="M")
    cut_before(connection, log.topic, again)
    with watching(connection, log.topic, tmp_path) as (current, _):
        assert current.counts() == events, "what history has is not counted again"
        wait_for_status(current, DecisionLogStatus.READABLE)
        with current.reading() as state:
            newest = state.ledger.latest_run("p")
            assert newest is not None
            assert newest[1].checkpoint_id == "M"
            assert state.ledger.outcome(late.handles[0].key) is not None
        events, malformed = current.counts()
    with watching(connection, log.topic, tmp_path) as (current, _):
        wait_for_status(current, DecisionLogStatus.READABLE)
        assert current.counts() == (events, malformed)


def test_a_log_without_its_head_is_unreadable_until_a_snapshot(
    connection: KafkaConnection, log: DecisionLog, tmp_path: Path
) -> None:
    attempt = start(log)
    decision = commit(attempt, 0)
    log.decide(decision)
    log.read_to_end()
    cut_before(connection, log.topic, 1)
    with watching(connection, log.topic, tmp_path) as (current, observer):
        said = wait_for_status(current, DecisionLogStatus.UNREADABLE, "no snapshot stands for them")
        assert f"the records of {log.topic} from offset 0 to 0 are gone" in said
        # The log's status is said first, then the observer's.
        wait_until("it is down", lambda: observer.status.state is ObserverState.DOWN, LIMIT_S)
        with current.reading() as state:
            assert state.ledger.first(decision.batch_attempt) is None, "not taken for a void one"
        # A pipeline that had read all of it lives on.
        log.snapshot("p", "run")
        wait_for_status(current, DecisionLogStatus.READABLE)
        with current.reading() as state:
            assert state.ledger.counting(decision.batch_attempt) == decision
        wait_until("it is up", lambda: observer.status.state is ObserverState.UP, LIMIT_S)


def test_parts_of_a_decision_outlive_the_collectors_end_between_them(
    connection: KafkaConnection, log: DecisionLog, tmp_path: Path
) -> None:
    attempt = start(log)
    decision = commit(attempt, 0, handles=50)
    parts = encode_within(decision, 4_000)
    assert len(parts) > 3
    producer = Producer(connection.for_librdkafka())

    def append(values: list[bytes]) -> None:
        for value in values:
            producer.produce(log.topic, value, partition=0)
        assert producer.flush(LIMIT_S) == 0

    append(parts[:2])
    with watching(connection, log.topic, tmp_path) as (current, observer):
        wait_for_status(current, DecisionLogStatus.READABLE)
        wait_until("two parts are read", lambda: observer.status.records >= 3, LIMIT_S)
    append(parts[2:])
    settle(log, decision)
    with watching(connection, log.topic, tmp_path) as (current, _):
        wait_until_read(current, attempt + len(parts))
        with current.reading() as state:
            assert state.ledger.counting(decision.batch_attempt) == decision
            assert state.ledger.outcome(decision.handles[49].key) is not None
        assert current.counts() == (3, 0)


@pytest.mark.long
def test_what_is_finite_is_shown_and_what_is_newer_makes_verdicts_unknown(
    broker: Broker, connection: KafkaConnection, lifecycle_topic: str, tmp_path: Path
) -> None:
    topic, admin = f"decisions-{uuid.uuid4().hex[:8]}", AdminClient(connection.for_librdkafka())
    config = FORGETS_NOTHING | {"retention.ms": "604800000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(LIMIT_S)
    pipeline = ReportedPipeline(connection, lifecycle_topic, decision_topic=topic)
    handle = pipeline.prepare(b"decided by whom?")
    settings = {"INDOUBT_LIFECYCLE_TOPIC": lifecycle_topic, "INDOUBT_DECISION_TOPIC": topic}
    with running(broker.bootstrap_servers, tmp_path, environment=settings) as collector:
        (alert,) = wait_until("the alert fires", lambda: collector.rows("alerts?rule=A11&state=firing"), LIMIT_S)
        assert alert["severity"] == "critical"
        assert "retention.ms=604800000" in alert["summary"]
        assert "--add-config retention.ms=-1" in alert["summary"]
        assert "forgets by itself" in collector.observer("decision log")["error"]
        assert collector.observer("decision log")["state"] == "up"
        collector.wait_for(handle.transaction, verdict="in progress")

        producer = Producer(connection.for_librdkafka())
        producer.produce(topic, NEWER, partition=0)
        assert producer.flush(LIMIT_S) == 0
        with pytest.raises(DecisionLogUnreadable, match="at offset 1 what a newer program wrote"):
            pipeline.decide(handle)
        row = collector.wait_for(handle.transaction, verdict="unknown")
        assert (row["may_commit"], row["may_abort"]) == (False, False)
        assert any("at offset 1 what a newer program wrote" in fact["fact"] for fact in row["evidence"])
        status = collector.observer("decision log")
        assert status["state"] == "down"
        assert "Update the collector" in status["error"]
        assert collector.rows("quarantined") == [], "it is not passed over as one that is none of this protocol"
        assert collector.order("abort", row).status_code == 409
        assert collector.order("commit", row).status_code == 409
