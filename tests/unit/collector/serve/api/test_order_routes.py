"""Orders over HTTP that need no broker: what is refused, why, and that it is written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.act.orders.audit import OrderHistory
from indoubt.collector.act.orders.plan import PlannedAction
from indoubt.collector.records import orders
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from tests.unit.collector.notify.http_receiver import wait_until
from tests.unit.collector.observations import PREFIX, broker_record, database_handle, decided
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER, Api, decision_seen, observed


@pytest.fixture
def read_only_api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path, read_only=True)
    yield made
    made.store.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "explode"},
        {"keys": []},
        {"keys": "kafka"},
        {"keys": ["a", "a"]},
        {"reason": " a "},
        {"seen": []},
        {"dry_run": "yes"},
        {"force": True},
    ],
)
def test_an_order_with_a_wrong_field_is_invalid_and_names_it(api: Api, changes: dict[str, Any]) -> None:
    answer = api.order(**changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert f"'{next(iter(changes))}'" in answer.json()["detail"]


def test_a_body_that_is_no_json_is_a_bad_request(api: Api) -> None:
    answer = api.client.post("/api/v1/orders", headers=OPERATOR, content=b"{")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_a_viewer_may_not_order_and_the_attempt_is_written_down(api: Api) -> None:
    answer = api.order(VIEWER)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    row = api.rows("audit")[0]
    assert (row["who"], row["action"], row["outcome"], row["reason"]) == ("ben", "commit", "refused", "because")


def test_an_order_that_was_cut_short_is_under_way_until_its_end_is_known(api: Api) -> None:
    history, action = OrderHistory(api.store), PlannedAction(key="kafka:a:1:1", description="EndTxn(commit)", target={})
    body = {"action": "commit", "keys": ["kafka:a:1:1"], "seen": {}, "reason": "it stands still", "dry_run": False}
    order = orders.read(body)
    intent = history.intend(order, "anna", [], [action])
    api.follow_up.watch(intent)
    (row,) = api.rows("orders/under-way")
    assert row == {
        "at_ms": intent.at_ms, "who": "anna", "action": "commit", "keys": ["kafka:a:1:1"], "reason": "it stands still",
        "audit": None,
    }  # fmt: skip
    other = PlannedAction(key="kafka:b:1:1", description="EndTxn(commit)", target={})
    later = history.intend(order, "anna", [], [action, other])
    api.follow_up.watch(replace(later, first_audit=7, unknown=frozenset({other.key})))
    assert [(row["keys"], row["audit"]) for row in api.rows("orders/under-way")] == [
        (["kafka:b:1:1"], 7),
        (["kafka:a:1:1"], None),
    ]
    assert [row["audit"] for row in api.rows("orders/under-way?key=kafka:b:1:1&key=x")] == [7]
    assert api.rows("orders/under-way?key=kafka:c:1:1") == []


def test_nobody_orders_in_read_only_mode(read_only_api: Api) -> None:
    assert read_only_api.order().status_code == 403
    assert by_filter(read_only_api).status_code == 403
    assert [row["outcome"] for row in read_only_api.rows("audit")] == ["refused"] * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seen": {}}, "'seen'"),
        ({"keys": ["kafka:x:1:1"], "seen": {}}, "not known"),
    ],
)
def test_an_order_that_is_not_safe_is_refused_with_an_audit_row(api: Api, changes: dict[str, Any], says: str) -> None:
    answer = api.order(**changes)
    assert (answer.status_code, answer.json()["code"]) == (409, "order_refused")
    assert says in answer.json()["detail"]
    assert api.rows("audit")[0]["detail"] == answer.json()["detail"]


@pytest.mark.parametrize("action", ["commit", "abort"])
def test_a_refused_order_about_a_branch_says_who_settles_it(fresh_api: Api, action: str) -> None:
    branch = database_handle()
    fresh_api.current.observe([decision_seen(decided(2, branch, batch=42))])
    row = next(r for r in fresh_api.rows("transactions") if r["resource_manager"] == "mysql")
    assert (row["key"], row["state"], row["timeout_ms"], row["producer_id"]) == (branch.key, "decided", None, None)
    answer = fresh_api.order(action=action, keys=[row["key"]], seen={row["key"]: row["revision"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "order_refused")
    assert "is held by 'mysql'" in answer.json()["detail"]
    assert fresh_api.rows("audit")[0]["outcome"] == "refused"


@pytest.mark.parametrize(
    ("key", "seen", "says"),
    [
        ("nobody/checkpoint id/1/2", None, "not known"),
        ("", "an older look", "changed since it was looked at: it is in doubt now"),
    ],
)
def test_a_batch_that_is_gone_or_changed_is_not_settled(api: Api, key: str, seen: str | None, says: str) -> None:
    key = key or api.rows("batches")[0]["key"]
    answer = api.order(action="settle", keys=[key], seen={key: seen} if seen else {})
    assert (answer.status_code, answer.json()["code"]) == (409, "order_refused")
    assert says in answer.json()["detail"]
    assert api.rows("audit")[0]["action"] == "settle"


def test_an_order_on_an_old_revision_is_refused_with_what_changed(fresh_api: Api) -> None:
    row = next(r for r in fresh_api.rows("transactions") if r["transaction"] == "ip-count-0-1")
    fresh_api.current.observe([observed(10, broker_record(BrokerStatus.PREPARE_COMMIT, 5000, epoch=5, version=2))])
    answer = fresh_api.order(keys=[row["key"]], seen={row["key"]: row["revision"]})
    assert answer.status_code == 409
    assert "it is committing now" in answer.json()["detail"]


@pytest.mark.parametrize("confirm", ["", "flink-orders", "FLINK-ORDERS-3"])
def test_what_may_lose_data_takes_the_id_typed(api: Api, confirm: str) -> None:
    row = next(r for r in api.rows("transactions") if r["verdict"] == "foreign")
    answer = api.order(action="abort", keys=[row["key"]], seen={row["key"]: row["revision"]}, confirm=confirm)
    assert answer.status_code == 409
    assert "'confirm'" in answer.json()["detail"]


def test_a_decided_transaction_is_never_aborted(api: Api) -> None:
    answer = api.order(action="abort", confirm="ip-count-0-1")
    assert answer.status_code == 409
    assert "may not be aborted" in answer.json()["detail"]


def preview(api: Api, headers: dict[str, str] = OPERATOR, **wanted: Any) -> Any:
    body = {"action": "abort", "filter": wanted}
    return api.client.post("/api/v1/orders/preview", headers=headers, json=body)


def test_a_reader_may_ask_what_a_bulk_abort_would_do(api: Api) -> None:
    answer = preview(api, VIEWER, transaction_prefix="flink-")
    assert answer.status_code == 200
    found = answer.json()
    assert [row["transaction"] for row in found["rows"]] == ["flink-orders-3"]
    (condition,) = found["conditions"]
    assert (found["keys"], condition["keys"]) == ([found["rows"][0]["key"]], found["keys"])
    assert (condition["confirm"], condition["parts"]) == ("flink-orders-3", 1)
    assert preview(api, {}, transaction_prefix="flink-").status_code == 401
    assert [one["verdict"] for one in preview(api, pipeline=PREFIX).json()["left_out"]] == ["commit it"]


def by_filter(api: Api, headers: dict[str, str] = OPERATOR, **changes: Any) -> Any:
    """Order the abort of the foreign transaction by its filter; it changes after its preview, so no broker is asked."""
    shown = preview(api, transaction_prefix="flink-").json()
    changed = broker_record(BrokerStatus.PREPARE_ABORT, 5000, transaction="flink-orders-3", producer_id=7, version=2)
    api.current.observe([observed(11, changed)])
    body = {
        "action": "abort",
        "filter": shown["filter"],
        "fingerprint": shown["conditions"][0]["fingerprint"],
        "reason": "because",
    }
    return api.client.post(
        "/api/v1/orders/runs", headers=headers, json={**body, "confirm": "flink-orders-3", **changes}
    )


def over(api: Api, run: str) -> dict[str, Any]:
    def found() -> Any:
        row = api.client.get(f"/api/v1/orders/runs/{run}?steps=true", headers=OPERATOR).json()
        return row if row["is_over"] else None

    row: dict[str, Any] = wait_until("the order by filter is over", found)
    return row


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fingerprint": "of-another-set"}, "this preview is not kept"),
        ({"action": "commit"}, "this preview is not kept"),
        ({"filter": {"transaction_prefix": "f"}}, "this preview is not kept"),
        ({"confirm": "flink-"}, "takes 'flink-orders-3' in 'confirm'"),
    ],
)
def test_an_order_by_filter_for_what_was_not_shown_is_refused(
    fresh_api: Api, changes: dict[str, Any], says: str
) -> None:
    answer = by_filter(fresh_api, **changes)
    assert (answer.status_code, answer.json()["code"]) == (409, "order_refused")
    assert says in answer.json()["detail"]
    row = fresh_api.rows("audit")[0]
    assert (row["outcome"], row["detail"]) == ("refused", answer.json()["detail"])
    assert "fingerprint" in row["evidence"][0]
    assert fresh_api.rows("orders/runs") == []


def test_a_viewer_neither_orders_by_filter_nor_stops_one(fresh_api: Api) -> None:
    run = by_filter(fresh_api).json()["run"]
    body = {"action": "abort", "filter": {"pipeline": "p"}, "fingerprint": "f", "reason": "because"}
    assert fresh_api.client.post("/api/v1/orders/runs", headers=VIEWER, json=body).status_code == 403
    path = f"/api/v1/orders/runs/{run}"
    assert fresh_api.client.delete(path, headers=VIEWER).status_code == 403
    over(fresh_api, run)
    assert sorted(row["who"] for row in fresh_api.rows("audit") if row["outcome"] == "refused") == [
        "anna",
        "ben",
        "ben",
    ]
    assert fresh_api.client.get(path, headers=VIEWER).json()["run"] == run
    for method in ("get", "delete"):
        assert fresh_api.client.request(method, "/api/v1/orders/runs/nothing", headers=OPERATOR).status_code == 404


def test_what_changed_since_its_preview_is_refused_alone_in_a_run(fresh_api: Api) -> None:
    shown = preview(fresh_api, transaction_prefix="flink-").json()
    begun = by_filter(fresh_api, idempotency_key="once")
    assert begun.status_code == 200
    row = over(fresh_api, begun.json()["run"])
    assert (row["who"], row["what"], row["filter"]) == ("anna", "transaction prefix flink-", shown["filter"])
    assert (row["sent"], row["done"], row["outcomes"], row["halted"]) == (1, 0, {"refused": 1}, "")
    (step,) = row["steps"]
    assert (step["key"], step["outcome"]) == (shown["keys"][0], "refused")
    assert "changed since it was looked at: it is aborting now" in step["detail"]
    assert fresh_api.rows("orders/runs") == [row | {"steps": []}]
    for headers, mine in ((OPERATOR, 1), (VIEWER, 0)):
        answer = fresh_api.client.get("/api/v1/orders/runs?mine=true", headers=headers)
        assert len(answer.json()["rows"]) == mine
    (audit,) = fresh_api.rows("audit")
    assert audit["reason"] == "because (part 1 of 1 of an order for 1: transaction prefix flink-)"


def test_a_run_is_begun_once_under_its_key(fresh_api: Api) -> None:
    shown = preview(fresh_api, transaction_prefix="flink-").json()
    body = {
        "action": "abort",
        "filter": shown["filter"],
        "fingerprint": shown["conditions"][0]["fingerprint"],
        "reason": "because",
    }
    body |= {"confirm": "flink-orders-3", "idempotency_key": "once"}
    first = by_filter(fresh_api, **body)
    over(fresh_api, first.json()["run"])
    again = fresh_api.client.post("/api/v1/orders/runs", headers=OPERATOR, json=body)
    assert (again.json()["run"], again.json()["is_over"]) == (first.json()["run"], True)
    assert len(fresh_api.rows("audit")) == 1
    other = fresh_api.client.post("/api/v1/orders/runs", headers=OPERATOR, json=body | {"reason": "another"})
    assert (other.status_code, "came with another order" in other.json()["detail"]) == (409, True)


def test_a_refused_order_repeated_gets_the_same_answer(fresh_api: Api) -> None:
    first = fresh_api.order(seen={}, idempotency_key="once")
    assert first.status_code == 409
    again = fresh_api.order(seen={}, idempotency_key="once")
    assert (again.status_code, again.json()) == (409, first.json())
    assert len(fresh_api.rows("audit")) == 1
    other = fresh_api.order(seen={}, idempotency_key="once", reason="another")
    assert (other.status_code, other.json()["code"]) == (409, "order_refused")
    assert "'once' came with another order" in other.json()["detail"]
    assert [row["outcome"] for row in fresh_api.rows("audit")] == ["refused", "refused"]


def test_the_idempotency_key_may_be_a_header(fresh_api: Api) -> None:
    headers = {**OPERATOR, "Idempotency-Key": "once"}
    answers = [fresh_api.order(headers, seen={}).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(fresh_api.rows("audit")) == 1
