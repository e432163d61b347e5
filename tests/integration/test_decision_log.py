"""The decision log's rules on the real log: racing writers, zombies, operators, and what makes it unreadable."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from demo.broker import Broker
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from lifecycle.errors import DecisionLogUnreadable, DecisionVoid
from resource_managers.decision_log import RETENTION_MS, DecisionLog
from resource_managers.kafka_connection import KafkaConnection
from tests.integration.pipeline_process import LIMIT_S, ROOT, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(connection) -> str:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection, name).ensure_topic()
    return name


def start(log: DecisionLog, life: str = "L", run: str = "one") -> int:
    return log.start_run(RunStarted(prefix="p", life=life, run=run, at_ms=1))


def ruling(attempt: int, kind: Ruling = Ruling.COMMIT, batch: int = 0, who: str = "run", life: str = "L") -> Decision:
    about = BatchAttempt(life=life, batch=batch, attempt=attempt)
    return Decision(prefix="p", about=about, ruling=kind, handles=(), who=who, at_ms=2)


def test_the_first_decision_counts_and_the_second_is_told_who_was_first(connection, topic):
    driver, operator = DecisionLog(connection, topic), DecisionLog(connection, topic)
    attempt = start(driver)
    offset = operator.decide(ruling(attempt, Ruling.ABORT, who="anna"))
    with pytest.raises(DecisionVoid, match=rf"abort by anna \(log offset {offset}\)"):
        driver.decide(ruling(attempt))
    counting = driver.read_to_end().counting(BatchAttempt(life="L", batch=0, attempt=attempt))
    assert counting is not None
    assert counting.who == "anna"


def test_a_zombie_is_told_which_run_is_newer(connection, topic):
    zombie, newer = DecisionLog(connection, topic), DecisionLog(connection, topic)
    old = start(zombie, run="old")
    new = start(newer, run="new")
    with pytest.raises(DecisionVoid, match=rf"run new \(log offset {new}\)"):
        zombie.decide(ruling(old))
    assert newer.decide(ruling(new)) > new
    assert zombie.decide(ruling(old, Ruling.ABORT, batch=1)), "an abort counts whoever is newer"


def test_of_writers_that_race_for_one_attempt_exactly_one_wins(connection, topic):
    attempt = start(DecisionLog(connection, topic))
    gate, results = threading.Barrier(4), []

    def race(name: str) -> None:
        log = DecisionLog(connection, topic)
        log.read_to_end()
        for batch in range(20):
            gate.wait(30)
            try:
                log.decide(ruling(attempt, Ruling.COMMIT if name < "c" else Ruling.ABORT, batch, name))
                results.append((batch, name))
            except DecisionVoid:
                continue

    threads = [threading.Thread(target=race, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(batch for batch, _ in results) == list(range(20))
    ledger = DecisionLog(connection, topic).read_to_end()
    for batch, winner in results:
        counting = ledger.counting(BatchAttempt(life="L", batch=batch, attempt=attempt))
        assert counting is not None
        assert counting.who == winner


def test_two_processes_that_start_runs_get_different_attempts(connection, topic):
    code = (
        "import sys\n"
        "from lifecycle.decisions import RunStarted\n"
        "from resource_managers.decision_log import DecisionLog\n"
        "from resource_managers.kafka_connection import KafkaConnection\n"
        "log = DecisionLog(KafkaConnection(sys.argv[1]), sys.argv[2])\n"
        "print(log.start_run(RunStarted(prefix='p', life='L', run=sys.argv[3], at_ms=1)))\n"
    )
    command = [sys.executable, "-c", code, connection.bootstrap_servers, topic]
    children = [
        subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("one", "two")
    ]
    offsets = {
        int(child.communicate(timeout=60)[0]): name for child, name in zip(children, ("one", "two"), strict=True)
    }
    assert len(offsets) == 2
    latest = DecisionLog(connection, topic).read_to_end().latest_run("p")
    assert latest is not None
    assert (latest[0], latest[1].run) == (max(offsets), offsets[max(offsets)])


def test_reading_goes_on_where_it_was_and_to_an_offset_not_beyond(connection, topic):
    writer, reader = DecisionLog(connection, topic), DecisionLog(connection, topic)
    first = start(writer, run="first")
    second = start(writer, run="second")
    assert reader.read_to(first).latest_run("p") == (first, RunStarted(prefix="p", life="L", run="first", at_ms=1))
    assert reader.read_to(first).next_offset == first + 1
    latest = reader.read_to_end().latest_run("p")
    assert latest is not None
    assert latest[0] == second
    assert reader.read_to_end() is reader.read_to(first), "one ledger, read on"


def test_outcomes_of_a_woken_recovery_do_not_count(connection, topic):
    log = DecisionLog(connection, topic)
    about = BatchAttempt(life="L", batch=0, attempt=start(log))
    for settled in (Settled.LOST, Settled.COMMITTED):
        log.append(Outcome(prefix="p", about=about, handle_key="k", settled=settled, who="recovery", at_ms=3))
    outcome = log.read_to_end().outcome("k")
    assert outcome is not None
    assert outcome.settled is Settled.LOST


def test_a_malformed_record_is_kept_aside_with_its_offset_and_the_rest_counts(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    raw = Producer(connection.for_librdkafka())
    for value in (b"nonsense", b"", None, b'{"version": 9}'):
        raw.produce(topic, value, partition=0)
    assert raw.flush(30) == 0
    assert log.decide(ruling(attempt)) == attempt + 5
    assert [entry.offset - attempt for entry in log.malformed] == [1, 2, 3, 4]
    assert "version 9" in log.malformed[-1].error


def test_a_fork_reads_for_itself(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    log.read_to_end()
    child = os.fork()
    if child == 0:
        try:
            log.decide(ruling(attempt, who="child"))
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    counting = log.read_to_end().counting(BatchAttempt(life="L", batch=0, attempt=attempt))
    assert counting is not None
    assert counting.who == "child"


def test_the_topic_is_made_once_with_one_partition_and_eight_weeks(connection, topic):
    DecisionLog(connection, topic).ensure_topic()
    admin = AdminClient(connection.for_librdkafka())
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 1
    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = admin.describe_configs([resource])[resource].result(30)
    assert (config["cleanup.policy"].value, config["retention.ms"].value) == ("delete", str(RETENTION_MS))


@pytest.mark.parametrize("read", [lambda log: log.read_to_end(), lambda log: log.read_to(0)], ids=["end", "offset"])
def test_a_missing_topic_is_unreadable_and_named(connection, read):
    with pytest.raises(DecisionLogUnreadable, match="'no-such-log' does not exist"):
        read(DecisionLog(connection, "no-such-log"))


def test_a_topic_with_two_partitions_is_refused(connection):
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    with pytest.raises(DecisionLogUnreadable, match="2 partitions"):
        DecisionLog(connection, name).read_to_end()


def test_an_unreachable_broker_makes_it_unreadable(monkeypatch):
    monkeypatch.setattr("resource_managers.decision_log.READ_LIMIT_S", 1.0)
    with pytest.raises(DecisionLogUnreadable, match="transaction_decisions"):
        DecisionLog(KafkaConnection("127.0.0.1:1")).read_to_end()


def test_a_log_whose_head_expired_is_read_from_its_first_record(connection, topic):
    log = DecisionLog(connection, topic)
    start(log, run="expired")
    attempt = start(log, run="kept")
    admin, head = AdminClient(connection.for_librdkafka()), TopicPartition(topic, 0, attempt)
    admin.delete_records([head])[head].result(30)
    fresh = DecisionLog(connection, topic)
    latest = fresh.read_to_end().latest_run("p")
    assert latest is not None
    assert latest[1].run == "kept"
    assert fresh.decide(ruling(attempt)) == attempt + 1


def test_the_log_is_read_as_soon_as_its_broker_is_back_also_by_who_asked_while_it_was_gone(tmp_path: Path):
    with Broker(tmp_path / "broker") as broker:
        log = DecisionLog(KafkaConnection(broker.bootstrap_servers))
        log.ensure_topic()
        attempt = start(log)
        log.read_to_end()
        told, back = [], threading.Event()

        def ask() -> None:
            while not back.wait(0.02):
                try:
                    log.read_to_end()
                except DecisionLogUnreadable as error:
                    told.append(error)

        asking = threading.Thread(target=ask)
        broker.kill()
        asking.start()
        try:
            wait_until("it was told that the broker is gone", lambda: told)
            broker.start()
        finally:
            back.set()
            asking.join(LIMIT_S)
        assert not asking.is_alive(), "the log was still being read"
        assert log.read_to_end().latest_run("p")[0] == attempt
