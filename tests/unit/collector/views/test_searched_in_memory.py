"""A search finds the same whether memory has all of it, some, or history alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.search import SearchQuery, newest_in_memory, search
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.json_record import MAX_WHOLE_NUMBER
from indoubt.lifecycle.rows.search import SearchOutcome
from indoubt.lifecycle.verdicts import AbortCause
from tests.unit.collector.observations import T0, branch_gone, branch_listed, broker_record, database_handle
from tests.unit.collector.serve.api.served_api import observed

LITTLE, EVERYTHING = 12, 10_000
COMMIT = (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ABORT = (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)
TRANSACTIONS = 60


class Seen:
    """One history, and a memory of it."""

    def __init__(self, path: Path, settled_kept: int) -> None:
        self.store = Store(path)
        self.settled_kept = settled_kept
        self.current = self.made()
        self.offsets = count(1)

    def made(self) -> CurrentState:
        """Return a memory that knows nothing yet."""
        return CurrentState(self.store, settled_kept=self.settled_kept, checkpoints_kept=10)

    def opened(self, number: int, id_: str = "") -> None:
        """Have a transaction begin, at a time that it shares with the one after it."""
        self._see(number, (BrokerStatus.ONGOING,), id_)

    def ended(self, number: int, statuses: tuple[BrokerStatus, ...], id_: str = "") -> None:
        """Have it end. A coordinator's clock may be behind that of the one before: every fifth ends before it began."""
        self._see(number, statuses, id_, at=-500 if number % 5 == 0 else 300)

    def _see(self, number: int, statuses: tuple[BrokerStatus, ...], id_: str, at: int = 0) -> None:
        start = number // 2 * 100
        named: dict[str, Any] = {"transaction": id_ or f"billing-{number % 7}", "producer_id": 100 + number}
        is_opening = statuses == (BrokerStatus.ONGOING,)
        named |= {"start": start, "partitions": (f"invoices-{number % 3}",) if is_opening else ()}
        records = [broker_record(status, start + at + late, **named) for late, status in enumerate(statuses)]
        self.current.observe([observed(next(self.offsets), record) for record in records])

    def branch(self, number: int, *, is_gone: bool) -> None:
        """Have a database list a branch, at the time of a transaction or right after it."""
        at = number // 2 * 100 + (number % 5 != 0)
        of = Handle.from_json({**database_handle().to_json(), "transaction": f"xid-{number}"})
        self.current.observe([observed(next(self.offsets), branch_listed(of, at))])
        if is_gone:
            self.current.observe([observed(next(self.offsets), branch_gone(of, BranchProof.NO_MARKER, at + 50))])

    def restarted(self) -> CurrentState:
        """Return a memory as a restart makes it: history alone has what came before."""
        self.store.flushed()
        made = self.made()
        made.load()
        return made

    def happen(self) -> None:
        """Have it all happen: an old one stays open, and each eighth branch is still listed."""
        self.opened(0, "payments-old")
        for number in range(1, TRANSACTIONS):
            self.opened(number)
            if number % 2 == 0:
                self.branch(number, is_gone=number % 16 != 0)
            if number < TRANSACTIONS - 3:
                self.ended(number, ABORT if number % 6 == 0 else COMMIT)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[CurrentState, Store]]]:
    directory = tmp_path_factory.mktemp("searched")
    some, whole = Seen(directory / "some.duckdb", LITTLE), Seen(directory / "all.duckdb", EVERYTHING)
    for seen in (some, whole):
        seen.happen()
        seen.store.flushed()
    with some.current.reading() as state:
        first_whole_ms = state.ended.dropped_until_ms + 1
    at_the_edge = pages((some.current, some.store), 100, since_ms=first_whole_ms, until_ms=first_whole_ms + 1)
    assert at_the_edge, "a branch begins where memory begins to have all"
    yield {
        "all": (whole.current, whole.store),
        "some": (some.current, some.store),
        "restarted": (some.restarted(), some.store),
    }
    some.store.close()
    whole.store.close()


QUERIES: dict[str, dict[str, Any]] = {
    "all": {},
    "text": {"transaction": "ing-3"},
    "branches": {"transaction": "xid"},
    "pipeline": {"pipeline": "billing"},
    "topic": {"partitions": ["invoices-1"]},
    "no topic": {"partitions": []},
    "open": {"outcome": SearchOutcome.OPEN},
    "open of a topic": {"outcome": SearchOutcome.OPEN, "partitions": ["invoices-0"]},
    "committed": {"outcome": SearchOutcome.COMMITTED},
    "aborted": {"outcome": SearchOutcome.ABORTED},
    "aborted of a topic": {"outcome": SearchOutcome.ABORTED, "partitions": ["invoices-0"]},
    "cause": {"cause": AbortCause.CLIENT},
    "period": {"since_ms": T0 + 900, "until_ms": T0 + 2_500},
    "newest": {"since_ms": T0 + 2_600},
    "open since": {"outcome": SearchOutcome.OPEN, "since_ms": T0 + 100, "until_ms": T0 + 2_900},
}


def pages(of: tuple[CurrentState, Store], limit: int, **wanted: Any) -> list[tuple[int, str, str, str | None]]:
    """Return what all pages of a search hold, each of ``limit`` rows."""
    rows, after = [], None
    for _ in range(2 * TRANSACTIONS):
        page = search(*of, SearchQuery(limit=limit, after=after, **wanted))
        assert len(page.found) <= limit
        rows += [
            (found.place[0], found.view.transaction, found.view.state.value, found.cause and found.cause.value)
            for found in page.found
        ]
        if page.next_place is None:
            return rows
        after = page.next_place
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param(
            name, limit, marks=[pytest.mark.long] if limit == 1 and name not in ("cause", "open since") else []
        )
        for name in QUERIES
        for limit in (1, 7, 1_000)
    ],
)
def test_a_search_finds_the_same_wherever_it_is(
    made: dict[str, tuple[CurrentState, Store]], monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr("indoubt.collector.views.search.JOINED_AT_ONCE", 5)
    monkeypatch.setattr("indoubt.collector.views.search.RECORDS_AT_ONCE", 9)
    wanted = QUERIES[name]
    expected = pages(made["restarted"], limit, **wanted)
    assert pages(made["all"], limit, **wanted) == expected
    assert pages(made["some"], limit, **wanted) == expected
    assert bool(expected) is (name != "no topic")


def test_the_newest_need_no_look_at_transactions_of_history(
    made: dict[str, tuple[CurrentState, Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    current, store = made["some"]
    expected = pages(made["restarted"], 3)[:3]
    monkeypatch.setattr("indoubt.collector.history.transaction_sql.search_records", lambda wanted: "what is no SQL")
    assert [found.view.transaction for found in search(current, store, SearchQuery(limit=3)).found] == [
        row[1] for row in expected
    ]


def test_where_very_many_are_in_memory_history_finds_the_newest(
    made: dict[str, tuple[CurrentState, Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    current, store = made["all"]
    whole: dict[str, Any] = {
        "period": (0, MAX_WHOLE_NUMBER),
        "place": (MAX_WHOLE_NUMBER, 0, ""),
        "most": 3,
        "is_open": False,
    }
    assert len(newest_in_memory(current, store, {}, **whole)[0]) == 3
    expected = pages(made["restarted"], 7)
    monkeypatch.setattr("indoubt.collector.views.search.MOST_LOOKED_AT", 5)
    assert newest_in_memory(current, store, {}, **whole)[0] == []
    assert pages(made["all"], 7) == expected


def test_one_that_is_open_is_found_however_old_it_is(
    made: dict[str, tuple[CurrentState, Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indoubt.collector.views.search.BUDGET_S", -1.0)
    for name in ("some", "restarted"):
        found = search(*made[name], SearchQuery(transaction="old", outcome=SearchOutcome.OPEN))
        assert ([one.view.transaction for one in found.found], found.next_place) == (["payments-old"], None)


def test_what_was_open_in_a_log_that_is_gone_is_still_found(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "history.duckdb", EVERYTHING)
    for number in range(6):
        seen.opened(number)
        if number % 2:
            seen.ended(number, COMMIT)
    seen.current.forget_open_transactions()
    seen.store.flushed()
    assert len(pages((seen.current, seen.store), 2)) == 6
    assert pages((seen.current, seen.store), 2, outcome=SearchOutcome.OPEN) == []
    seen.store.close()


def test_one_whose_end_was_never_seen_is_found_after_a_restart(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "history.duckdb", EVERYTHING)
    seen.opened(1, "billing")
    seen.opened(3, "billing")
    seen.ended(3, COMMIT, "billing")
    current = seen.restarted()
    assert len(current.transactions.judged(settled=True)) == 1, "what a later one followed is not loaded"
    assert [row[:2] for row in pages((current, seen.store), 5)] == [(T0 + 100, "billing"), (T0, "billing")]
    seen.store.close()
