"""The API's tables: columns, filters, order, pages."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from indoubt.collector.records.formats.flink_records import (
    Committable,
    FlinkCheckpoint,
    FlinkCommittables,
    FlinkKind,
    FlinkStatus,
)
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from tests.unit.collector.observations import PREFIX, T0, broker_record, handle
from tests.unit.collector.serve.api.served_api import VIEWER, Api, observed

BLOCKED_COLUMNS = (
    "topic partition last_stable_offset high_watermark hidden holder_key holder_transaction application holder_producer_id "
    "holder_producer_epoch holder_start_offset held_since_ms waiting waiting_since_ms waited_ms lag groups seen_at_ms"
)
HANGING_COLUMNS = (
    "key topic partition transaction application producer_id producer_epoch start_offset coordinator_epoch "
    "last_record_at_ms since_ms found_at_ms verdict certainty rule hidden waiting remedy may_commit may_abort loses_data confirm "
    "evidence revision"
)
COLUMNS = (
    "key resource_manager transaction producer_id producer_epoch client_transaction_version pipeline application managed "
    "checkpoint_id batch attempt slot checkpoint state verdict certainty rule opened_at_ms timeout_ms deadline_ms rows bytes "
    "partitions may_commit may_abort loses_data commit_confirmation evidence revision updated_at_ms written_again_at_ms"
)


def test_transactions_come_most_urgent_first_with_every_column(api: Api) -> None:
    rows = api.rows("transactions")
    assert [(row["verdict"], row["certainty"]) for row in rows] == [("commit it", "certain"), ("foreign", "guess")]
    assert list(rows[0]) == COLUMNS.split()
    assert [row["transaction"] for row in api.rows("transactions?all=true")][-1] == "gone"


def test_blocked_partitions_name_their_holder_and_who_waits(api: Api) -> None:
    (row,) = api.rows("blocked")
    assert list(row) == BLOCKED_COLUMNS.split()
    assert (row["topic"], row["partition"], row["hidden"], row["waiting"]) == ("orders", 3, 5, 1)
    assert row["holder_key"] == api.rows("hanging")[0]["key"]
    assert [(group["group"], group["kind"]) for group in row["groups"]] == [("readers", "waiting")]
    assert row["waited_ms"] == row["groups"][0]["waited_ms"] > 0
    assert {r["topic"] for r in api.rows("blocked?all=true")} == {"orders", "quiet"}
    assert api.rows("blocked?topic=quiet") == []


def test_hanging_transactions_say_what_to_do_and_what_to_repeat(api: Api) -> None:
    (row,) = api.rows("hanging")
    assert list(row) == HANGING_COLUMNS.split()
    assert (row["key"], row["verdict"], row["waiting"]) == ("hanging:orders-3:7:2:100", "hanging", 1)
    assert (row["may_abort"], row["loses_data"], row["confirm"]) == (True, True, "orders-3")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("verdict=foreign", 1),
        ("certainty=certain", 1),
        ("verdict=foreign&certainty=certain", 0),
        ("certainty=sure", 0),
        ("all=true&certainty=guess", 1),
        ("pipeline=ip-count", 1),
        ("resource_manager=kafka", 2),
        ("resource_manager=mysql", 0),
        ("words=IP-count%20KAFKA", 1),
        ("words=flink-orders-3", 1),
        ("words=flink%20ip-count", 0),
        ("all=true&words=gone", 1),
        ("all=true&words=gone&limit=1", 1),
        ("limit=1", 1),
    ],
)
def test_transactions_are_filtered(api: Api, query: str, found: int) -> None:
    assert len(api.rows(f"transactions?{query}")) == found


def test_counts_are_of_those_that_have_the_words(api: Api) -> None:
    assert [row["pipeline"] for row in api.rows("transaction-counts?words=flink")] == ["flink-orders"]
    assert api.rows("transaction-counts?words=gone") == []


def test_one_transaction_has_its_time_line_decision_and_handle(api: Api) -> None:
    key = api.rows("transactions")[0]["key"]
    one = api.client.get(f"/api/v1/transactions/{key}", headers=VIEWER).json()
    assert one["decision"]["offset"] == 1
    assert one["handle"] == handle().to_json()
    assert [e["at_ms"] for e in one["timeline"]] == sorted(e["at_ms"] for e in one["timeline"])
    steps = [(step["what"], step["source"]) for step in one["timeline"]]
    assert steps == [
        ("opened", "__transaction_state"),
        ("prepared", "lifecycle events"),
        ("commit decided by run-1, offset 1", "decision log"),
    ]


@pytest.mark.parametrize("name", ["two\nlines", "a/b?c#d", "\x1b[2J", "end\n"])
def test_whatever_an_owner_names_it_one_transaction_is_found(api: Api, name: str) -> None:
    api.current.observe([observed(900, broker_record(BrokerStatus.ONGOING, 5, transaction=name))])
    (key,) = (row["key"] for row in api.rows("transactions") if row["transaction"] == name)
    found = api.client.get(f"/api/v1/transactions/{quote(key, safe='')}", headers=VIEWER)
    assert (found.status_code, found.json()["transaction"]) == (200, name)


def test_the_audit_is_searched_and_asked_for_by_keys(fresh_api: Api) -> None:
    row = fresh_api.rows("transactions")[0]
    fresh_api.order(VIEWER, reason="Because of the FIRE")
    fresh_api.order(VIEWER, reason="another")
    fresh_api.store.flushed()
    key = quote(row["key"], safe="")
    for query, found in (
        ("words=of%20the%20fire", 1),
        ("words=nobody", 0),
        (f"key={key}", 2),
        (f"key=other&key={key}&words=another", 1),
        (f"key={key[:-1]}", 0),
    ):
        assert len(fresh_api.rows(f"audit?{query}")) == found, query
    first = fresh_api.client.get(f"/api/v1/audit?key={key}&limit=1", headers=VIEWER).json()
    assert first["more"] == 1
    (second,) = fresh_api.rows(f"audit?key={key}&limit=1&after={quote(first['next'])}")
    assert second["audit"] < first["rows"][0]["audit"]


def test_aborts_checkpoints_and_quarantined(api: Api) -> None:
    (abort,) = api.rows("aborts")
    assert (abort["transaction"], abort["cause"], abort["open_ms"]) == ("gone", "timeout", 61_000)
    assert api.rows("aborts?cause=fenced") == []
    assert api.rows("aborts?pipeline=gone") == [abort]
    assert api.rows("aborts?pipeline=ip-count") == []
    for path in ("aborts", "losses"):
        assert [row["key"] for row in api.rows(f"{path}?until_ms={abort['at_ms']}")] == [abort["key"]]
        assert api.rows(f"{path}?until_ms={abort['at_ms'] - 1}") == []
    (checkpoint,) = api.rows("checkpoints")
    assert (checkpoint["number"], checkpoint["state"], checkpoint["transactions"]) == (41, "completed", 1)
    ended = checkpoint["ended_at_ms"]
    assert api.rows(f"checkpoints?since_ms={ended}&until_ms={ended}") == [checkpoint]
    assert api.rows(f"checkpoints?since_ms={ended + 1}") == api.rows(f"checkpoints?until_ms={ended - 1}") == []
    api.store.flushed()
    (aside,) = api.rows("quarantined")
    assert (aside["source"], aside["offset"], aside["error"], aside["value"]) == ("test", 9, "event is not JSON", "{")


def test_a_flink_checkpoint_has_as_many_transactions_as_its_metadata_lists(fresh_api: Api) -> None:
    job, listed = "a" * 32, [Committable(f"orders-{subtask}-7", subtask, 1) for subtask in range(3)]
    fresh_api.current.observe(
        [
            observed(60, checkpoint)
            for checkpoint in (
                FlinkCheckpoint(
                    cluster="eu", job=job, job_name="orders", number=number, status=FlinkStatus.COMPLETED,
                    kind=FlinkKind.CHECKPOINT, triggered_ms=T0 + number, ended_ms=T0 + number + 5,
                )
                for number in (7, 8)
            )
        ]
    )  # fmt: skip
    read = {"cluster": "eu", "job": job, "kind": FlinkKind.CHECKPOINT, "written_ms": T0, "read_ms": T0}
    fresh_api.current.flink.see_committables(
        [
            FlinkCommittables(number=7, path="/chk-7", committables=frozenset(listed), **read),
            FlinkCommittables(number=8, path="/chk-8", committables=frozenset(listed[:1]), error="damaged", **read),
        ]
    )
    rows = {row["number"]: row["transactions"] for row in fresh_api.rows("checkpoints?pipeline=eu/orders")}
    assert rows == {7: 3, 8: None}, "a list that was not read whole says nothing"


def test_ids_are_counted_by_prefix(api: Api) -> None:
    found = {row["prefix"]: row for row in api.rows("ids")}
    assert (found["ip-count"]["ids"], found["flink-orders"]["ids"], found["gone"]["ids"]) == (1, 1, 1)
    assert (found["ip-count"]["checkpoint_ids"], found["ip-count"]["leaks"], found["ip-count"]["shared"]) == (
        1,
        False,
        False,
    )


def test_losses_say_what_is_missing_and_why(api: Api) -> None:
    (loss,) = api.rows("losses")
    assert (loss["transaction"], loss["verdict"], loss["certainty"], loss["cause"]) == (
        "gone",
        "unknown",
        "guess",
        "timeout",
    )
    assert api.rows("losses?verdict=lost") == []
    detail = api.client.get(f"/api/v1/transactions/{loss['key']}", headers=VIEWER).json()
    assert detail["loss"] == loss
    api.store.flushed()
    assert api.rows("losses?transaction=gone") == [loss]
    (open_one,) = [r for r in api.rows("transactions") if r["transaction"] == "flink-orders-3"]
    assert api.client.get(f"/api/v1/transactions/{open_one['key']}", headers=VIEWER).json()["loss"] is None


def test_batches_have_their_decision_and_all_their_parts(api: Api) -> None:
    (batch,) = api.rows("batches")
    assert (batch["pipeline"], batch["batch"], batch["verdict"], batch["decision"]) == (
        PREFIX,
        41,
        "in doubt",
        "commit",
    )
    assert [(one["state"], one["committed"]) for one in batch["transactions"]] == [("decided", False)]
    assert api.rows("batches?pipeline=nobody") == api.rows("batches?verdict=complete") == []
