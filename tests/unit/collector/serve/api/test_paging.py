"""Pages: put together they are the whole table in its order, whatever stands in it and however long they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchProof, Observation, Quarantined
from indoubt.collector.serve.api import paging
from indoubt.collector.serve.api.paging import InvalidCursor, page, place_of
from indoubt.collector.views.batches import BatchVerdict, current_batches
from indoubt.collector.views.transaction_rows import urgency
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.batches import OVER
from tests.unit.collector.observations import (
    branch_gone,
    branch_listed,
    broker_record,
    database_handle,
    decided,
    event,
    handle,
    outcome,
)
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER, Api, observed

pytestmark = pytest.mark.slow


COMMIT = (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
ABORT = (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT)


def ended(number: int, ends: tuple[BrokerStatus, ...], start: int) -> list[Observation]:
    """Return a foreign transaction that has ended; some begin and end at the same moments."""
    name = f"payments-{number}"
    records = [(BrokerStatus.ONGOING, start), *((status, start + 100) for status in ends)]
    return [broker_record(status, at, transaction=name, producer_id=50, start=start) for status, at in records]


def many() -> Iterator[Observation]:
    """Yield what fills every table: ended and open, foreign and ours, in Kafka and in a database, told only, lost."""
    for number in range(40):
        yield from ended(number, COMMIT if number % 3 else ABORT, 2_000 + number * 7 % 20)
    for number in range(7):
        yield broker_record(BrokerStatus.ONGOING, 9_000, transaction=f"open-{number}", producer_id=70, start=9_000)
    for number in range(4):
        one = handle(f"ip-count-{number}-0", slot=number, producer_id=90 + number)
        branch = database_handle(nonce=f"0a1b2c3{number}", slot=number)
        yield branch_listed(branch)
        yield decided(2 + 2 * number, one, branch, batch=50 + number)
        yield outcome(3 + 2 * number, branch, Settled.COMMITTED)
        yield branch_gone(branch, BranchProof.COMMITTED)
        ends = ABORT if number == 1 else COMMIT
        for status in (BrokerStatus.ONGOING, *ends)[: 3 if number else 1]:
            yield broker_record(status, 3_000, transaction=one.transaction, producer_id=90 + number, start=100)
        yield event(EventType.CHECKPOINT_COMPLETED, 900, batch=50 + number, rows=1, duration_ms=5)
        yield Quarantined(error="event is not JSON", value="{", at_ms=number // 2)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one over all of it, with some audit rows."""
    made = Api(tmp_path_factory.mktemp("api"))
    made.current.observe([observed(100 + number, one) for number, one in enumerate(many())])
    for number in range(5):
        made.order(VIEWER if number % 2 else OPERATOR, reason=f"reason {number}", seen={})
    made.store.flushed()
    yield made
    made.store.close()


def answer(api: Api, path: str, **parameters: Any) -> Any:
    found = api.client.get(f"/api/v1/{path}", headers=VIEWER, params=parameters)
    assert found.status_code == 200, found.text
    return found.json()


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("transactions", 8),
        ("transactions?all=true", 22),
        ("transactions?all=true&resource_manager=mysql", 4),
        ("transactions?all=true&pipeline=ip-count", 8),
        ("transactions?all=true&verdict=settled", 10),
        ("aborts", 4),
        ("aborts?cause=unknown", 0),
        ("losses", 4),
        ("losses?all=true", 13),
        ("losses?verdict=harmless", 3),
        ("losses?transaction=payments-3", 1),
        ("batches", 4),
        ("batches?over=true", 2),
        ("batches?over=false", 2),
        ("checkpoints", 5),
        ("timeouts", 3),
        ("ids", 5),
        ("audit", 5),
        ("quarantined", 5),
    ],
)
def test_pages_put_together_are_the_table(api: Api, path: str, least: int, limit: int) -> None:
    path, _, query = path.partition("?")
    filters = dict(one.split("=") for one in query.split("&") if one)
    whole = answer(api, path, **filters)
    assert (whole["more"], whole["next"]) == (0, None)
    assert len(whole["rows"]) >= least
    rows: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        found = answer(api, path, limit=limit, **filters, **cursor)
        rows += found["rows"]
        assert found["more"] == len(whole["rows"]) - len(rows)
        assert len(found["rows"]) <= limit
        if found["next"] is None:
            break
        cursor = {"after": found["next"]}
    assert rows == whole["rows"]


def test_batches_that_are_over_stand_newest_first_and_with_the_others_they_are_all(api: Api) -> None:
    over, others = (answer(api, "batches", over=over)["rows"] for over in ("true", "false"))
    assert {row["verdict"] for row in over} <= set(OVER)
    assert [row["opened_at_ms"] for row in over] == sorted((row["opened_at_ms"] for row in over), reverse=True)
    whole = answer(api, "batches")["rows"]
    assert sorted(row["key"] for row in (*over, *others)) == sorted(row["key"] for row in whole)


def test_what_is_left_unjoined_is_listed_as_if_it_were_joined(api: Api) -> None:
    every = sorted(api.current.transactions.judged(settled=True), key=urgency)
    assert [row["key"] for row in api.rows("transactions?all=true")] == [one.view.key for one in every]
    batches = current_batches(api.current, lambda batch_attempt: True)
    assert {batch.verdict for batch in batches} >= {
        BatchVerdict.COMPLETE,
        BatchVerdict.ONE_SIDE_ONLY,
        BatchVerdict.IN_DOUBT,
    }
    listed = [(row["key"], row["verdict"], row["revision"]) for row in api.rows("batches")]
    assert listed == [(batch.key, batch.verdict.value, batch.revision) for batch in batches]


def test_a_page_begins_behind_its_cursor_although_that_row_is_gone() -> None:
    found = page([3, 1, 2, 5], lambda n: (n,), lambda n: {"n": n}, 2, None)
    assert ([row["n"] for row in found.rows], found.more) == ([1, 2], 2)
    after = place_of(found.next, int)
    rest = page([9, 3, 5], lambda n: (n,), lambda n: {"n": n}, 2, after)
    assert ([row["n"] for row in rest.rows], rest.more, rest.last) == ([3, 5], 1, (5,))


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", "bnVsbA", "W10", "WzEs", paging.cursor(("1",)), paging.cursor((1, 2)), paging.cursor((2**60,))],
)
def test_what_is_no_cursor_of_the_table_is_refused(api: Api, text: str) -> None:
    with pytest.raises(InvalidCursor):
        place_of(text, int)
    refused = api.client.get("/api/v1/audit", headers=VIEWER, params={"after": text})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
