"""Requests about partitions where a leader or coordinator is missing, and the remedies of hanging transactions, one by one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.hanging import HangingOrders
from indoubt.collector.act.orders.participants import KafkaParticipant, Participants
from indoubt.collector.act.orders.plan import OrderContext
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord, Observed, Position
from indoubt.collector.records.orders import Order, StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts import hanging_transactions
from indoubt.collector.verdicts.hanging_transactions import Remedy, Suspect, key_of
from indoubt.collector.verdicts.partition_state import PartitionFindings
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.coordinators import Coordinators
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import OrderRefused, Unreachable
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.partitions import TRANSACTION_STATE, KafkaPartitions, Layout, OpenProducer
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager
from indoubt.resource_managers.protocol import OpenTransactionView
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.kafka_fixtures import LIMIT_S, Sink, make_sink, wait_until

pytestmark = pytest.mark.integration
NOBODY = 99
LONG_MS = 3_600_000


@pytest.fixture
def sink(connection: KafkaConnection) -> Sink:
    return make_sink(connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A foreign transaction that is open on partition 0 of a sink, and the orders that may end it."""

    id: str
    producer: Producer
    brokers: KafkaPartitions
    current: CurrentState
    suspect: Suspect
    orders: HangingOrders
    context: OrderContext

    @property
    def layout(self) -> Layout:
        return self.brokers.layout()

    @property
    def view(self) -> OpenTransactionView | None:
        return self.brokers.describe_transactions([self.id]).found[self.id]

    def order(self, **changes: object) -> Order:
        key, revision = self.suspect.key, self.suspect.revision
        order = Order(
            action=Action.ABORT,
            keys=(key,),
            seen={key: revision},
            reason="a test",
            dry_run=False,
            confirm=self.suspect.confirmation,
        )
        return replace(order, **changes)


@pytest.fixture
def overdue(sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Return an open transaction that is taken for one whose timeout passed long ago."""
    monkeypatch.setattr(hanging_transactions, "OVERDUE_MS", -LONG_MS)
    id_ = f"billing {uuid.uuid4().hex[:8]}"
    producer = Producer(sink.connection.for_librdkafka(**{"transactional.id": id_, "linger.ms": 0}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(sink.topic, b"x", partition=0)
    assert producer.flush(LIMIT_S) == 0
    brokers = KafkaPartitions(sink.connection, "transaction_decisions")
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    current.observe([_seen(brokers.describe_transactions([id_]).found[id_])])
    layout = brokers.layout()
    (opened,) = brokers.open_producers([(sink.topic, 0)], layout).found[sink.topic, 0]
    doubted = Coordinators(brokers, current).doubts([opened], layout)[key_of(opened)]
    assert doubted is not None
    suspect = Suspect(producer=opened, doubt=doubted, since_ms=now_ms() - 5_000, found_ms=now_ms())
    broker = KafkaResourceManager(sink.connection)
    yield Opened(
        id=id_,
        producer=producer,
        brokers=brokers,
        current=current,
        suspect=suspect,
        orders=HangingOrders(lambda: PartitionFindings(at_ms=now_ms(), hanging=(suspect,)), current, broker, brokers),
        context=OrderContext(
            current=current,
            participants=Participants({"kafka": KafkaParticipant(broker)}),
            log=DecisionLog(sink.connection),
            limit_s=LIMIT_S,
        ),
    )
    store.close()


def _seen(view: OpenTransactionView | None) -> Observed:
    assert view is not None
    assert view.producer_id is not None
    assert view.producer_epoch is not None
    assert view.started_at_ms is not None
    record = BrokerRecord(
        transaction=view.transaction,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        status=BrokerStatus.ONGOING,
        start_ms=view.started_at_ms,
        update_ms=view.started_at_ms,
        timeout_ms=view.timeout_ms,
        partitions=tuple(f"{topic}-{number}" for topic, number in view.partitions),
        client_transaction_version=0,
        source="test",
    )
    return Observed(position=Position(source="test", partition=0, offset=0), observation=record)


def test_what_has_no_leader_or_one_that_is_gone_is_missing_alone(connection: KafkaConnection, sink: Sink) -> None:
    brokers = KafkaPartitions(connection, "transaction_decisions")
    layout = wait_until(
        f"{sink.topic} has leaders",
        lambda: found if (sink.topic, 1) in (found := brokers.layout()).leaders else None,
        LIMIT_S,
    )
    here, gone, nowhere = (sink.topic, 0), (sink.topic, 1), (sink.topic, 2)
    # The controller may tell of a leader before the broker knows that it is one.
    wait_until("its leader answers", lambda: here in brokers.high_watermarks([here], layout).found, LIMIT_S)
    torn = replace(layout, leaders={**layout.leaders, gone: NOBODY})
    for answers in (
        brokers.high_watermarks([here, gone, nowhere], torn),
        brokers.last_stable_offsets([here, gone, nowhere], torn),
        brokers.open_producers([here, gone, nowhere], torn),
    ):
        assert (set(answers.found), set(answers.failed)) == ({here}, {gone, nowhere})
    groups = brokers.groups(replace(layout, brokers=layout.brokers | {NOBODY}))
    assert (set(groups.found), set(groups.failed)) == (layout.brokers, {NOBODY})


def test_while_a_coordinator_is_missing_nothing_is_said_of_any_producer_id(overdue: Opened) -> None:
    layout = overdue.layout
    with pytest.raises(Unreachable, match="have no leader"):
        overdue.brokers.transactional_ids([1], replace(layout, leaderless=frozenset({(TRANSACTION_STATE, 7)})))
    moved = {
        partition: NOBODY if partition[0] == TRANSACTION_STATE else node for partition, node in layout.leaders.items()
    }
    with pytest.raises(Unreachable, match=f"broker {NOBODY}"):
        overdue.brokers.transactional_ids([1], replace(layout, leaders=moved))


def test_what_its_coordinator_still_has_open_takes_the_ordinary_abort(overdue: Opened) -> None:
    assert (overdue.suspect.doubt.rule, overdue.suspect.doubt.remedy) == (5, Remedy.ORDINARY)
    order = overdue.order()
    plan = overdue.orders.plan(overdue.context, overdue.orders.seen(order), order, "anna")
    (planned,) = plan.actions
    assert (planned.key, "EndTxn(abort)" in planned.description) == (overdue.suspect.key, True)
    assert plan.execute() == [(StepOutcome.ABORTED, "")]
    assert overdue.view is not None
    # Below transaction.version 2 shutting its writer out leaves the id without a transaction.
    ended = ("CompleteAbort", "Empty")
    wait_until("its coordinator has ended it", lambda: overdue.view and overdue.view.state in ended, LIMIT_S)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"seen": {}}, "which revision"),
        ({"seen": {"k": "other"}}, "which revision"),
        ({"action": Action.COMMIT}, "can only be aborted"),
        ({"confirm": "another"}, "may lose data: repeat"),
    ],
)
def test_what_may_not_be_ordered_is_refused(overdue: Opened, changes: dict[str, object], why: str) -> None:
    order = overdue.order(**changes)
    with pytest.raises(OrderRefused, match=why):
        overdue.orders.plan(overdue.context, overdue.orders.seen(order), order, "anna")
    assert overdue.view is not None
    assert overdue.view.state == "Ongoing"


def test_what_its_coordinator_explains_by_now_is_refused(overdue: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging_transactions, "OVERDUE_MS", LONG_MS)
    order = overdue.order()
    with pytest.raises(OrderRefused, match="has it open and will end it"):
        overdue.orders.plan(overdue.context, overdue.orders.seen(order), order, "anna")


def test_a_marker_without_an_answer_is_probed_and_not_written_again(overdue: Opened) -> None:
    as_marker = replace(overdue.suspect, doubt=replace(overdue.suspect.doubt, remedy=Remedy.MARKER))
    (planned,) = overdue.orders._plan_markers([as_marker]).actions
    assert OpenProducer.from_json(planned.target["producer"]) == overdue.suspect.producer
    probe = overdue.orders.by_kind()["marker"]
    intent = Intent(
        intent=1,
        at_ms=now_ms(),
        who="anna",
        action=Action.ABORT,
        reason="r",
        evidence=[],
        actions=(planned,),
        idempotency_key="",
        digest="",
    )
    assert probe(planned, intent)[0] is StepOutcome.UNKNOWN
    assert probe(planned, replace(intent, given_s=time.monotonic() - LONG_MS / 1000))[0] is StepOutcome.REFUSED
    assert overdue.view is not None
    assert overdue.view.state == "Ongoing"
    overdue.producer.abort_transaction(LIMIT_S)
    wait_until("it is seen ended", lambda: probe(planned, intent)[0] is StepOutcome.ABORTED, LIMIT_S)
