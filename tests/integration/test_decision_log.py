"""The decision log's rules on the real log: racing writers, zombies, operators, and what makes it unreadable."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from demo.broker import Broker
from demo.kafka_cluster import KafkaCluster
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from indoubt.lifecycle.errors import DecisionLogUnreadable, DecisionVoid, SettingsError
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import LIMIT_S, ROOT, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(connection) -> str:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection, name).ensure_topic()
    return name


def start(log: DecisionLog, checkpoint_id: str = "L", run: str = "one") -> int:
    return log.start_run(RunStarted(prefix="p", checkpoint_id=checkpoint_id, run=run, at_ms=1))


def ruling(
    attempt: int, kind: Ruling = Ruling.COMMIT, batch: int = 0, who: str = "run", checkpoint_id: str = "L"
) -> Decision:
    batch_attempt = BatchAttempt(checkpoint_id=checkpoint_id, batch=batch, attempt=attempt)
    return Decision(prefix="p", batch_attempt=batch_attempt, ruling=kind, handles=(), who=who, at_ms=2)


def test_the_first_decision_counts_and_the_second_names_it(connection, topic):
    driver, operator = DecisionLog(connection, topic), DecisionLog(connection, topic)
    attempt = start(driver)
    offset = operator.decide(ruling(attempt, Ruling.ABORT, who="anna"))
    with pytest.raises(DecisionVoid, match=rf"abort by anna \(log offset {offset}\)"):
        driver.decide(ruling(attempt))
    counting = driver.read_to_end().counting(BatchAttempt(checkpoint_id="L", batch=0, attempt=attempt))
    assert counting is not None
    assert counting.who == "anna"


def test_a_zombies_error_names_the_newer_run(connection, topic):
    zombie, newer = DecisionLog(connection, topic), DecisionLog(connection, topic)
    old = start(zombie, run="old")
    new = start(newer, run="new")
    with pytest.raises(DecisionVoid, match=rf"run new \(log offset {new}\)"):
        zombie.decide(ruling(old))
    assert newer.decide(ruling(new)) > new
    assert zombie.decide(ruling(old, Ruling.ABORT, batch=1)), "an abort counts whoever is newer"


def test_a_zombies_error_names_the_newer_run_of_its_checkpoint_id(connection, topic):
    zombie = DecisionLog(connection, topic)
    old = start(zombie, run="old")
    renamed = RunStarted(prefix="p2", checkpoint_id="L", run="new", at_ms=1)
    new = DecisionLog(connection, topic).start_run(renamed)
    with pytest.raises(DecisionVoid, match=rf"run new \(log offset {new}\) of the same checkpoint, with prefix 'p2'"):
        zombie.decide(ruling(old))


def test_a_batch_below_the_last_decided_one_names_the_later_one(connection, topic):
    log = DecisionLog(connection, topic)
    log.decide(ruling(start(log), batch=4))
    with pytest.raises(DecisionVoid, match="batch 4 of the same checkpoint was decided before"):
        log.decide(ruling(start(log), batch=3))
    with pytest.raises(DecisionVoid, match="the log has no such run"):
        log.decide(ruling(999, checkpoint_id="M"))


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
        counting = ledger.counting(BatchAttempt(checkpoint_id="L", batch=batch, attempt=attempt))
        assert counting is not None
        assert counting.who == winner


def test_two_processes_that_start_runs_get_different_attempts(connection, topic):
    code = (
        "import sys\n"
        "from indoubt.lifecycle.decisions import RunStarted\n"
        "from indoubt.resource_managers.topics.decision_log import DecisionLog\n"
        "from indoubt.resource_managers.kafka.connection import KafkaConnection\n"
        "log = DecisionLog(KafkaConnection(sys.argv[1]), sys.argv[2])\n"
        "print(log.start_run(RunStarted(prefix='p', checkpoint_id='L', run=sys.argv[3], at_ms=1)))\n"
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
    assert reader.read_to(first).latest_run("p") == (
        first,
        RunStarted(prefix="p", checkpoint_id="L", run="first", at_ms=1),
    )
    assert reader.read_to(first).next_offset == first + 1
    latest = reader.read_to_end().latest_run("p")
    assert latest is not None
    assert latest[0] == second
    assert reader.read_to_end() is reader.read_to(first), "one ledger, read on"


def test_outcomes_of_a_woken_recovery_do_not_count(connection, topic):
    log = DecisionLog(connection, topic)
    batch_attempt = BatchAttempt(checkpoint_id="L", batch=0, attempt=start(log))
    for settled in (Settled.LOST, Settled.COMMITTED):
        log.append(
            Outcome(
                prefix="p", batch_attempt=batch_attempt, handle_keys=("k",), settled=settled, who="recovery", at_ms=3
            )
        )
    outcome = log.read_to_end().outcome("k")
    assert outcome is not None
    assert outcome.settled is Settled.LOST


def test_a_malformed_record_is_quarantined_and_the_rest_counts(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    raw = Producer(connection.for_librdkafka())
    for value in (b"nonsense", b"", None, b'{"version": "9"}'):
        raw.produce(topic, value, partition=0)
    assert raw.flush(30) == 0
    assert log.decide(ruling(attempt)) == attempt + 5
    assert [entry.offset - attempt for entry in log.malformed] == [1, 2, 3, 4]
    assert "version '9'" in log.malformed[-1].error


@pytest.mark.parametrize("newer", [b'{"version": 2, "type": "decision"}', b'{"version": 1, "type": "promise"}'])
def test_what_a_newer_program_wrote_makes_it_unreadable_for_good(connection, topic, newer):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    log.read_to_end()
    raw = Producer(connection.for_librdkafka())
    raw.produce(topic, newer, partition=0)
    assert raw.flush(30) == 0
    said = rf"at offset {attempt + 1} what a newer program wrote .*Run the newer program"
    for reader in (log, log, DecisionLog(connection, topic)):
        with pytest.raises(DecisionLogUnreadable, match=said):
            reader.read_to_end()
        with pytest.raises(DecisionLogUnreadable, match=said):
            reader.decide(ruling(attempt))


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
    counting = log.read_to_end().counting(BatchAttempt(checkpoint_id="L", batch=0, attempt=attempt))
    assert counting is not None
    assert counting.who == "child"


def test_the_topic_is_made_once_with_one_partition_and_forgets_nothing(connection):
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection, name).ensure_topic(replication_factor=1, min_insync_replicas=1)
    DecisionLog(connection, name).ensure_topic()
    admin = AdminClient(connection.for_librdkafka())
    assert len(admin.list_topics(timeout=30).topics[name].partitions) == 1
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = admin.describe_configs([resource])[resource].result(30)
    told = {
        key: config[key].value for key in ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas")
    }
    assert told == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": "1",
    }
    assert config["min.insync.replicas"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value


@pytest.mark.long
def test_a_log_is_made_while_one_of_two_brokers_has_not_heard_of_it(tmp_path):
    with KafkaCluster(tmp_path / "cluster", brokers=2, min_isr=1) as cluster:
        connection = KafkaConnection(cluster.bootstrap_servers)
        # Each broker hears of a topic at a moment of its own. Asked only once, 2 of 60 were not made on a quiet machine.
        names = [f"decisions-{number}" for number in range(150)]
        for name in names:
            DecisionLog(connection, name).ensure_topic()
        assert set(names) <= AdminClient(connection.for_librdkafka()).list_topics(timeout=30).topics.keys()


@pytest.mark.parametrize(
    "config", [{"retention.ms": "604800000"}, {"retention.bytes": "1000000"}, {"cleanup.policy": "compact"}]
)
def test_a_log_that_forgets_by_itself_is_refused_with_the_mend(connection, config):
    name, (key, value) = f"decisions-{uuid.uuid4().hex[:8]}", *config.items()
    admin = AdminClient(connection.for_librdkafka())
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    admin.create_topics([NewTopic(name, 1, 1, config=forever | config)])[name].result(30)
    log = DecisionLog(connection, name)
    with pytest.raises(SettingsError, match=f"has {key}={value}: .*--entity-name {name} --add-config") as refused:
        log.ensure_topic()
    mend = dict(pair.split("=") for pair in str(refused.value).rpartition(" ")[2].split(","))
    alter = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in mend.items()]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=alter)
    admin.incremental_alter_configs([resource])[resource].result(30)

    def is_taken() -> bool:
        # The broker answers before it knows the change itself.
        try:
            log.ensure_topic()
        except SettingsError:
            return False
        return True

    wait_until("the log is taken once its topic is mended", is_taken)


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
    monkeypatch.setattr("indoubt.resource_managers.topics.decision_log_topic.ANSWER_LIMIT_S", 1.0)
    with pytest.raises(DecisionLogUnreadable, match="transaction_decisions"):
        DecisionLog(KafkaConnection("127.0.0.1:1")).read_to_end()


def cut_before(connection, topic: str, offset: int) -> None:
    """Delete the log's head, as a retention does."""
    admin, head = AdminClient(connection.for_librdkafka()), TopicPartition(topic, 0, offset)
    admin.delete_records([head])[head].result(30)


def test_a_log_whose_head_is_gone_is_unreadable_never_void(connection, topic):
    log = DecisionLog(connection, topic)
    attempt = start(log)
    log.decide(ruling(attempt))
    cut_before(connection, topic, attempt + 1)
    fresh = DecisionLog(connection, topic)
    with pytest.raises(DecisionLogUnreadable, match=f"before offset {attempt + 1} are gone, and no snapshot stands"):
        fresh.read_to_end()
    with pytest.raises(DecisionLogUnreadable, match="no snapshot stands"):
        fresh.decide(ruling(attempt, batch=1))
    assert log.decide(ruling(attempt, batch=2)), "who read it before knows what was there"
    cut_before(connection, topic, attempt + 4)
    with pytest.raises(DecisionLogUnreadable, match=f"before offset {attempt + 4} are gone"):
        DecisionLog(connection, topic).read_to_end()


def make_anew(connection: KafkaConnection, topic: str) -> None:
    admin = AdminClient(connection.for_librdkafka())
    admin.delete_topics([topic])[topic].result(30)
    wait_until("the topic is gone", lambda: topic not in admin.list_topics(timeout=30).topics)
    DecisionLog(connection, topic).ensure_topic()


@pytest.mark.parametrize("read", [lambda log, _: log.read_to_end(), lambda log, run: log.decide(ruling(run, batch=1))])
def test_a_recreated_log_that_outgrew_its_reader_is_unreadable(connection, topic, read):
    """Whoever reads it from its start finds no run that may decide."""
    log = DecisionLog(connection, topic)
    attempt = start(log)
    log.decide(ruling(attempt))
    make_anew(connection, topic)
    other = DecisionLog(connection, topic)
    for number in range(4):
        other.start_run(RunStarted(prefix=f"other-{number}", checkpoint_id=f"M{number}", run="r", at_ms=1))
    for _ in range(2):
        with pytest.raises(DecisionLogUnreadable, match="was recreated"):
            read(log, attempt)
    assert DecisionLog(connection, topic).read_to_end().last_decided_batch("L") is None


def test_a_log_that_was_made_anew_is_unreadable_for_who_read_it(connection, topic, monkeypatch):
    monkeypatch.setattr("indoubt.resource_managers.topics.decision_log_reader.SETTLING_S", 0.2)
    log = DecisionLog(connection, topic)
    for _ in range(3):
        start(log)
    log.read_to_end()
    make_anew(connection, topic)
    with pytest.raises(DecisionLogUnreadable, match="lost its end, or was recreated"):
        log.read_to_end()


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that may be killed, and that makes topics by itself."""
    with Broker(tmp_path_factory.mktemp("broker"), settings={"auto.create.topics.enable": "true"}) as broker:
        yield broker


def test_reading_makes_no_log_where_brokers_make_topics_by_themselves(own_broker):
    connection = KafkaConnection(own_broker.bootstrap_servers)
    admin = AdminClient(connection.for_librdkafka())
    for read in (lambda log: log.read_to_end(), lambda log: log.read_to(0)):
        with pytest.raises(DecisionLogUnreadable, match="does not exist: a pipeline makes it when it starts"):
            read(DecisionLog(connection, "by-itself"))
    # Asked for by its name it is made, which shows that this broker does so.
    admin.list_topics("asked-for", timeout=30)
    wait_until("the topic that was asked for", lambda: "asked-for" in admin.list_topics(timeout=30).topics)
    assert "by-itself" not in admin.list_topics(timeout=30).topics


@pytest.mark.long
def test_the_log_is_read_as_soon_as_its_broker_is_back(own_broker):
    log = DecisionLog(KafkaConnection(own_broker.bootstrap_servers))
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
    own_broker.kill()
    asking.start()
    try:
        wait_until("it was told that the broker is gone", lambda: told)
        own_broker.start()
    finally:
        back.set()
        asking.join(LIMIT_S)
    assert not asking.is_alive(), "the log was still being read"
    assert log.read_to_end().latest_run("p")[0] == attempt
