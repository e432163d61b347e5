"""The HTTP API over real state and real history: shapes, roles, the error envelope, refusals that need no broker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from collector.acting import Actors, KafkaActor
from collector.actions import Actions
from collector.api import ARROW, Served, application
from collector.authentication import KnownTokens
from collector.changes import Changes
from collector.current_state import CurrentState
from collector.observations import DecisionSeen, EventSeen, Malformed, Observation, Observed, Position
from collector.ordering.follow_up import FollowUp
from collector.ordering.hanging import HangingOrders
from collector.ordering.order_history import OrderHistory
from collector.ordering.pipelines import PipelineOrders
from collector.overview import Watch
from collector.rate_limits import RequestLimits
from collector.settings import Tokens
from collector.store import Store
from collector.transaction_state_records import BrokerStatus
from collector.verdicts import Limits, LogSight
from lifecycle import decisions
from lifecycle.events import EventType, encode
from resource_managers.decision_log import DecisionLog
from resource_managers.kafka import KafkaResourceManager
from resource_managers.kafka_connection import KafkaConnection
from resource_managers.kafka_partitions import KafkaPartitions
from tests.unit.collector_observations import (
    PREFIX,
    broker_record,
    database_handle,
    decided,
    event,
    handle,
    run_started,
    transaction_event,
)
from tests.unit.partition_sightings import partition_picture

OPERATOR = {"Authorization": "Bearer operator-token"}
VIEWER = {"Authorization": "Bearer viewer-token"}
NOBODY = KafkaConnection("127.0.0.1:1")
BLOCKED_COLUMNS = (
    "topic partition last_stable_offset high_watermark hidden holder_key holder_transaction holder_producer_id "
    "holder_producer_epoch holder_start_offset held_since_ms waiting waiting_since_ms waited_ms lag groups seen_at_ms"
)
HANGING_COLUMNS = (
    "key topic partition transaction producer_id producer_epoch start_offset coordinator_epoch last_record_at_ms since_ms "
    "found_at_ms verdict rule hidden waiting remedy may_abort loses_data confirm evidence revision"
)
COLUMNS = (
    "key resource_manager transaction producer_id producer_epoch pipeline ours life batch attempt slot state verdict rule "
    "opened_at_ms timeout_ms deadline_ms rows bytes partitions may_commit may_abort loses_data evidence revision updated_at_ms"
)


def observed(number: int, observation: Observation, raw: str = "", source: str = "test") -> Observed:
    return Observed(position=Position(source=source, partition=0, offset=number), observation=observation, raw=raw)


def decision_seen(seen: DecisionSeen) -> Observed:
    return observed(seen.offset, seen, decisions.encode(seen.record).decode(), "decisions")


def event_seen(number: int, seen: EventSeen) -> Observed:
    return observed(number, seen, encode(seen.event).decode())


def story() -> list[Observed]:
    """Return a decided and open transaction, a foreign one, an aborted one, a checkpoint and a malformed record."""
    return [
        decision_seen(run_started(0)),
        observed(1, broker_record(BrokerStatus.ONGOING, 0)),
        event_seen(2, transaction_event(EventType.TRANSACTION_PREPARED, 500, handle=handle().to_json())),
        decision_seen(decided(1, handle())),
        observed(4, broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-3", producer_id=7)),
        observed(5, broker_record(BrokerStatus.ONGOING, 0, transaction="gone", producer_id=8)),
        observed(6, broker_record(BrokerStatus.PREPARE_ABORT, 61_000, transaction="gone", producer_id=8, epoch=5)),
        observed(7, broker_record(BrokerStatus.COMPLETE_ABORT, 61_001, transaction="gone", producer_id=8, epoch=5)),
        event_seen(8, event(EventType.CHECKPOINT_COMPLETED, 900, batch=41, rows=100, duration_ms=900)),
        observed(9, Malformed(error="event is not JSON", value="{", at_ms=1)),
    ]


class Api:
    """The application over a store in a temporary directory."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        self.store = Store(directory / "history.duckdb")
        self.current = CurrentState(self.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
        self.current.see_decision_log(LogSight.READABLE)
        self.current.observe(story())
        self.ready = True
        self.follow_up = FollowUp(self.current, OrderHistory(self.store), {}, pause_ms=1000, most_ms=1000)
        self.picture = partition_picture()
        actions = Actions(
            self.current,
            self.store,
            Actors({"kafka": KafkaActor(KafkaResourceManager(NOBODY))}),
            DecisionLog(NOBODY),
            PipelineOrders(self.current, NOBODY, DecisionLog(NOBODY), "pipeline_orders", limit_ms=1000),
            self.follow_up,
            HangingOrders(
                lambda: self.picture, self.current, KafkaResourceManager(NOBODY), KafkaPartitions(NOBODY, "decisions")
            ),
            read_only=read_only,
            limit_ms=1000,
        )
        served = Served(
            current=self.current,
            store=self.store,
            actions=actions,
            watch=Watch(self.current, 30_000),
            changes=Changes(),
            tokens=KnownTokens.given(Tokens(operators={"anna": "operator-token"}, viewers={"ben": "viewer-token"})),
            read_only=read_only,
            bootstrap_servers="127.0.0.1:1",
            foreign_old_ms=30_000,
            is_ready=lambda: self.ready,
            cluster=lambda: "c",
            observers=lambda: [],
            limits=RequestLimits(failed_authentications_per_minute=1000),
            partitions=lambda: self.picture,
        )
        self.served = served
        self.client = TestClient(application(served), raise_server_exceptions=False)

    def rows(self, path: str) -> list[dict[str, Any]]:
        answer = self.client.get(f"/api/v1/{path}", headers=VIEWER)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rows"]
        return found

    def order(self, headers: dict[str, str] = OPERATOR, **changes: Any) -> Any:
        row = next(r for r in self.rows("transactions") if r["transaction"] == "ip-count-0-1")
        body = {"action": "commit", "keys": [row["key"]], "seen": {row["key"]: row["revision"]}, "reason": "because"}
        return self.client.post("/api/v1/orders", headers=headers, json=body | changes)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return one for all tests that leave the transactions as they are; audit rows are newest first."""
    made = Api(tmp_path_factory.mktemp("api"))
    yield made
    made.store.close()


@pytest.fixture
def fresh_api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def read_only_api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path, read_only=True)
    yield made
    made.store.close()


PATHS = [
    "status",
    "overview",
    "transactions",
    "transactions/k",
    "aborts",
    "jobs",
    "losses",
    "ids",
    "checkpoints",
    "blocked",
    "hanging",
    "audit",
    "malformed",
    "changes",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nonsense"}, {"Authorization": "viewer-token"}])
def test_nothing_but_health_is_told_without_a_token(api: Api, path: str, headers: dict[str, str]) -> None:
    answer = api.client.get(f"/api/v1/{path}", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"


def test_an_order_without_a_token_is_refused(api: Api) -> None:
    assert api.client.post("/api/v1/orders", json={}).status_code == 401


def test_health_needs_no_token_and_says_when_history_is_loading(api: Api) -> None:
    assert api.client.get("/api/v1/health").json() == {"ready": True}
    api.ready = False
    assert api.client.get("/api/v1/health").status_code == 503
    assert api.client.get("/api/v1/transactions", headers=VIEWER).json()["error"]["code"] == "unavailable"
    api.ready = True


def test_status_says_who_calls_and_counts(api: Api) -> None:
    status = api.client.get("/api/v1/status", headers=OPERATOR).json()
    assert (status["name"], status["role"], status["events"], status["malformed"]) == ("anna", "operator", 9, 1)


def test_transactions_come_most_urgent_first_with_every_column(api: Api) -> None:
    rows = api.rows("transactions")
    assert [row["verdict"] for row in rows] == ["commit it", "foreign"]
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


def test_the_overview_counts_what_waits_and_what_hangs(api: Api) -> None:
    counts = api.client.get("/api/v1/overview", headers=VIEWER).json()["counts"]
    assert (counts["blocked_partitions"], counts["waiting_groups"], counts["hanging"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("verdict=foreign", 1),
        ("pipeline=ip-count", 1),
        ("resource_manager=kafka", 2),
        ("resource_manager=mysql", 0),
        ("limit=1", 1),
    ],
)
def test_transactions_are_filtered(api: Api, query: str, found: int) -> None:
    assert len(api.rows(f"transactions?{query}")) == found


def test_one_transaction_has_its_time_line_decision_and_handle(api: Api) -> None:
    key = api.rows("transactions")[0]["key"]
    one = api.client.get(f"/api/v1/transactions/{key}", headers=VIEWER).json()
    assert one["decision"]["offset"] == 1
    assert one["handle"] == handle().to_json()
    assert [e["at_ms"] for e in one["timeline"]] == sorted(e["at_ms"] for e in one["timeline"])
    assert {e["source"] for e in one["timeline"]} == {"__transaction_state", "lifecycle events", "decision log"}


def test_arrow_has_the_same_rows_as_json(api: Api) -> None:
    answer = api.client.get("/api/v1/transactions", headers={**VIEWER, "Accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all().to_pylist()
    rows = api.rows("transactions")
    assert [r["key"] for r in table] == [r["key"] for r in rows]
    assert json.loads(table[0]["evidence"]) == rows[0]["evidence"]


@pytest.mark.parametrize("path", ["transactions", "aborts", "batches", "checkpoints", "malformed", "audit"])
def test_arrow_tables_have_the_columns_of_json_also_when_they_are_empty(fresh_api: Api, path: str) -> None:
    fresh_api.order(VIEWER)
    fresh_api.store.flushed()
    full = set(fresh_api.rows(path)[0])
    for query in ("", "?pipeline=nobody", "?cause=nobody"):
        answer = fresh_api.client.get(f"/api/v1/{path}{query}", headers={**VIEWER, "Accept": ARROW})
        assert set(pa.ipc.open_stream(io.BytesIO(answer.content)).read_all().column_names) == full


def test_aborts_checkpoints_and_malformed(api: Api) -> None:
    (abort,) = api.rows("aborts")
    assert (abort["transaction"], abort["cause"], abort["open_ms"]) == ("gone", "timeout", 61_000)
    assert api.rows("aborts?cause=fenced") == []
    (checkpoint,) = api.rows("checkpoints")
    assert (checkpoint["number"], checkpoint["state"], checkpoint["transactions"]) == (41, "completed", 1)
    api.store.flushed()
    (aside,) = api.rows("malformed")
    assert (aside["source"], aside["offset"], aside["error"], aside["value"]) == ("test", 9, "event is not JSON", "{")


def test_ids_are_counted_by_prefix(api: Api) -> None:
    found = {row["prefix"]: row for row in api.rows("ids")}
    assert (found["ip-count"]["ids"], found["flink-orders"]["ids"], found["gone"]["ids"]) == (1, 1, 1)
    assert (found["ip-count"]["lives"], found["ip-count"]["leaks"], found["ip-count"]["shared"]) == (1, False, False)
    answer = api.client.get("/api/v1/ids", headers={**VIEWER, "Accept": ARROW})
    table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
    assert table.num_rows == len(found)
    assert table.schema.field("growth_per_hour").type == pa.float64()


def test_losses_say_what_is_missing_and_why(api: Api) -> None:
    (loss,) = api.rows("losses")
    assert (loss["transaction"], loss["verdict"], loss["certainty"], loss["cause"]) == (
        "gone",
        "cannot be told",
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


def test_overview_puts_what_needs_a_hand_first(api: Api) -> None:
    answer = api.client.get("/api/v1/overview", headers=VIEWER).json()
    first = answer["needs_hand"][0]
    assert (first["verdict"], first["pipeline"], first["batch"], first["rows"]) == ("commit it", PREFIX, 41, 100)
    assert "commit it" in first["headline"]
    assert (answer["counts"]["open"], answer["counts"]["prepared"]) == (2, 1)
    assert len(answer["per_minute"]) == 60
    assert answer["quiet_since_ms"] is None


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("transactions/kafka:none:1:1", 404, "not_found"),
        ("nonsense", 404, "not_found"),
        ("transactions?limit=0", 422, "invalid"),
        ("aborts?since_ms=yesterday", 422, "invalid"),
    ],
)
def test_an_error_is_always_the_same_envelope(api: Api, path: str, status: int, code: str) -> None:
    answer = api.client.get(f"/api/v1/{path}", headers=VIEWER)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]


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
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
    assert f"'{next(iter(changes))}'" in answer.json()["error"]["message"]


def test_a_body_that_is_no_json_is_a_bad_request(api: Api) -> None:
    answer = api.client.post("/api/v1/orders", headers=OPERATOR, content=b"{")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")


def test_a_viewer_may_not_order_and_the_attempt_is_written_down(api: Api) -> None:
    answer = api.order(VIEWER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    row = api.rows("audit")[0]
    assert (row["who"], row["action"], row["outcome"], row["reason"]) == ("ben", "commit", "refused", "because")


def test_nobody_orders_in_read_only_mode(read_only_api: Api) -> None:
    assert read_only_api.order().status_code == 403
    assert read_only_api.rows("audit")[0]["outcome"] == "refused"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seen": {}}, "'seen'"),
        ({"keys": ["kafka:x:1:1"], "seen": {}}, "not known"),
    ],
)
def test_an_order_that_is_not_safe_is_refused_with_an_audit_row(api: Api, changes: dict[str, Any], says: str) -> None:
    answer = api.order(**changes)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "order_refused")
    assert says in answer.json()["error"]["message"]
    assert api.rows("audit")[0]["detail"] == answer.json()["error"]["message"]


@pytest.mark.parametrize("action", ["commit", "abort"])
def test_an_order_about_a_branch_in_a_database_is_refused_and_says_who_settles_it(fresh_api: Api, action: str) -> None:
    branch = database_handle()
    fresh_api.current.observe([decision_seen(decided(2, branch, batch=42))])
    row = next(r for r in fresh_api.rows("transactions") if r["resource_manager"] == "mysql")
    assert (row["key"], row["state"], row["timeout_ms"], row["producer_id"]) == (branch.key, "decided", None, None)
    answer = fresh_api.order(action=action, keys=[row["key"]], seen={row["key"]: row["revision"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "order_refused")
    assert "is held by 'mysql'" in answer.json()["error"]["message"]
    assert fresh_api.rows("audit")[0]["outcome"] == "refused"


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


@pytest.mark.parametrize(
    ("key", "seen", "says"),
    [
        ("nobody/life/1/2", None, "not known"),
        ("", "an older look", "changed since it was looked at: it is in doubt now"),
    ],
)
def test_a_batch_that_is_gone_or_changed_is_not_settled(api: Api, key: str, seen: str | None, says: str) -> None:
    key = key or api.rows("batches")[0]["key"]
    answer = api.order(action="settle", keys=[key], seen={key: seen} if seen else {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "order_refused")
    assert says in answer.json()["error"]["message"]
    assert api.rows("audit")[0]["action"] == "settle"


def test_an_order_on_an_old_look_is_refused_and_says_what_changed(fresh_api: Api) -> None:
    row = next(r for r in fresh_api.rows("transactions") if r["transaction"] == "ip-count-0-1")
    fresh_api.current.observe([observed(10, broker_record(BrokerStatus.PREPARE_COMMIT, 5000, epoch=5, version=2))])
    answer = fresh_api.order(keys=[row["key"]], seen={row["key"]: row["revision"]})
    assert answer.status_code == 409
    assert "it is committing now" in answer.json()["error"]["message"]


@pytest.mark.parametrize("confirm", ["", "flink-orders", "FLINK-ORDERS-3"])
def test_what_may_lose_data_takes_the_id_typed(api: Api, confirm: str) -> None:
    row = next(r for r in api.rows("transactions") if r["verdict"] == "foreign")
    answer = api.order(action="abort", keys=[row["key"]], seen={row["key"]: row["revision"]}, confirm=confirm)
    assert answer.status_code == 409
    assert "'confirm'" in answer.json()["error"]["message"]


def test_a_decided_transaction_is_never_aborted(api: Api) -> None:
    answer = api.order(action="abort", confirm="ip-count-0-1")
    assert answer.status_code == 409
    assert "may not be aborted" in answer.json()["error"]["message"]


def preview(api: Api, headers: dict[str, str] = OPERATOR, **wanted: Any) -> Any:
    body = {"action": "abort", "filter": wanted}
    return api.client.post("/api/v1/orders/preview", headers=headers, json=body)


def test_a_preview_tells_what_a_bulk_abort_would_mean_and_whoever_reads_may_ask(api: Api) -> None:
    answer = preview(api, VIEWER, transaction_prefix="flink-")
    assert answer.status_code == 200
    found = answer.json()
    assert [row["transaction"] for row in found["rows"]] == ["flink-orders-3"]
    assert (found["keys"], found["confirm"]) == ([found["rows"][0]["key"]], "flink-orders-3")
    assert preview(api, {}, transaction_prefix="flink-").status_code == 401
    assert [one["verdict"] for one in preview(api, pipeline=PREFIX).json()["left_out"]] == ["commit it"]


def test_a_bulk_abort_of_a_set_that_changed_is_refused(fresh_api: Api) -> None:
    shown = preview(fresh_api, transaction_prefix="flink-").json()
    later = broker_record(BrokerStatus.ONGOING, 0, transaction="flink-orders-4", producer_id=9)
    fresh_api.current.observe([observed(11, later)])
    body = {"action": "abort", "filter": shown["filter"], "fingerprint": shown["fingerprint"], "reason": "because"}
    answer = fresh_api.client.post("/api/v1/orders", headers=OPERATOR, json=body | {"confirm": shown["confirm"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "order_refused")
    assert "2 now" in answer.json()["error"]["message"]
    row = fresh_api.rows("audit")[0]
    assert (row["outcome"], row["evidence"][0]["fingerprint"]) == ("refused", shown["fingerprint"])


def test_a_bulk_abort_of_what_may_lose_data_takes_what_its_preview_says_typed(fresh_api: Api) -> None:
    shown = preview(fresh_api, transaction_prefix="flink-").json()
    body = {"action": "abort", "filter": shown["filter"], "fingerprint": shown["fingerprint"], "reason": "because"}
    answer = fresh_api.client.post("/api/v1/orders", headers=OPERATOR, json=body | {"confirm": "flink-"})
    assert answer.status_code == 409
    assert "'confirm'" in answer.json()["error"]["message"]


def test_a_refused_order_given_again_gets_the_same_answer_and_no_second_audit_row(fresh_api: Api) -> None:
    first = fresh_api.order(seen={}, idempotency_key="once")
    assert first.status_code == 409
    again = fresh_api.order(seen={}, idempotency_key="once")
    assert (again.status_code, again.json()) == (409, first.json())
    assert len(fresh_api.rows("audit")) == 1
    other = fresh_api.order(seen={}, idempotency_key="once", reason="another")
    assert (other.status_code, other.json()["error"]["code"]) == (409, "order_refused")
    assert "'once' came with another order" in other.json()["error"]["message"]
    assert [row["outcome"] for row in fresh_api.rows("audit")] == ["refused", "refused"]


def test_the_idempotency_key_may_be_a_header(fresh_api: Api) -> None:
    headers = {**OPERATOR, "Idempotency-Key": "once"}
    answers = [fresh_api.order(headers, seen={}).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(fresh_api.rows("audit")) == 1


def test_state_is_the_same_after_a_restart(tmp_path: Path) -> None:
    before = Api(tmp_path)
    rows = before.rows("transactions?all=true")
    before.store.close()
    store = Store(tmp_path / "history.duckdb")
    again = CurrentState(store, settled_kept=100, checkpoints_kept=100, limits=Limits())
    again.load()
    assert again.counts() == (9, 1)
    assert {j.view.key: j.view.revision for j in again.judged(settled=True)} == {r["key"]: r["revision"] for r in rows}
    assert store.next_offsets("test") == {0: 10}
    assert store.next_offsets("decisions") == {0: 2}
    store.close()
