"""Orders about transactions whose end marker a partition never got: a commit marker only where the end is proven."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from demo.broker import Broker
from indoubt.collector.act.orders.hanging import HangingOrders
from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.collector.act.orders.plan import OrderContext
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from indoubt.collector.records.observations import DecisionSeen, Observed, Position
from indoubt.collector.records.orders import Order, StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.hanging_transactions import Remedy, Suspect, key_of
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.coordinators import Coordinators
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import BatchAttempt, Decision, Ruling, RunStarted
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import KafkaPartitions, OpenProducer
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import LIMIT_S, Sink, make_sink, wait_until
from tests.integration.past_the_coordinator import IMPLICIT, PLAIN, SETTINGS, Writer, transaction_log
from tests.integration.pipeline_process import read_committed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.fixture(scope="module", params=[2, pytest.param(1, marks=pytest.mark.long)])
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def connection(level: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnection]:
    broker = Broker(tmp_path_factory.mktemp("broker"), settings=SETTINGS)
    broker.transaction_version = level
    with broker:
        yield KafkaConnection(broker.bootstrap_servers)


@pytest.fixture
def sink(connection: KafkaConnection) -> Sink:
    return make_sink(connection)


WRITERS_OF_VERSION_2 = pytest.mark.parametrize("level", [2], indirect=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """What a collector makes of a hanging transaction, and its orders, without its observers' pace."""

    sink: Sink
    current: CurrentState

    def learn(self, *decisions: DecisionSeen) -> None:
        """Read the coordinator's log to its end, then these records of the decision log."""
        self.current.observe(list(transaction_log(self.sink.connection)))
        at = Position(source="decisions", partition=0, offset=0)
        self.current.observe([Observed(position=at, observation=one) for one in decisions])

    def suspect(self, producer: OpenProducer) -> Suspect:
        """Return the transaction as hanging."""
        brokers = KafkaPartitions(self.sink.connection, "")
        doubted = Coordinators(brokers, self.current).doubts([producer], brokers.layout())[key_of(producer)]
        assert doubted is not None
        return Suspect(producer=producer, doubt=doubted, since_ms=now_ms() - 5_000, found_ms=now_ms())

    def order(self, suspect: Suspect, action: Action) -> StepOutcome:
        """Carry an order out. Raises OrderRefused."""
        manager = self.sink.manager()
        brokers = KafkaPartitions(self.sink.connection, "")
        findings = PartitionFindings(at_ms=now_ms(), hanging=(suspect,))
        orders = HangingOrders(lambda: findings, self.current, manager, brokers)
        participants = Participants({"kafka": KafkaParticipant(manager)})
        context = OrderContext(
            current=self.current, participants=participants, log=DecisionLog(self.sink.connection), limit_s=LIMIT_S
        )
        order = Order(
            action=action,
            keys=(suspect.key,),
            seen={suspect.key: suspect.revision},
            reason="a test",
            dry_run=False,
            confirm="",
        )
        ((outcome, _),) = orders.plan(context, [suspect], order, "anna").execute()
        return outcome


@pytest.fixture
def collector(sink: Sink, tmp_path: Path) -> Iterator[Collector]:
    store = Store(tmp_path / "history.duckdb")
    yield Collector(sink=sink, current=CurrentState(store, settled_kept=10_000, checkpoints_kept=10, limits=Limits()))
    store.close()


def application(sink: Sink, id_: str = "") -> Producer:
    """Return a librdkafka application of others, which has just taken its id."""
    settings = {"transactional.id": id_ or f"billing {uuid.uuid4().hex[:8]}", "linger.ms": 0, "log_level": 0}
    producer = Producer(sink.connection.for_librdkafka(**settings))
    producer.init_transactions(LIMIT_S)
    return producer


def passed_by(sink: Sink, *, commit: bool, version: int) -> tuple[Writer, OpenProducer]:
    """Return a transaction of others that its coordinator has ended, and what it left open on partition 0."""
    id_ = f"billing {uuid.uuid4().hex[:8]}"
    producer = application(sink, id_)
    writer = Writer.now(sink.connection, id_)
    if version == IMPLICIT:
        writer.produce(sink.topic, 0, b"first", IMPLICIT)
        writer.end(commit=commit, version=5)
    else:
        producer.begin_transaction()
        producer.produce(sink.topic, b"first", partition=0)
        assert producer.flush(LIMIT_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(LIMIT_S)
        wait_until("its coordinator is done", lambda: writer.described().state.startswith("Complete"))
    writer.produce(sink.topic, 0, b"ghost")
    (opened,) = writer.open_on(sink.topic)
    return writer, opened


def visible(sink: Sink) -> list[bytes]:
    return sorted(read_committed(sink.connection, sink.topic).elements())


@WRITERS_OF_VERSION_2
def test_a_commit_is_ordered_where_each_transaction_has_its_epoch(sink: Sink, collector: Collector) -> None:
    _, opened = passed_by(sink, commit=True, version=IMPLICIT)
    collector.learn()
    suspect = collector.suspect(opened)
    assert (suspect.doubt.rule, suspect.doubt.remedy) == (6, Remedy.COMMIT_MARKER)
    with pytest.raises(OrderRefused, match="can only be committed"):
        collector.order(suspect, Action.ABORT)
    assert collector.order(suspect, Action.COMMIT) is StepOutcome.COMMITTED
    wait_until("its row is visible", lambda: visible(sink) == [b"first", b"ghost"])


@WRITERS_OF_VERSION_2
def test_an_abort_is_ordered_where_each_transaction_has_its_epoch(sink: Sink, collector: Collector) -> None:
    _, opened = passed_by(sink, commit=False, version=IMPLICIT)
    collector.learn()
    suspect = collector.suspect(opened)
    assert (suspect.doubt.rule, suspect.doubt.loses_data) == (6, False)
    with pytest.raises(OrderRefused, match="can only be aborted"):
        collector.order(suspect, Action.COMMIT)
    assert collector.order(suspect, Action.ABORT) is StepOutcome.ABORTED
    assert visible(sink) == []


@WRITERS_OF_VERSION_2
def test_rows_of_two_transactions_in_one_are_not_committed(sink: Sink, collector: Collector) -> None:
    """Two markers in a row are missing: aborted rows lie before those that were committed."""
    id_ = f"billing {uuid.uuid4().hex[:8]}"
    application(sink, id_)
    aborted = Writer.now(sink.connection, id_)
    aborted.produce(sink.topic, 0, b"first", IMPLICIT)
    aborted.end(commit=False, version=5)
    committed = Writer.now(sink.connection, id_)
    committed.produce(sink.topic, 0, b"second", IMPLICIT)
    committed.end(commit=True, version=5)
    aborted.produce(sink.topic, 0, b"ghost")
    committed.produce(sink.topic, 0, b"committed")
    (opened,) = committed.open_on(sink.topic)
    assert opened.producer_epoch == committed.epoch
    collector.learn()
    suspect = collector.suspect(opened)
    assert not suspect.doubt.may_commit
    assert suspect.confirmation == id_, "an abort may lose data"


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_a_librdkafka_applications_end_proves_nothing(sink: Sink, collector: Collector, commit: bool) -> None:
    """Its epoch moves when it takes its id anew: one epoch on is the end of its next transaction."""
    writer, opened = passed_by(sink, commit=not commit, version=PLAIN)
    again = application(sink, writer.id)
    again.begin_transaction()
    again.produce(sink.topic, b"fine", partition=1)
    assert again.flush(LIMIT_S) == 0
    (again.commit_transaction if commit else again.abort_transaction)(LIMIT_S)
    wait_until("it is done", lambda: writer.described().state.startswith("Complete"))
    assert writer.described().producer_epoch == opened.producer_epoch + 1
    collector.learn()
    suspect = collector.suspect(opened)
    assert not suspect.doubt.may_commit
    assert suspect.confirmation == writer.id, "an abort may lose data"
    with pytest.raises(OrderRefused, match="can only be aborted"):
        collector.order(suspect, Action.COMMIT)
    with pytest.raises(OrderRefused, match="may lose data"):
        collector.order(suspect, Action.ABORT)
    assert visible(sink) == ([b"fine"] if commit else [b"first"])


def test_what_a_checkpoint_of_flink_lists_is_ordered_to_be_committed(sink: Sink, collector: Collector) -> None:
    """Its KafkaSink takes a new epoch for each transaction, at any version: its list names this very one."""
    writer, opened = passed_by(sink, commit=True, version=PLAIN)
    collector.learn()
    suspect = collector.suspect(opened)
    assert (suspect.doubt.rule, suspect.doubt.remedy) == (3, Remedy.MARKER), "no list was read"
    read_ms = now_ms()
    listed = FlinkCommittables(
        cluster="eu",
        job="a" * 32,
        number=3,
        path="file:///checkpoints/chk-3",
        kind=FlinkKind.CHECKPOINT,
        written_ms=read_ms,
        read_ms=read_ms,
        committables=frozenset({Committable(writer.id, opened.producer_id, opened.producer_epoch)}),
    )
    collector.current.flink.see_committables([listed])
    suspect = collector.suspect(opened)
    assert (suspect.doubt.rule, suspect.doubt.remedy) == (6, Remedy.COMMIT_MARKER)
    with pytest.raises(OrderRefused, match="can only be committed"):
        collector.order(suspect, Action.ABORT)
    assert collector.order(suspect, Action.COMMIT) is StepOutcome.COMMITTED
    wait_until("its row is visible", lambda: visible(sink) == [b"first", b"ghost"])


def test_what_was_decided_is_ordered_to_be_committed(sink: Sink, collector: Collector) -> None:
    """Our writers are below version 2 on every cluster: the decision log tells that the transaction is theirs."""
    handle = sink.prepare(b"first", b"second")
    writer = Writer.of(sink.connection, handle)
    (written,) = writer.open_on(sink.topic)
    writer.end(commit=True)
    writer.produce(sink.topic, written.partition[1], b"ghost")
    (opened,) = writer.open_on(sink.topic)
    collector.learn()
    assert not collector.suspect(opened).doubt.may_commit
    collector.learn(*decided(sink, handle))
    suspect = collector.suspect(opened)
    assert suspect.doubt.remedy is Remedy.COMMIT_MARKER
    assert collector.order(suspect, Action.COMMIT) is StepOutcome.COMMITTED
    wait_until("its row is visible", lambda: visible(sink) == [b"first", b"ghost", b"second"])


def decided(sink: Sink, handle: Handle) -> list[DecisionSeen]:
    run = RunStarted(prefix=sink.prefix, checkpoint_id="L", run="r", at_ms=1)
    decision = Decision(
        prefix=sink.prefix,
        batch_attempt=BatchAttempt(checkpoint_id="L", batch=0, attempt=0),
        ruling=Ruling.COMMIT,
        handles=(handle,),
        who="run 0",
        at_ms=2,
    )
    return [DecisionSeen(offset=0, record=run), DecisionSeen(offset=1, record=decision)]
