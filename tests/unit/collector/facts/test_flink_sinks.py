"""Flink's sinks by the ids that they use: how they name their transactions, when an id was used, what was committed when."""

from __future__ import annotations

import pytest

from indoubt.collector.facts.flink_sinks import Naming, Sink, SubtaskIds, sinks
from indoubt.collector.records.facts import BrokerIdentity, BrokerTransaction, Init
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from tests.unit.collector.observations import T0, broker_record, folded


def sink(*committed: list[int], is_pooled: bool | None = None) -> Sink:
    """Return a sink of which each subtask committed so many transactions under its ids."""
    subtasks = {number: SubtaskIds(committed=dict(enumerate(counts))) for number, counts in enumerate(committed)}
    return Sink("orders", subtasks=subtasks, is_pooled=is_pooled)


@pytest.mark.parametrize(
    ("committed", "naming"),
    [
        ([], Naming.UNKNOWN),
        ([[1, 1]], Naming.UNKNOWN),
        ([[1, 1], [1, 1]], Naming.UNKNOWN),
        ([[1, 1, 1]], Naming.INCREMENTING),
        ([[1], [1, 1, 1]], Naming.INCREMENTING),
        ([[2]], Naming.POOLING),
        ([[2, 2, 1]], Naming.POOLING),
        ([[2, 1], [2]], Naming.POOLING),
        ([[2, 2, 1, 1]], Naming.INCREMENTING),
        ([[2, 2, 1, 1, 1]], Naming.INCREMENTING),
        ([[9, 1]], Naming.UNKNOWN),
    ],
)
def test_a_sink_is_pooled_where_most_ids_committed_more_than_one(committed: list[list[int]], naming: Naming) -> None:
    found = sink(*committed)
    assert found.naming is naming
    assert found.naming is naming, "asked again"


def test_what_checkpoints_say_of_its_naming_counts_more_than_its_ids() -> None:
    assert sink([2, 2], is_pooled=False).naming is Naming.INCREMENTING
    assert sink([1, 1, 1], is_pooled=True).naming is Naming.POOLING


def test_an_id_was_taken_last_at_the_newest_of_its_times() -> None:
    ids = SubtaskIds()
    for at_ms in (5, 9, 7):
        ids.take(1, at_ms)
    assert (ids.taken_ms, sorted(ids.takes[1])) == ({1: 9}, [5, 7, 9])


def ended(id_: str, status: BrokerStatus, at: int = 500) -> BrokerTransaction:
    state = folded(broker_record(BrokerStatus.ONGOING, 0, transaction=id_), broker_record(status, at, transaction=id_))
    return state.broker[BrokerIdentity(id_, 0, T0)]


def test_each_sink_has_its_own_ids_and_what_was_committed_under_them() -> None:
    others = {"payments": 1, "unasked-0-1": 1}
    taken = [Init(at_ms=90, producer_id=1, producer_epoch=0), Init(at_ms=70, producer_id=1, producer_epoch=1)]
    found = sinks(
        starts={"orders-0-1": 10, "orders-1-2": 20, "bills-0-1": 30, **others},
        commits={"orders-0-1": 4, "bills-0-1": 1, "payments": 9, "unasked-0-1": 9},
        inits={"orders-0-1": taken, "orders-0-7": taken[:1], "payments": taken, "unasked-0-9": taken, "strange": taken},
        prefixes=["orders", "bills", "silent"],
        timed=[
            ended("orders-0-1", BrokerStatus.PREPARE_COMMIT),
            ended("orders-1-2", BrokerStatus.PREPARE_ABORT),
            ended("orders-5-5", BrokerStatus.PREPARE_COMMIT),
            ended("payments", BrokerStatus.PREPARE_COMMIT),
        ],
    )
    assert found.keys() == {"orders", "bills", "silent"}
    orders, bills = found["orders"], found["bills"]
    assert {number: ids.taken_ms for number, ids in orders.subtasks.items()} == {0: {1: 90, 7: 90}, 1: {2: 20}}
    assert sorted(orders.subtasks[0].takes[1]) == [10, 70, 90]
    assert (orders.subtasks[0].committed, orders.subtasks[1].committed) == ({1: 4}, {})
    assert orders.commits == [(T0, T0 + 500, 1)]
    assert (bills.subtasks[0].taken_ms, bills.subtasks[0].committed, bills.commits) == ({1: 30}, {1: 1}, [])
    assert found["silent"].subtasks == {}
