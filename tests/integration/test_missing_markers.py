"""A coordinator that takes end markers for written that no partition got (KAFKA-20734): found, mended by hand, and by writers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from collector.acting import Actors, KafkaActor
from collector.clock import now_ms
from collector.coordinators import Coordinators
from collector.current_state import CurrentState
from collector.hanging import Remedy, Suspect, key_of
from collector.ordering.hanging import HangingOrders
from collector.ordering.plan import Reach
from collector.orders import Action, Order, StepOutcome
from collector.partition_sights import PartitionPicture
from collector.store import Store
from collector.verdicts import Limits
from demo.broker import Broker
from lifecycle.errors import OrderRefused
from lifecycle.identity import Handle, Marker
from lifecycle.outcomes import RetryLater
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_partitions import KafkaPartitions, OpenProducer
from tests.integration.cutting_proxy import END_TXN, CuttingProxy, broker_behind_proxy
from tests.integration.kafka_fixtures import LIMIT_S, Sink, make_sink, wait_until
from tests.integration.pipeline_process import read_committed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
LONG_MS = 600_000
TRIES = 5
"""The broker passes markers by where its old session ends while it tries to write them: most times here, a race all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A broker behind a proxy that can cut it off at the very moment it has accepted the end of a transaction."""

    broker: Broker
    proxy: CuttingProxy
    connection: KafkaConnection

    def open_on(self, sink: Sink, handle: Handle) -> list[OpenProducer]:
        """Return what of the transaction is open on the sink's partitions."""
        partitions = KafkaPartitions(self.connection, "")
        layout = partitions.layout([sink.topic])
        found = partitions.open_producers(layout.leaders.keys(), layout).found.values()
        return [one for some in found for one in some if one.producer_id == handle.producer_id]

    def die_at_commit(self, sink: Sink, handle: Handle) -> None:
        """Have the broker accept the commit, die before its markers are written, and come back."""
        cut = self.proxy.at_next(END_TXN, self.broker.kill, answer_lost=True)
        outcome = sink.manager().commit([handle], [Marker(batch=0, attempt=1, life="L")], 1.0)
        assert cut.done.is_set()
        assert isinstance(outcome[0], RetryLater)
        self.broker.start()
        wait_until("its coordinator has completed it", lambda: self._is_complete(sink, handle), LIMIT_S)

    @staticmethod
    def _is_complete(sink: Sink, handle: Handle) -> bool:
        return any(view.state == "CompleteCommit" for view in sink.manager().describe([handle.transaction]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with broker_behind_proxy(tmp_path_factory.mktemp("broker")) as (broker, proxy, address):
        yield Site(broker=broker, proxy=proxy, connection=KafkaConnection(address))


@pytest.fixture(scope="module")
def passed_by(site: Site) -> tuple[Sink, Handle]:
    """Return a committed transaction whose markers were passed by, and its sink."""
    for _ in range(TRIES):
        sink = make_sink(site.connection)
        handle = sink.prepare(b"once", timeout_ms=LONG_MS)
        site.die_at_commit(sink, handle)
        if site.open_on(sink, handle):
            return sink, handle
        wait_until("the row is visible", lambda sink=sink: visible(sink) == [b"once"])
    # Every try has shown its row in the end, which is what must hold; there is nothing left here to be mended.
    pytest.skip(f"in {TRIES} tries the broker wrote all of its markers itself")


def visible(sink: Sink) -> list[bytes]:
    return sorted(read_committed(sink.connection, sink.topic).elements())


def test_it_is_found_committed_and_an_order_makes_its_rows_visible(
    site: Site, passed_by: tuple[Sink, Handle], tmp_path: Path
) -> None:
    sink, handle = passed_by
    assert visible(sink) == [], "committed for its coordinator, and hidden"
    (opened,) = site.open_on(sink, handle)
    brokers, manager = KafkaPartitions(site.connection, ""), sink.manager()
    store = Store(tmp_path / "history.duckdb")
    try:
        current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
        doubt = Coordinators(brokers, current).doubts([opened], brokers.layout())[key_of(opened)]
        assert doubt is not None
        assert (doubt.rule, doubt.remedy) == (6, Remedy.COMMIT_MARKER)
        suspect = Suspect(producer=opened, doubt=doubt, since_ms=now_ms() - 5_000, found_ms=now_ms())
        picture = PartitionPicture(at_ms=now_ms(), hanging=(suspect,))
        orders = HangingOrders(lambda: picture, current, manager, brokers)
        actors = Actors({"kafka": KafkaActor(manager)})
        reach = Reach(current=current, actors=actors, log=DecisionLog(site.connection), limit_s=LIMIT_S)
        with pytest.raises(OrderRefused, match="can only be committed"):
            orders.plan(reach, [suspect], order(suspect, Action.ABORT), "anna")
        plan = orders.plan(reach, [suspect], order(suspect, Action.COMMIT), "anna")
        assert "a commit marker on" in plan.acts[0].will
        assert plan.carry_out() == [(StepOutcome.COMMITTED, "")]
    finally:
        store.close()
    wait_until("its row is visible", lambda: visible(sink) == [b"once"])


def test_the_next_writer_of_the_slot_mends_it_and_goes_on(site: Site, passed_by: tuple[Sink, Handle]) -> None:
    sink, handle = passed_by
    # Its offsets have no marker either: without one they stay unstable, and nobody could write in this slot again.
    second = sink.prepare(b"twice", batch=1, timeout_ms=LONG_MS)
    assert type(sink.commit(second, batch=1)).__name__ == "Committed"
    wait_until("each row is visible once", lambda: visible(sink) == [b"once", b"twice"])
    assert site.open_on(sink, handle) == []


def order(suspect: Suspect, action: Action) -> Order:
    return Order(
        action=action,
        keys=(suspect.key,),
        seen={suspect.key: suspect.revision},
        reason="a test",
        dry_run=False,
        confirm="",
    )
