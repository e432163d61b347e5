"""GET /search: every transaction that history has, by what is known of it, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof
from indoubt.collector.views import search
from indoubt.lifecycle.identity import Handle
from tests.unit.collector.observations import (
    T0,
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    handle,
)
from tests.unit.collector.serve.api.served_api import VIEWER, Api, decision_seen, observed

pytestmark = pytest.mark.slow
COMMITTED = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ABORTED = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one that keeps 100 settled transactions of 420: most have left memory."""
    made, offsets = Api(Path(tmp_path_factory.mktemp("search"))), count(1_000)
    for number in range(420):
        start = 100_000 + number * 1_000
        statuses = ABORTED if number % 10 == 3 else COMMITTED
        # One in ten is aborted, every other one of these at its timeout of 60 s.
        took = 61_000 if number % 20 == 3 else 500
        records = [
            broker_record(
                status,
                start + (0 if status is BrokerStatus.ONGOING else took),
                transaction=f"billing-{number % 7}",
                producer_id=500 + number % 7,
                start=start,
                # The broker's timeout fences the producer: it takes the next epoch.
                epoch=5 if took > 60_000 and status is not BrokerStatus.ONGOING else 4,
                # As in the log: an end has no partitions.
                partitions=(f"invoices-{number % 3}",) if status is BrokerStatus.ONGOING else (),
            )
            for status in statuses
        ]
        made.current.observe([observed(next(offsets), record) for record in records])
    made.current.observe([decision_seen(decided(30, handle("ip-count-0-1", epoch=9), at=600_000, batch=99))])
    make_branches(made, offsets)
    made.store.flushed()
    yield made
    made.store.close()


BRANCHES = [Handle.from_json({**database_handle().to_json(), "transaction": f"xid-{number}"}) for number in range(450)]


def make_branches(made: Api, offsets: Iterator[int]) -> None:
    """Have a database list 450 branches of others: two in three are gone again, the first ones have left memory."""
    for number, of in enumerate(BRANCHES):
        at = 2_000_000 + number * 1_000
        made.current.observe([observed(next(offsets), branch_listed(of, at))])
        if number % 3:
            made.current.observe([observed(next(offsets), branch_gone(of, BranchProof.NO_MARKER, at + 500))])


def found(api: Api, query: str = "") -> list[dict[str, Any]]:
    """Return all pages of a search, 50 rows each."""
    rows: list[dict[str, Any]] = []
    after = ""
    for _ in range(100):
        answer = api.client.get(f"/api/v1/search?limit=50&{query}{after}", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        rows += answer.json()["rows"]
        if answer.json()["next"] is None:
            assert answer.json()["more"] == 0
            return rows
        assert answer.json()["more"] == 1
        after = f"&after={answer.json()['next']}"
    raise AssertionError("the pages have no end")


def test_every_transaction_of_history_is_found_once_newest_first(api: Api) -> None:
    rows = found(api)
    assert len(rows) == len({row["key"] for row in rows}) == 873
    starts = [row["opened_at_ms"] for row in rows]
    assert starts == sorted(starts, reverse=True)
    assert len(api.rows("transactions?all=true&limit=1000")) < 873, "most have left memory"


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("transaction=billing-3", 60),
        ("transaction=ILLING", 0),
        ("transaction=lling-3", 60),
        ("pipeline=billing", 420),
        ("pipeline=bill", 0),
        ("pipeline=ip-count", 1),
        ("transaction=xid-1", 111),
        ("transaction=xid-&outcome=open", 150),
        ("transaction=xid-&outcome=aborted", 300),
        ("transaction=xid-&outcome=committed", 0),
        ("transaction=xid-&topic=invoices", 0),
        (f"since_ms={T0 + 2_000_000}&until_ms={T0 + 2_010_000}", 10),
        ("outcome=aborted", 343),
        ("outcome=committed", 378),
        ("outcome=open", 152),
        ("cause=timeout", 22),
        ("topic=invoices", 420),
        ("topic=invoices&outcome=aborted", 42),
        ("topic=nobody", 0),
        (f"since_ms={T0 + 100_000}&until_ms={T0 + 110_000}", 10),
        (f"since_ms={T0 + 510_000}&outcome=aborted&pipeline=billing", 1),
    ],
)
def test_what_is_asked_for_is_found_in_all_of_history(api: Api, query: str, number: int) -> None:
    assert len(found(api, query)) == number


def test_a_row_says_how_it_ended_and_why(api: Api) -> None:
    row = next(row for row in found(api, "outcome=aborted") if row["open_ms"] == 61_000)
    assert (row["state"], row["cause"], row["certainty"], row["pipeline"]) == (
        "aborted",
        "timeout",
        "certain",
        "billing",
    )
    assert row["partitions"] == ["invoices-1"]
    assert api.client.get(f"/api/v1/transactions/{quote(row['key'], safe='')}", headers=VIEWER).status_code == 200
    managed = found(api, "pipeline=ip-count")[0]
    assert (managed["batch"], managed["rows"], managed["cause"]) == (41, 100, None)


@pytest.mark.long
def test_each_branch_that_is_found_has_an_answer_of_its_own(api: Api) -> None:
    rows = found(api, "transaction=xid-")
    in_memory = [row for row in rows if api.current.transactions.find(row["key"]) is not None]
    assert 0 < len(in_memory) < len(rows) == 450
    for row in rows:
        answer = api.client.get(f"/api/v1/transactions/{quote(row['key'], safe='')}", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["transaction"], answer.json()["state"]) == (row["transaction"], row["state"])


def test_a_group_finds_what_wrote_where_it_reads(fresh_api: Api) -> None:
    record = broker_record(BrokerStatus.ONGOING, 5, transaction="writer", producer_id=77, partitions=("orders-3",))
    fresh_api.current.observe([observed(900, record)])
    fresh_api.store.flushed()
    assert [row["transaction"] for row in fresh_api.rows("search?group=readers")] == ["writer"]
    assert fresh_api.rows("search?group=readers&topic=sink") == []
    unknown = fresh_api.client.get("/api/v1/search?group=nobody", headers=VIEWER)
    assert (unknown.status_code, "consumer group 'nobody'" in unknown.text) == (422, True)
    assert [row["transaction"] for row in fresh_api.rows("search?group=readers&topic=orders")] == ["writer"]


def test_a_search_that_takes_long_goes_on_with_the_next_page(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BUDGET_S", 0.0)
    monkeypatch.setattr(search, "RECORDS_OF_EACH", 1)
    monkeypatch.setattr(search, "RECORDS_AT_ONCE", 40)
    monkeypatch.setattr(search, "JOINED_AT_ONCE", 5)
    first = api.client.get("/api/v1/search?cause=timeout", headers=VIEWER).json()
    assert (len(first["rows"]), first["more"]) < (22, 1)
    assert first["next"] is not None
    assert len(found(api, "cause=timeout")) == 22


@pytest.mark.parametrize(
    "query", ["outcome=x", "cause=x", "limit=0", "limit=1001", "after=x", "since_ms=-1", "since_ms=x"]
)
def test_a_search_for_what_there_is_not_says_what_it_takes(api: Api, query: str) -> None:
    assert api.client.get(f"/api/v1/search?{query}", headers=VIEWER).status_code == 422
