"""Single objects: a transaction that has left memory, its raw events, those before it, and one topic-partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.views import past_transactions
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.events import EventType
from indoubt.lifecycle.rows.events import EARLIER_COUNTED
from tests.unit.collector.observations import broker_record, decided, handle, outcome, transaction_event
from tests.unit.collector.serve.api.served_api import VIEWER, Api, decision_seen, event_seen, observed

pytestmark = pytest.mark.slow
OURS = "kafka:ip-count-0-1:0:4@1795000000000"
GONE = "kafka:gone:8:4@1795000000000"
LATER_FROM_MS = 100_000


def ended(number: int, transaction: str, start: int, producer_id: int = 0, epoch: int = 5) -> list[Any]:
    """Return the observations of a transaction that is committed a second after its start."""
    steps = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
    named = {"transaction": transaction, "producer_id": producer_id, "epoch": epoch, "start": start}
    return [
        observed(number * 10 + step, broker_record(status, start + 1_000, **named)) for step, status in enumerate(steps)
    ]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one that keeps 100 settled transactions and has seen 300 later ones: the first have left memory."""
    made = Api(Path(tmp_path_factory.mktemp("objects")))
    sibling = handle("ip-count-1-1", producer_id=1, slot=1)
    made.current.observe(
        [
            decision_seen(decided(20, handle(epoch=6), sibling, at=91_000, batch=42)),
            *(observed(30 + n, broker_record(status, 1_500)) for n, status in
              enumerate((BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT))),
            decision_seen(outcome(21, handle(), Settled.COMMITTED)),
            event_seen(50, transaction_event(EventType.TRANSACTION_COMMITTED, 1_501)),
            event_seen(51, transaction_event(EventType.TRANSACTION_OPENED, 3, handle("ip-count-1-1", producer_id=1))),
            *ended(8, "ip-count-0-1", 90_000, epoch=6),
        ]
    )  # fmt: skip
    for number in range(300):
        made.current.observe(ended(100 + number, f"other-{number}", LATER_FROM_MS + number, producer_id=900 + number))
    made.store.flushed()
    yield made
    made.store.close()


def get(api: Api, path: str) -> Any:
    answer = api.client.get(f"/api/v1/{path}", headers=VIEWER)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_transaction_that_has_left_memory_is_answered_from_history(api: Api) -> None:
    assert api.current.transactions.find(OURS) is None, "the test is about one that has left memory"
    one = get(api, f"transactions/{quote(OURS, safe='')}")
    assert (one["state"], one["verdict"], one["batch"], one["decision"]["offset"]) == ("committed", "settled", 41, 1)
    assert one["handle"] == handle().to_json()
    assert {step["source"] for step in one["timeline"]} == {
        "test, lifecycle events",
        "test",
        "lifecycle events",
        "decision log",
    }


def test_an_aborted_one_that_has_left_memory_keeps_its_answer_about_loss(api: Api) -> None:
    assert api.current.transactions.find(GONE) is None
    one = get(api, f"transactions/{quote(GONE, safe='')}")
    assert (one["state"], one["opened_at_ms"]) == ("aborted", 1795000000000)
    assert (one["loss"]["verdict"], one["loss"]["cause"]) == ("unknown", "timeout")


@pytest.mark.parametrize("key", ["kafka:nobody:1:1@5", "kafka:gone:8:5@7", "mysql:a:0:0", "nonsense", ""])
def test_what_neither_memory_nor_history_has_is_not_found(api: Api, key: str) -> None:
    for below in ("", "/events", "/earlier"):
        answer = api.client.get(f"/api/v1/transactions/{quote(key, safe='')}{below}", headers=VIEWER)
        assert answer.status_code == 404, answer.text


def test_the_raw_events_of_a_transaction_are_its_own_and_its_batchs(api: Api) -> None:
    rows = api.rows(f"transactions/{quote(OURS, safe='')}/events")
    assert [row["at_ms"] for row in rows] == sorted(row["at_ms"] for row in rows)
    assert {(row["kind"], row["what"]) for row in rows} == {
        ("broker", "Ongoing"),
        ("broker", "PrepareCommit"),
        ("broker", "CompleteCommit"),
        ("lifecycle", "transaction.prepared"),
        ("lifecycle", "transaction.committed"),
        ("lifecycle", "checkpoint.completed"),
        ("decision log", "decision: commit by run-1"),
        ("decision log", "outcome: committed by run-1"),
    }
    (decision,) = (row for row in rows if row["what"].startswith("decision"))
    assert (decision["source"], decision["offset"]) == ("decisions", 1)
    assert decision["raw"]["handles"] == [handle().to_json()]
    first = get(api, f"transactions/{quote(OURS, safe='')}/events?limit=3")
    rest = get(api, f"transactions/{quote(OURS, safe='')}/events?limit=100&after={first['next']}")
    assert (first["rows"] + rest["rows"], first["more"]) == (rows, len(rows) - 3)


def test_orders_about_a_transaction_are_among_its_raw_events(fresh_api: Api) -> None:
    key = fresh_api.rows("transactions")[0]["key"]
    fresh_api.order(VIEWER, reason="because of the test")
    fresh_api.store.flushed()
    rows = fresh_api.rows(f"transactions/{quote(key, safe='')}/events")
    (order,) = (row for row in rows if row["kind"] == "orders")
    assert (order["what"], order["raw"]["reason"]) == ("commit refused, by ben", "because of the test")
    assert order["raw"]["keys"] == [key]


def test_earlier_transactions_of_an_id_come_newest_first(api: Api) -> None:
    key = quote("kafka:ip-count-0-1:0:6@1795000090000", safe="")
    (row,) = api.rows(f"transactions/{key}/earlier")
    assert (row["key"], row["state"], row["open_ms"], row["batch"], row["rows"]) == (OURS, "committed", 1_500, 41, 100)
    assert get(api, f"transactions/{quote(OURS, safe='')}/earlier") == {"rows": [], "more": 0, "next": None}


def test_a_long_list_of_earlier_transactions_has_pages(fresh_api: Api) -> None:
    for number in range(7):
        fresh_api.current.observe(ended(100 + number, "often", number * 10_000))
    fresh_api.store.flushed()
    key = quote("kafka:often:0:5@1795000060000", safe="")
    first = get(fresh_api, f"transactions/{key}/earlier?limit=4")
    rest = get(fresh_api, f"transactions/{key}/earlier?limit=4&after={first['next']}")
    assert (first["more"], rest["more"], rest["next"]) == (2, 0, None)
    starts = [row["opened_at_ms"] - 1795000000000 for row in (*first["rows"], *rest["rows"])]
    assert starts == [50_000, 40_000, 30_000, 20_000, 10_000, 0]


def test_of_very_many_earlier_transactions_some_are_counted(fresh_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those of one window are found without a look at the rest of history; behind it are fewer than are counted.
    monkeypatch.setattr(past_transactions, "WINDOWS_MS", (105_000,))
    for number in range(131):
        fresh_api.current.observe(ended(100 + number, "often", number * 1_000))
    fresh_api.store.flushed()
    pages, after = [], ""
    for _ in range(4):
        key = quote("kafka:often:0:5@1795000130000", safe="")
        pages.append(get(fresh_api, f"transactions/{key}/earlier?limit=40{after}"))
        after = f"&after={pages[-1]['next']}"
    assert [page["more"] for page in pages] == [90, 50, 10, 0]
    assert get(fresh_api, f"transactions/{key}/earlier?limit=5")["more"] == EARLIER_COUNTED
    starts = [row["opened_at_ms"] - 1795000000000 for page in pages for row in page["rows"]]
    assert starts == [number * 1_000 for number in reversed(range(130))]


def test_a_partition_has_its_readers_what_is_open_and_what_has_ended(fresh_api: Api) -> None:
    one = get(fresh_api, "partitions/sink/0")
    assert {row["transaction"] for row in one["open"]} == {"ip-count-0-1", "flink-orders-3"}
    assert [(row["transaction"], row["state"]) for row in one["ended"]] == [("gone", "aborted")]
    held = get(fresh_api, "partitions/orders/3")
    assert (held["readers"]["waiting"], len(held["hanging"]), held["open"]) == (1, 1, [])
    assert fresh_api.client.get("/api/v1/partitions/nobody/7", headers=VIEWER).status_code == 404
    assert fresh_api.client.get("/api/v1/partitions/sink/x", headers=VIEWER).status_code == 422
