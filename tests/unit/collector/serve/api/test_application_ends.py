"""Commits and aborts of each application in /metrics: nothing is counted twice, and no counter ever goes down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indoubt.collector.facts import state as states
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.flink_records import FlinkCommittables, FlinkKind
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import IdExpired, Observation, Observed, Position
from indoubt.collector.serve.api.application_metrics import ApplicationEnds, Ends, PipelineLabels
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.flink_observations import job
from tests.unit.collector.observations import PREFIX, T0, broker_record, run_started

COMMIT, ABORT = BrokerStatus.COMPLETE_COMMIT, BrokerStatus.COMPLETE_ABORT


class Counted:
    """A state and the counters of a /metrics that is scraped now and then."""

    def __init__(self, current: CurrentState, most: int = 10) -> None:
        self.current, self._offset = current, 0
        self._ends = ApplicationEnds(PipelineLabels(most))

    def see(self, *observations: Observation) -> None:
        """Fold them."""
        arrived = []
        for observation in observations:
            self._offset += 1
            position = Position(source="transaction log", partition=0, offset=self._offset)
            arrived.append(Observed(position=position, observation=observation))
        self.current.observe(arrived)

    def ended(self, transaction: str, status: BrokerStatus = COMMIT, number: int = 1) -> None:
        """Let transactions of an id end, each a second after the one before."""
        for _ in range(number):
            start = self._offset * 1_000
            self.see(broker_record(status, start + 500, transaction=transaction, start=start))

    def scrape(self) -> Ends:
        """Return what a scrape shows now."""
        return self._ends.now(self.current)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    store = Store(tmp_path / "history.duckdb")
    yield Counted(CurrentState(store, settled_kept=2, checkpoints_kept=10))
    store.close()


def test_ends_are_counted_by_the_application_of_their_ids(counted: Counted) -> None:
    uuid = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab"
    counted.see(run_started())
    counted.ended(f"{PREFIX}-0-1")
    counted.ended(f"{PREFIX}-1-0", ABORT)
    for thread in (1, 2):
        counted.ended(f"shop-{uuid}-{thread}")
    counted.ended("connect-cluster-orders-0")
    counted.ended("billing-7", ABORT, 2)
    assert counted.scrape() == {
        ("indoubt pipeline", PREFIX): (1, 1),
        ("kafka streams", "shop"): (2, 0),
        ("kafka connect", "connect-cluster-orders"): (1, 0),
        ("other", "billing"): (0, 2),
    }


def test_all_of_them_are_what_the_coordinators_ended(counted: Counted) -> None:
    for number in range(30):
        counted.ended(f"app{number % 3}-{number}", ABORT if number % 5 == 0 else COMMIT)
        if number % 7 == 0:
            counted.scrape()
    shown = counted.scrape().values()
    assert (sum(one[0] for one in shown), sum(one[1] for one in shown)) == counted.current.ends() == (24, 6)


def test_what_is_seen_again_or_leaves_memory_changes_no_counter(counted: Counted) -> None:
    seen = broker_record(COMMIT, 500, transaction="shop-1")
    counted.see(broker_record(BrokerStatus.PREPARE_COMMIT, 400, transaction="shop-1"), seen, seen)
    counted.ended("shop-1", COMMIT, 20)
    with counted.current.reading() as state:
        assert len(state.broker) < 20, "the oldest have left memory"
    assert counted.scrape() == {("other", "shop"): (21, 0)}
    counted.see(IdExpired(transaction="shop-1"))
    counted.ended("bank-1", COMMIT, 20)
    assert counted.scrape()["other", "shop"] == (21, 0)


def test_a_name_that_is_known_later_moves_nothing_that_was_counted(counted: Counted) -> None:
    counted.ended("orders-0-3")
    assert counted.scrape() == {("other", "orders"): (1, 0)}
    counted.see(job())
    listing = FlinkCommittables(
        cluster="eu", job="a" * 32, number=3, path="/c/chk-3", kind=FlinkKind.CHECKPOINT, written_ms=T0, read_ms=T0,
        prefixes=frozenset({"orders"}),
    )  # fmt: skip
    counted.current.flink.see_committables([listing])
    counted.ended("orders-0-4")
    with counted.current.reading() as state:
        name = state.flink.pipeline_of("a" * 32)
    assert counted.scrape() == {("other", "orders"): (1, 0), ("flink", name): (1, 0)}


def test_only_the_first_applications_have_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    counted = Counted(CurrentState(store, settled_kept=10, checkpoints_kept=10), most=2)
    for name in ("appa", "appb", "appc", "appd"):
        counted.ended(f"{name}-1")
    counted.see(run_started())
    counted.ended(f"{PREFIX}-0-1")
    assert counted.scrape() == {
        ("other", "appa"): (1, 0),
        ("other", "appb"): (1, 0),
        ("other", "other"): (2, 0),
        ("indoubt pipeline", PREFIX): (1, 0),
    }
    store.close()


def test_between_scrapes_no_more_than_so_many_forms_of_ids_are_kept(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "MOST_FORMS", 2)
    for name in ("appa", "appb", "appc", "appd", "appa"):
        counted.ended(f"{name}-1")
    expected = {("other", "appa"): (2, 0), ("other", "appb"): (1, 0), ("other", "other"): (2, 0)}
    assert counted.scrape() == expected
    counted.ended("appc-1")
    assert counted.scrape() == {**expected, ("other", "appc"): (1, 0)}


def test_what_history_holds_is_not_counted(counted: Counted) -> None:
    counted.ended("shop-1")
    counted.current.load()
    assert counted.scrape() == {}
