"""Lists of aborts and losses are the same whether memory has all of them, some, or history alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation, Observed
from indoubt.collector.serve.api import listings
from indoubt.collector.serve.api.listings import ListQuery
from indoubt.collector.serve.api.paging import Page
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views import undone_in_history
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.decisions import Ruling, Settled
from tests.unit.collector.flink_recordings import transaction_records
from tests.unit.collector.observations import (
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    handle,
    outcome,
    run_started,
)
from tests.unit.collector.serve.api.served_api import decision_seen, observed
from tests.unit.collector.verdicts.loss_observations import GONE, RESTORED

EVERYTHING, LITTLE = 10_000, 10
LATER_MS = 600_000_000
List = Callable[[CurrentState, Store, ListQuery], Page]


def aborts(current: CurrentState, store: Store, query: ListQuery, *causes: str, since_ms: int = 0) -> Page:
    return listings.aborts(current, store, query, causes=causes, since_ms=since_ms)


def losses(current: CurrentState, store: Store, query: ListQuery, *verdicts: str, since_ms: int = 0) -> Page:
    return listings.losses(current, store, query, verdicts=verdicts, transaction=None, since_ms=since_ms)


def ended(id_: str, at: int, how: str, *, producer_id: int = 7, epoch: int = 4, **fields: Any) -> list[Observation]:
    """Return the records of a transaction that was open for a second; ``how``: commit, client or timeout."""
    first, last = (
        (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
        if how == "commit"
        else (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
    )
    took, moved = (60_000, 1) if how == "timeout" else (1_000, 0)
    named: dict[str, Any] = {"transaction": id_, "producer_id": producer_id, "start": at, **fields}
    return [
        broker_record(BrokerStatus.ONGOING, at, epoch=epoch, **named),
        broker_record(first, at + took, epoch=epoch + moved, **named),
        # The end is written a while after it began: another transaction may end in between.
        broker_record(last, at + took + 700, epoch=epoch + moved, **named),
    ]


def story() -> list[Observed]:
    """Return transactions of each kind, undone and committed, and behind them so many that memory lets all of them go."""
    seen: list[Observation] = [*transaction_records("orders-eu"), *GONE, *RESTORED]
    for number in range(12):
        at = number * 10_000
        seen += ended("billing", at, "client" if number % 3 else "commit", producer_id=50)
        seen += ended(f"shipping-{number}", at + 500, "timeout", producer_id=60 + number)
        # At the same time as another.
        seen += ended(f"twin-{number}", at + 500, "timeout", producer_id=80 + number)
        seen += ended(
            "streams", at + 300, "commit" if number < 6 else "timeout", producer_id=99, partitions=("__consumer_offsets-3",)
        )  # fmt: skip
    numbers, offsets, found = count(), count(1), [decision_seen(run_started(0))]
    for batch in range(6):
        at, mine = batch * 20_000, handle(f"ip-count-0-{batch % 2}", batch, 0, batch % 2)
        rolled_back, lost = batch == 2, batch == 4
        ruling = Ruling.ABORT if rolled_back else Ruling.COMMIT
        found.append(decision_seen(decided(next(offsets), mine, at=at + 300, ruling=ruling, batch=batch)))
        how = "client" if rolled_back else "timeout" if lost else "commit"
        for one in ended(mine.transaction, at, how, producer_id=batch % 2, epoch=batch):
            found.append(observed(next(numbers), one))
        if lost:
            # Its replay, long after it: too late to lie beside it.
            again = handle("ip-count-0-1", 40, 0, 1)
            found.append(decision_seen(decided(next(offsets), again, at=LATER_MS // 2, batch=batch, attempt=1)))
            for one in ended(again.transaction, LATER_MS // 2, "commit", producer_id=1, epoch=40):
                found.append(observed(next(numbers), one))
            found.append(decision_seen(outcome(next(offsets), again, Settled.COMMITTED, at=LATER_MS // 2 + 2_000)))
        elif not rolled_back:
            found.append(decision_seen(outcome(next(offsets), mine, Settled.COMMITTED, at=at + 2_000)))
    branch = database_handle()
    seen += [branch_listed(branch, at=1_000), branch_gone(branch, BranchProof.TOMBSTONE, at=33_000)]
    for number in range(5 * LITTLE):
        later = database_handle(nonce=f"{number:08x}")
        seen += ended(f"later-{number}", LATER_MS + number, "commit", producer_id=1_000 + number)
        seen += [branch_listed(later, at=LATER_MS), branch_gone(later, BranchProof.COMMITTED, at=LATER_MS + number)]
    return [*found, *(observed(next(numbers), one) for one in seen)]


@contextmanager
def collector(directory: Path, kept: int, *, is_restarted: bool = False) -> Iterator[tuple[CurrentState, Store]]:
    directory.mkdir(exist_ok=True)
    with closing(Store(directory / "history.duckdb")) as store:
        current = CurrentState(store, settled_kept=kept, checkpoints_kept=100)
        current.see_decision_log(DecisionLogStatus.READABLE)
        current.observe(story())
        store.flushed()
        if is_restarted:
            current = CurrentState(store, settled_kept=kept, checkpoints_kept=100)
            current.load()
            current.see_decision_log(DecisionLogStatus.READABLE)
        yield current, store


Collector = tuple[CurrentState, Store]


@pytest.fixture(scope="module")
def collectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Collector]]:
    """Return one that has all of the story in memory, one that has little of it, and one that was restarted; none is changed."""
    kept = {"much": EVERYTHING, "evicted": LITTLE, "restarted": LITTLE}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                collector(tmp_path_factory.mktemp(name), number, is_restarted=name == "restarted")
            )
            for name, number in kept.items()
        }


def all_pages(which: List, current: CurrentState, store: Store, query: ListQuery, most: int = 1_000) -> list[Any]:
    rows: list[Any] = []
    for _ in range(most):
        page = which(current, store, query)
        rows += page.rows
        assert len(page.rows) <= query.limit
        if page.next is None:
            return rows
        query = replace(query, after=page.next)
    raise AssertionError("it has no end")


@pytest.mark.parametrize("name", ["evicted", "restarted"])
@pytest.mark.parametrize("limit", [3, 50, 1_000])
@pytest.mark.parametrize("which", [aborts, losses], ids=["aborts", "losses"])
def test_a_list_is_the_same_with_little_memory(
    collectors: dict[str, Collector], which: List, limit: int, name: str
) -> None:
    expected = which(*collectors["much"], ListQuery(limit=1_000))
    assert expected.next is None
    current, store = collectors[name]
    with current.reading() as state:
        assert not any(each.transaction in ("billing", "streams", "shipping-3") for each in state.broker)
    assert all_pages(which, current, store, ListQuery(limit=limit)) == list(expected.rows)
    assert len({row.key for row in expected.rows}) == len(expected.rows) > 45


@pytest.mark.parametrize(
    ("which", "wanted"),
    [(aborts, ["client"]), (aborts, ["timeout", "client"]), (losses, ["harmless"]), (losses, ["lost", "unknown"])],
)
@pytest.mark.parametrize("pipeline", [None, "billing", "ip-count", "orders-eu"])
def test_filters_select_the_same(
    collectors: dict[str, Collector], which: Any, wanted: list[str], pipeline: str | None
) -> None:
    since_ms = 1_795_000_030_000 if pipeline is None else 0
    query = ListQuery(limit=4, pipeline=pipeline)

    def asked(current: CurrentState, store: Store, query: ListQuery) -> Page:
        page: Page = which(current, store, query, *wanted, since_ms=since_ms)
        return page

    expected = asked(*collectors["much"], replace(query, limit=1_000)).rows
    assert all_pages(asked, *collectors["evicted"], query) == list(expected)
    assert pipeline is not None or expected


def test_a_page_ends_in_time_and_the_next_goes_on(
    collectors: dict[str, Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undone_in_history, "BUDGET_S", -1.0)
    page = aborts(*collectors["evicted"], ListQuery(limit=2), "client")
    assert page.next is not None
    found = all_pages(lambda *asked: aborts(*asked, "client"), *collectors["evicted"], ListQuery(limit=2))
    assert {row.cause.value for row in found} == {"client"}
    assert len(found) == 8 + 1


def test_of_history_no_more_than_so_many_are_put_together_at_once(
    collectors: dict[str, Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undone_in_history, "AT_ONCE", 5)
    page = aborts(*collectors["evicted"], ListQuery(limit=500))
    assert (len(page.rows), page.more) == (5, 1)
    assert len(all_pages(aborts, *collectors["evicted"], ListQuery(limit=500))) > 45


def test_a_page_that_memory_fills_asks_no_history(
    collectors: dict[str, Collector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = aborts(*collectors["much"], ListQuery(limit=500)).rows
    # Of what was undone half has left memory.
    with collector(tmp_path, 5 * LITTLE + 30) as (current, store):
        monkeypatch.setattr(undone_in_history, "AT_ONCE", 5)
        with monkeypatch.context() as without:
            without.delattr(undone_in_history, "_part")
            page = aborts(current, store, ListQuery(limit=500))
        assert 5 <= len(page.rows) < len(expected)
        assert page.next is not None
        assert all_pages(aborts, current, store, ListQuery(limit=500)) == list(expected)
