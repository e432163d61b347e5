"""The command line against a running collector and a real broker: nothing is done without --yes, and the exit code tells."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from benchmarks.prepared import leave_prepared
from demo.broker import Broker
from indoubt.lifecycle.rows.order_request import MAX_KEYS
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, VIEWER, CollectorProcess, running
from tests.integration.command_line_process import Ended, command, started
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.integration.pipeline_process import read_committed
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def collector(pipeline_collector: CollectorProcess) -> CollectorProcess:
    return pipeline_collector


@pytest.mark.long
def test_a_batch_is_settled_and_an_old_key_is_answered_as_before(
    collector: CollectorProcess, connection: KafkaConnection, lifecycle_topic: str
) -> None:
    pipeline = ReportedPipeline(connection, lifecycle_topic)
    handles = [pipeline.prepare(b"row-%d" % slot, slot=slot, batch=7) for slot in (0, 1)]
    pipeline.decide(*handles, batch=7)
    rows = [collector.wait_for(h.transaction, verdict="commit it", may_commit=True) for h in handles]

    shown = command(collector, "transactions", "--pipeline", pipeline.prefix, "--verdict", "commit it", token=VIEWER)
    assert shown.code == 0
    assert all(row["key"] in shown.out for row in rows)
    settle = ("settle-batch", pipeline.prefix, "7")
    assert command(collector, *settle, token=VIEWER).code == 1, "a viewer orders nothing, not even a dry run"
    dry = command(collector, *settle)
    assert (dry.code, "EndTxn(commit)" in dry.out, "--yes" in dry.err) == (0, True, True)
    assert pipeline.visible() == [], "nothing is done without --yes"

    done = command(collector, *settle, "--yes", "--reason", "frozen", "--idempotency-key", pipeline.prefix, "--json")
    assert done.code == 0, done
    assert [step["outcome"] for step in done.answer["steps"]] == ["committed", "committed"]
    wait_until("both rows are visible", lambda: pipeline.visible() == [b"row-0", b"row-1"])
    again = command(collector, *settle, "--yes", "--reason", "frozen", "--idempotency-key", pipeline.prefix, "--json")
    assert (again.code, again.answer) == (0, done.answer)
    over = command(collector, *settle)
    assert (over.code, "is to be settled" in over.err) == (1, True)
    audit = command(collector, "audit", "--limit", "20")
    assert (audit.code, audit.out.count("frozen")) == (0, 1)


@pytest.mark.long
def test_many_are_aborted_by_a_filter_in_two_steps(collector: CollectorProcess, connection: KafkaConnection) -> None:
    sink, name = make_sink(connection), f"left-{uuid.uuid4().hex[:8]}"
    producers = []
    for id_ in (f"{name}-1", f"{name}-2"):
        producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce(sink.topic, b"never committed")
        assert producer.flush(LIMIT_S) == 0
        producers.append(producer)
        collector.wait_for(id_, verdict="foreign", may_abort=True)
    words = ("abort", "--filter", f"transaction-prefix={name}", "--filter", "verdict=foreign")
    dry = command(collector, *words)
    assert dry.code == 0, dry
    assert f"--confirm takes '{name}-'" in dry.err
    fingerprint = fingerprint_of(dry)
    yes = ("--yes", "--reason", "their application is gone", "--fingerprint", fingerprint)
    unconfirmed = command(collector, *words, *yes)
    assert (unconfirmed.code, "'confirm'" in unconfirmed.err) == (1, True)
    assert command(collector, *words, *yes[:3]).code == 2, "without a fingerprint nobody says what was seen"
    assert {sink.view(f"{name}-{n}").state for n in (1, 2)} == {"Ongoing"}
    done = command(collector, *words, *yes, "--confirm", f"{name}-", "--json")
    assert (done.code, done.answer["outcome"]) == (0, "accepted"), done
    for n in (1, 2):
        collector.wait_for(f"{name}-{n}", state="aborted")
    changed = command(collector, *words, *yes, "--confirm", f"{name}-", "--json")
    assert (changed.code, changed.answer["outcomes"]) == (1, {"refused": 2})
    assert (command(collector, *words).code, "means no transaction" in command(collector, *words).err) == (1, True)
    aborts = command(collector, "aborts", "--since", "1h", "--cause", "operator")
    assert (aborts.code, name in aborts.out) == (0, True)
    assert len(producers) == 2


def fingerprint_of(dry: Ended) -> str:
    """Return the fingerprint that a run without --yes shows."""
    return dry.err.partition("fingerprint: ")[2].split()[0]


def number_of(collector: CollectorProcess, prefix: str) -> int:
    """Return how many open transactions the collector knows whose ids begin so."""
    return sum(row["transaction"].startswith(prefix) for row in collector.rows("transactions?limit=10000"))


@pytest.mark.long
def test_more_than_one_order_takes_are_aborted_by_a_filter(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    prefix, number = f"gone-{uuid.uuid4().hex[:8]}", MAX_KEYS + 5
    topic = make_sink(connection).topic
    leave_prepared(connection, topic, prefix=prefix, checkpoint_id=uuid.uuid4().hex, attempt=1, count=number)
    words = ("abort", "--filter", f"transaction-prefix={prefix}", "--json")
    wait_until("all are known", lambda: number_of(collector, prefix) == number)
    dry = command(collector, *words)
    assert (dry.code, f"{number:,} of {number:,} transactions" in dry.err) == (0, True), dry.err
    fingerprint = fingerprint_of(dry)
    yes = ("--yes", "--reason", "its job is gone", "--fingerprint", fingerprint, "--idempotency-key", prefix)
    unconfirmed = command(collector, *words, *yes)
    assert (unconfirmed.code, f"takes '{prefix}-' in 'confirm'" in unconfirmed.err) == (1, True), unconfirmed.err
    done = command(collector, *words, *yes, "--confirm", f"{prefix}-")
    assert (done.code, done.answer["outcome"], len(done.answer["audits"])) == (0, "accepted", 5), done.err
    assert [step["outcome"] for step in done.answer["steps"]] == ["aborted"] * number
    again = command(collector, *words, *yes, "--confirm", f"{prefix}-")
    assert (again.code, again.answer["audits"]) == (0, done.answer["audits"])


@pytest.mark.long
def test_an_order_by_filter_goes_on_where_its_command_is_killed(
    collector: CollectorProcess, connection: KafkaConnection
) -> None:
    prefix, number = f"lost-{uuid.uuid4().hex[:8]}", MAX_KEYS + 5
    sink = make_sink(connection)
    leave_prepared(connection, sink.topic, prefix=prefix, checkpoint_id=uuid.uuid4().hex, attempt=1, count=number)
    words = ("abort", "--filter", f"transaction-prefix={prefix}", "--json")
    wait_until("all are known", lambda: number_of(collector, prefix) == number)
    yes = ("--yes", "--reason", "its job is gone", "--fingerprint", fingerprint_of(command(collector, *words)))
    yes += ("--confirm", f"{prefix}-", "--idempotency-key", prefix)
    process = started(collector, *words, *yes)
    wait_until("the collector has begun", lambda: runs_of(collector, prefix))
    process.kill()
    process.wait(LIMIT_S)
    (row,) = runs_of(collector, prefix)
    over = collector.over(row["run"])
    assert (over["done"], over["halted"], len(over["audits"])) == (number, "", 5)
    wait_until("none is open", lambda: number_of(collector, prefix) == 0)
    done = command(collector, *words, *yes)
    assert (done.code, done.answer) == (0, over), done.err
    reasons = [row["reason"] for row in collector.rows("audit?limit=5")]
    what = f"an order for 1,005: transaction prefix {prefix}"
    assert reasons == [f"its job is gone (part {n} of 5 of {what})" for n in range(5, 0, -1)]
    assert not read_committed(connection, sink.topic), "all was aborted"


def runs_of(collector: CollectorProcess, prefix: str) -> list[dict[str, Any]]:
    """Return the orders by filter about ids that begin so, no dry runs."""
    rows = collector.rows("orders/runs")
    return [row for row in rows if row["filter"].get("transaction_prefix") == prefix and not row["dry_run"]]


@pytest.mark.long
def test_a_collector_that_is_killed_in_the_middle_tells_what_it_did_not_send(
    broker: Broker, connection: KafkaConnection, tmp_path: Path
) -> None:
    prefix, number = f"cut-{uuid.uuid4().hex[:8]}", MAX_KEYS + 5
    sink = make_sink(connection)
    leave_prepared(connection, sink.topic, prefix=prefix, checkpoint_id=uuid.uuid4().hex, attempt=1, count=number)
    with running(broker.bootstrap_servers, tmp_path) as process:
        wait_until("all are known", lambda: number_of(process, prefix) == number)
        run = process.begin_run(process.preview(transaction_prefix=prefix)).json()["run"]
        wait_until("a part is sent", lambda: process.get(f"orders/runs/{run}")["parts_sent"])
        process.kill()
        process.start()
        row = process.get(f"orders/runs/{run}?steps=true")
        assert (row["is_over"], row["halted"]) == (True, "The collector ended before all was sent.")
        assert 0 < row["sent"] < number
        audit = process.rows("audit?limit=1")[0]
        unsent = number - row["sent"]
        assert audit["detail"].endswith(f"For {unsent:,} of 1,005 transactions nothing was sent")
        wait_until("what was sent is aborted, and no more", lambda: number_of(process, prefix) == unsent)
        assert len(audit["keys"]) == unsent
        assert process.stop_run(run).json()["halted"] == row["halted"]


def test_decided_transactions_are_committed_by_a_filter_in_two_steps(
    collector: CollectorProcess, connection: KafkaConnection, lifecycle_topic: str
) -> None:
    pipeline = ReportedPipeline(connection, lifecycle_topic)
    handles = [pipeline.prepare(b"row-%d" % slot, slot=slot, batch=9) for slot in (0, 1)]
    pipeline.decide(*handles, batch=9)
    for one in handles:
        collector.wait_for(one.transaction, verdict="commit it", may_commit=True)
    words = ("commit", "--filter", f"pipeline={pipeline.prefix}", "--filter", "verdict=commit it")
    dry = command(collector, *words)
    assert (dry.code, dry.out.count("EndTxn(commit)")) == (0, 2), dry
    fingerprint = fingerprint_of(dry)
    yes = ("--yes", "--reason", "its driver is frozen", "--idempotency-key", f"all-of-{pipeline.prefix}", "--json")
    other = command(collector, *words, *yes, "--fingerprint", "of-another-set")
    assert (other.code, "this preview is not kept" in other.err) == (1, True)
    assert pipeline.visible() == [], "nothing is done for another set"
    done = command(collector, *words, *yes, "--fingerprint", fingerprint)
    assert (done.code, done.answer["outcome"]) == (0, "accepted"), done
    assert [step["outcome"] for step in done.answer["steps"]] == ["committed", "committed"]
    wait_until("both rows are visible", lambda: pipeline.visible() == [b"row-0", b"row-1"])
    for one in handles:
        collector.wait_for(one.transaction, state="committed")
    again = command(collector, *words, *yes, "--fingerprint", fingerprint)
    assert (again.code, again.answer["steps"]) == (0, done.answer["steps"])
    audit = command(collector, "audit", "--limit", "20")
    assert audit.out.count("its driver is frozen (part 1 of 1 of an order for 2: ") == 1


def test_a_collector_that_is_not_there_is_exit_code_3(collector: CollectorProcess) -> None:
    gone = command(collector, "status", url="http://127.0.0.1:1")
    assert (gone.code, gone.out) == (3, "")
    assert command(collector, "status").code == 0
    assert command(collector, "status", token="nonsense-nonsense").code == 1
    assert command(collector, "explode").code == 2
