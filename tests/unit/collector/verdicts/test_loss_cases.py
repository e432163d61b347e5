"""What the question "was data lost?" is asked with, and which committed transactions it is asked of again."""

from __future__ import annotations

from dataclasses import replace

from indoubt.collector.facts.eviction import drop_transaction
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import Observation, OperatorOrder
from indoubt.collector.verdicts.loss_cases import clues, committed_and_written_again
from tests.unit.collector.flink_observations import checkpoint
from tests.unit.collector.observations import T0, broker_record, folded, only_view
from tests.unit.collector.verdicts.case_tables import table
from tests.unit.collector.verdicts.loss_observations import BEFORE, COMMITS, OVER, restored, taken, transaction

HANDLE = "kafka:sink-0-3:3:4"
COMMITTED, ABORTED = transaction(3, 21_500, 40_000, committed=True), transaction(3, 21_500, 40_000)


def ordered(action: str = "commit", key: str = f"{HANDLE}@{T0 + 21_500}") -> OperatorOrder:
    return OperatorOrder(key=key, action=action, who="anna", at_ms=T0 + 39_000, audit=1)


@table(
    "orders, action",
    [
        ("none", [], None),
        ("by its key", [ordered()], "commit"),
        ("before its start was known", [ordered("abort", HANDLE)], "abort"),
        ("both", [ordered("abort", HANDLE), ordered()], "commit"),
        ("about an earlier one of the id", [ordered("abort", f"{HANDLE}@{T0}")], None),
    ],
)
def test_an_order_about_it_is_found(orders: list[OperatorOrder], action: str | None) -> None:
    state = folded(*COMMITTED, taken(95_000), *orders)
    found = clues(state, only_view(*COMMITTED))
    assert (found.order.action if found.order is not None else None) == action
    assert [init.at_ms for init in found.inits] == [T0 + 95_000]
    assert clues(folded(), only_view(*COMMITTED)).inits == ()


SHOP = [
    broker_record(BrokerStatus.ONGOING, 0, transaction="shop-writer"),
    broker_record(BrokerStatus.COMPLETE_COMMIT, 900, transaction="shop-writer"),
    broker_record(BrokerStatus.EMPTY, 5_000, transaction="shop-writer", start=None, partitions=(), epoch=5),
    ordered(key=f"kafka:shop-writer:0:4@{T0}"),
]
OF_TEAM = "team:sink-0-3"
WITH_COLON = [
    *(replace(each, transaction=OF_TEAM) for each in [*COMMITTED, taken(95_000)]),  # type: ignore[type-var]
    ordered(key=f"kafka:{OF_TEAM}:3:4@{T0 + 21_500}"),
]
BELOW, GONE = restored(2, 90_000), [OVER, *BEFORE, checkpoint(3)]
ITSELF = ["sink-0-3"]


@table(
    "seen, since, found",
    [
        ("an order committed it, its id is taken", [*COMMITTED, ordered(), taken(95_000)], 0, ITSELF),
        ("the order came before its start was known", [*COMMITTED, ordered(key=HANDLE), taken(95_000)], 0, ITSELF),
        ("its id is used again", [*COMMITTED, ordered(), *transaction(3, 50_000, 51_000, moved=1)], 0, ITSELF),
        ("its id is taken since then", [*COMMITTED, ordered(), taken(95_000)], 94_999, ITSELF),
        ("its id was taken before that", [*COMMITTED, ordered(), taken(95_000)], 95_000, []),
        ("its id was taken as it ended", [*COMMITTED, ordered(), taken(40_000)], 0, []),
        ("its id is not taken", [*COMMITTED, ordered()], 0, []),
        ("its job committed it", [*COMMITTED, taken(95_000)], 0, []),
        ("an order to abort", [*COMMITTED, ordered("abort"), taken(95_000)], 0, []),
        ("an order about an earlier one", [*COMMITTED, ordered(key=f"{HANDLE}@{T0}"), taken(95_000)], 0, []),
        ("it was aborted all the same", [*ABORTED, ordered(), taken(95_000)], 0, []),
        ("an id of another form", SHOP, 0, []),
        ("an id with a colon", WITH_COLON, 0, [OF_TEAM]),
        # A restore below its checkpoint writes it again, whoever committed it, and each is named once.
        ("restored below it", [*COMMITS, *COMMITTED, *GONE, BELOW], 90_000, ITSELF),
        ("restored below it before that", [*COMMITS, *COMMITTED, *GONE, BELOW], 90_001, []),
        ("restored below it, and ordered and taken", [*COMMITS, *COMMITTED, *GONE, BELOW, ordered(), taken(95_000)], 0,
            ITSELF),
        ("aborted, and restored below it", [*COMMITS, *ABORTED, *GONE, BELOW], 0, []),
        ("its commit is not over", [*COMMITS, *COMMITTED[:2], *GONE, BELOW], 0, []),
    ],
)  # fmt: skip
def test_what_may_be_written_again(seen: list[Observation], since: int, found: list[str]) -> None:
    again = committed_and_written_again(folded(*seen), T0 + since if since else 0)
    assert [identity.transaction for identity in again] == found


def test_an_id_whose_newest_transaction_left_memory_is_as_if_not_taken() -> None:
    state = folded(*COMMITTED, ordered(), *transaction(3, 50_000, 51_000, moved=1))
    drop_transaction(state, state.latest_of_id["sink-0-3"])
    assert committed_and_written_again(state) == []
