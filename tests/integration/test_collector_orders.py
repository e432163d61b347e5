"""Orders on real transactions: what is done, what is refused, what is written down, and what an independent reader then sees."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, Settled
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, VIEWER, CollectorProcess
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline, now_ms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def collector(pipeline_collector: CollectorProcess) -> CollectorProcess:
    return pipeline_collector


@pytest.fixture
def pipeline(connection: KafkaConnection, lifecycle_topic: str) -> ReportedPipeline:
    return ReportedPipeline(connection, lifecycle_topic)


def outcomes(collector: CollectorProcess, key: str) -> list[str]:
    """Return the outcomes of the audit rows about one transaction, oldest first."""
    return [row["outcome"] for row in reversed(collector.rows("audit")) if key in row["keys"]]


def test_a_decided_batch_is_committed_by_hand(collector: CollectorProcess, pipeline: ReportedPipeline) -> None:
    handles = [pipeline.prepare(b"row-%d" % slot, slot=slot) for slot in (0, 1)]
    offset = pipeline.decide(*handles)
    rows = [collector.wait_for(h.transaction, verdict="commit it", may_commit=True) for h in handles]
    assert [row["state"] for row in rows] == ["decided", "decided"]
    assert pipeline.visible() == []

    dry = collector.order("commit", *rows, dry_run=True).json()
    assert dry["outcome"] == "dry_run"
    assert all("EndTxn(commit)" in step["description"] for step in dry["steps"])
    assert pipeline.visible() == [], "a dry run does nothing"

    done = collector.order("commit", *rows, reason="the driver is frozen").json()
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["committed", "committed"])
    wait_until("both rows are visible", lambda: pipeline.visible() == [b"row-0", b"row-1"])

    assert outcomes(collector, rows[0]["key"]) == ["dry_run", "accepted"]
    audit = collector.rows("audit")[0]
    assert (audit["audit"], audit["who"], audit["reason"]) == (done["audit"], "anna", "the driver is frozen")
    assert any(str(offset) in fact["fact"] for one in audit["evidence"] for fact in one["evidence"])
    ledger = pipeline.log.read_to_end()
    for handle in handles:
        outcome = ledger.outcome(handle.key)
        assert outcome is not None
        assert (outcome.settled, outcome.who) == (Settled.COMMITTED, "operator:anna")
    collector.wait_for(handles[0].transaction, state="committed", verdict="settled")


def test_a_second_commit_of_the_same_revision_is_refused(
    collector: CollectorProcess, pipeline: ReportedPipeline
) -> None:
    handle = pipeline.prepare(b"once")
    pipeline.decide(handle)
    row = collector.wait_for(handle.transaction, verdict="commit it")
    assert collector.order("commit", row).status_code == 200
    collector.wait_for(handle.transaction, state="committed")
    again = collector.order("commit", row)
    assert (again.status_code, again.json()["code"]) == (409, "order_refused")
    assert "changed since it was looked at" in again.json()["detail"]
    assert outcomes(collector, row["key"]) == ["accepted", "refused"]


def test_an_undecided_transaction_is_not_committed(collector: CollectorProcess, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"undecided")
    row = collector.wait_for(handle.transaction, state="prepared", verdict="in progress")
    answer = collector.order("commit", row)
    assert answer.status_code == 409
    assert "in no commit decision that counts" in answer.json()["detail"]
    assert outcomes(collector, row["key"]) == ["refused"]
    assert pipeline.sink.view(handle.transaction).state == "Ongoing"


def test_a_decided_transaction_is_not_aborted(collector: CollectorProcess, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"decided")
    pipeline.decide(handle)
    row = collector.wait_for(handle.transaction, verdict="commit it")
    assert collector.order("abort", row, confirm=handle.transaction).status_code == 409
    assert pipeline.sink.view(handle.transaction).state == "Ongoing"


def test_what_a_decision_voided_by_a_newer_run_lists_is_not_committed(
    collector: CollectorProcess, pipeline: ReportedPipeline
) -> None:
    handle = pipeline.prepare(b"zombie")
    pipeline.start_run()
    batch_attempt = BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=0, attempt=pipeline.attempt)
    void = Decision(
        prefix=pipeline.sink.prefix,
        batch_attempt=batch_attempt,
        ruling=Ruling.COMMIT,
        handles=(handle,),
        who="run",
        at_ms=now_ms(),
    )
    pipeline.log.append(void)
    row = collector.wait_for(handle.transaction, state="prepared", verdict="abort it", rule=12)
    assert collector.order("commit", row).status_code == 409

    def is_aborted() -> bool:
        # Refused while the void decision is not seen: what is known of it then changes after it was looked at.
        seen = collector.wait_for(handle.transaction, state="prepared", verdict="abort it", rule=12)
        return bool(collector.order("abort", seen).json().get("outcome") == "accepted")

    wait_until("the abort is accepted", is_aborted, LIMIT_S)
    assert pipeline.visible() == []


def test_what_an_older_run_left_open_is_aborted_after_a_decision(
    collector: CollectorProcess, pipeline: ReportedPipeline
) -> None:
    handle = pipeline.prepare(b"left over")
    newest = pipeline.start_run()
    row = collector.wait_for(handle.transaction, state="prepared", verdict="abort it", may_abort=True)
    assert not row["loses_data"]
    assert collector.order("abort", row, dry_run=True).json()["outcome"] == "dry_run"
    assert pipeline.sink.view(handle.transaction).state == "Ongoing"
    done = collector.order("abort", row).json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    collector.wait_for(handle.transaction, state="aborted", verdict="settled")
    # It names the older run's batch where the collector saw the log end before the newer run began, else the newer run's.
    attempts = [
        BatchAttempt(checkpoint_id=pipeline.checkpoint_id, batch=0, attempt=at) for at in (pipeline.attempt, newest)
    ]
    decided = [found[1] for at in attempts if (found := pipeline.log.read_to_end().first(at)) is not None]
    assert [(d.ruling, [each.transaction for each in d.handles]) for d in decided] == [
        (Ruling.ABORT, [handle.transaction])
    ]
    (abort,) = [r for r in collector.rows("aborts") if r["transaction"] == handle.transaction]
    assert (abort["cause"], abort["certainty"]) == ("operator", "certain")


def test_an_abandoned_foreign_transaction_is_aborted_and_its_readers_go_on(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink, id_ = make_sink(connection, partitions=1), f"abandoned-{uuid.uuid4().hex[:8]}"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"never committed")
    assert producer.flush(LIMIT_S) == 0
    plain = Producer(connection.for_librdkafka())
    plain.produce(sink.topic, b"waits behind it")
    assert plain.flush(LIMIT_S) == 0
    row = collector.wait_for(id_, verdict="foreign", may_abort=True, loses_data=True)
    assert set(read_committed(connection, sink.topic)) == set(), "the reader is blocked"

    unconfirmed = collector.order("abort", row)
    assert unconfirmed.status_code == 409
    assert "'confirm'" in unconfirmed.json()["detail"]
    done = collector.order("abort", row, confirm=id_).json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    wait_until("the reader goes on", lambda: set(read_committed(connection, sink.topic)) == {b"waits behind it"})
    with pytest.raises(KafkaException):
        producer.commit_transaction(LIMIT_S)
    assert outcomes(collector, row["key"]) == ["refused", "accepted"]
    wait_until(
        "its cause is the operator",
        lambda: [r["cause"] for r in collector.rows("aborts") if r["transaction"] == id_] == ["operator"],
    )


def test_what_kafka_streams_left_open_is_aborted_without_typing(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink, name = make_sink(connection, partitions=1), f"streams-{uuid.uuid4().hex[:8]}"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": name}))
    group = Consumer(connection.for_librdkafka(**{"group.id": name}))
    producer.init_transactions(LIMIT_S)
    for value in (b"committed", b"left open"):
        producer.begin_transaction()
        producer.produce(sink.topic, value)
        offsets = [TopicPartition(sink.topic, 0, 1)]
        producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), LIMIT_S)
        assert producer.flush(LIMIT_S) == 0
        if value == b"committed":
            producer.commit_transaction(LIMIT_S)
    group.close()

    def holds_offsets() -> bool:
        # The partition of the offsets comes into the coordinator's log after the topic's.
        row = collector.wait_for(name, verdict="in progress", rule=29, may_abort=False)
        return any("holds the offsets of its own input" in fact["fact"] for fact in row["evidence"])

    wait_until("it holds the offsets of its input", holds_offsets)
    row = collector.wait_for(name, verdict="abort it", rule=28, loses_data=False)
    done = collector.order("abort", row).json()
    assert (done["outcome"], done["steps"][0]["outcome"]) == ("accepted", "aborted")
    assert set(read_committed(connection, sink.topic)) == {b"committed"}
    (loss,) = [
        loss for loss in collector.rows("losses") if loss["transaction"] == name and loss["verdict"] != "not lost"
    ]
    assert (loss["verdict"], loss["certainty"]) == ("harmless", "likely")


def test_an_order_never_hits_the_next_transaction_of_the_same_id(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink, id_ = make_sink(connection), f"goes-on-{uuid.uuid4().hex[:8]}"
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"first")
    assert producer.flush(LIMIT_S) == 0
    row = collector.wait_for(id_, state="open")
    producer.commit_transaction(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"second")
    assert producer.flush(LIMIT_S) == 0
    answer = collector.order("abort", row, confirm=id_)
    assert answer.status_code == 409
    producer.commit_transaction(LIMIT_S)
    assert set(read_committed(connection, sink.topic)) == {b"first", b"second"}


def test_a_viewer_orders_nothing(collector: CollectorProcess, pipeline: ReportedPipeline) -> None:
    handle = pipeline.prepare(b"viewed")
    pipeline.decide(handle)
    row = collector.wait_for(handle.transaction, verdict="commit it")
    assert collector.order("commit", row, token=VIEWER).status_code == 403
    assert outcomes(collector, row["key"]) == ["refused"]
    assert pipeline.visible() == []


def test_no_token_is_in_the_log(collector: CollectorProcess) -> None:
    assert "-token" not in collector.log.read_text()


def foreign(connection: KafkaConnection, topic: str, id_: str) -> Producer:
    """Return a producer of somebody else's that has a transaction open."""
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, id_.encode())
    assert producer.flush(LIMIT_S) == 0
    return producer


def test_many_are_aborted_as_previewed_and_whatever_came_later_is_not(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink, name = make_sink(connection), f"many-{uuid.uuid4().hex[:8]}"
    ids = [f"{name}-{n}" for n in "abc"]
    producers = [foreign(connection, sink.topic, id_) for id_ in ids[:2]]
    for id_ in ids[:2]:
        collector.wait_for(id_, verdict="foreign", may_abort=True)
    preview = collector.preview(transaction_prefix=name, verdict="foreign")
    (condition,) = preview["conditions"]
    assert ([row["transaction"] for row in preview["rows"]], condition["confirm"]) == (ids[:2], f"{name}-")
    producers.append(foreign(connection, sink.topic, ids[2]))
    collector.wait_for(ids[2], verdict="foreign")

    assert collector.begin_run(preview, confirm=name).status_code == 409
    dry = collector.over(collector.begin_run(preview, dry_run=True, confirm="").json()["run"])
    assert (dry["outcome"], dry["done"]) == ("dry_run", 2)
    assert {sink.view(id_).state for id_ in ids} == {"Ongoing"}, "nothing was done"
    done = collector.over(collector.begin_run(preview, idempotency_key=name).json()["run"])
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["aborted"] * 2)
    assert collector.begin_run(preview, idempotency_key=name).json() == done | {"steps": []}
    # Below transaction.version 2 shutting a writer out leaves its id without a transaction.
    wait_until("both are aborted", lambda: {sink.view(id_).state for id_ in ids[:2]} <= {"CompleteAbort", "Empty"})
    assert sink.view(ids[2]).state == "Ongoing"
    assert outcomes(collector, preview["keys"][0]) == ["dry_run", "accepted"]
    row = next(r for r in collector.rows("audit") if r["audit"] == done["audits"][0])
    assert row["reason"].startswith("a test (part 1 of 1 of an order for 2: ")
    assert len(producers) == 3


def test_of_many_that_are_ordered_by_a_filter_one_that_changed_is_refused_alone(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    sink, name = make_sink(connection), f"each-{uuid.uuid4().hex[:8]}"
    ids = [f"{name}-{n}" for n in "abc"]
    producers = {id_: foreign(connection, sink.topic, id_) for id_ in ids}
    for id_ in ids:
        collector.wait_for(id_, verdict="foreign", may_abort=True)
    preview = collector.preview(transaction_prefix=name)
    (known,) = preview["summary"]
    assert (known["transactions"], known["loses_data"]) == (3, 3)
    producers[ids[1]].commit_transaction(LIMIT_S)
    collector.wait_for(ids[1], state="committed")

    for wrong in ("", name.upper(), ids[0]):
        assert collector.begin_run(preview, confirm=wrong).status_code == 409
    assert {sink.view(id_).state for id_ in (ids[0], ids[2])} == {"Ongoing"}, "nothing was done"
    done = collector.over(collector.begin_run(preview).json()["run"])
    steps = {step["key"]: step for step in done["steps"]}
    gone = next(row["key"] for row in preview["rows"] if row["transaction"] == ids[1])
    assert {key: step["outcome"] for key, step in steps.items()} == {
        key: "refused" if key == gone else "aborted" for key in preview["keys"]
    }
    assert "changed since it was looked at: it is committed now" in steps[gone]["detail"]
    wait_until(
        "the others are aborted",
        lambda: {sink.view(id_).state for id_ in (ids[0], ids[2])} <= {"CompleteAbort", "Empty"},
    )
    assert all(outcomes(collector, key)[-1] == "failed" for key in preview["keys"])
    again = collector.over(collector.begin_run(preview).json()["run"])
    assert (again["done"], again["outcomes"]) == (0, {"refused": 3})
    assert "none of these 3 may be ordered so" in again["steps"][0]["detail"]
