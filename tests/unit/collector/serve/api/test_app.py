"""The HTTP API: who is let in, the error envelope, status and overview, the same after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.serve.api.overview import cached_counts
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.page_paths import CLUSTER_HEADER
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.observations import PREFIX, T0, broker_record
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER, Api, observed

PATHS = [
    "status",
    "overview",
    "incidents",
    "transactions",
    "transactions/k",
    "transaction-counts",
    "aborts",
    "jobs",
    "losses",
    "ids",
    "checkpoints",
    "blocked",
    "hanging",
    "audit",
    "quarantined",
    "changes",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nonsense"}, {"Authorization": "viewer-token"}])
def test_nothing_but_health_is_served_without_a_token(api: Api, path: str, headers: dict[str, str]) -> None:
    answer = api.client.get(f"/api/v1/{path}", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"


def test_a_request_for_another_cluster_is_refused_and_an_order_has_its_row(fresh_api: Api) -> None:
    fresh_api.served = replace(fresh_api.served, cluster_name="us")
    before, meant = fresh_api.rows("audit"), {CLUSTER_HEADER: "eu"}
    assert fresh_api.client.get("/api/v1/overview", headers={**VIEWER, **meant}).status_code == 409
    assert fresh_api.order(headers={**OPERATOR, **meant}, action="burn it").status_code == 422
    assert fresh_api.rows("audit") == before
    refused = fresh_api.order(headers={**OPERATOR, **meant})
    assert (refused.status_code, refused.json()["code"]) == (409, "order_refused")
    (row,) = fresh_api.rows("audit")
    assert (row["who"], row["action"], row["reason"], row["outcome"]) == ("anna", "commit", "because", "refused")
    assert row["detail"].startswith("this collector is of cluster us, and eu is meant")
    assert refused.json()["detail"] == f"{row['detail']} (audit {row['audit']})"
    run = {"action": "abort", "filter": {"pipeline": PREFIX}, "fingerprint": "f", "reason": "because"}
    begun = fresh_api.client.post("/api/v1/orders/runs", headers={**OPERATOR, **meant}, json=run)
    assert (begun.status_code, fresh_api.rows("audit")[0]["action"]) == (409, "abort")
    assert fresh_api.rows("orders/runs") == []
    for headers in (VIEWER, {**VIEWER, CLUSTER_HEADER: "us"}):
        assert fresh_api.client.get("/api/v1/status", headers=headers).json()["cluster_name"] == "us"


@pytest.mark.parametrize("path", ["transactions", "audit", "losses", "incidents", "pipelines"])
def test_each_row_says_its_cluster_where_that_has_a_name(fresh_api: Api, path: str) -> None:
    fresh_api.order(headers=VIEWER)
    unnamed = fresh_api.rows(path)
    assert unnamed
    del fresh_api.client
    fresh_api.served = replace(fresh_api.served, cluster_name="eu")
    named = fresh_api.rows(path)
    assert [row.get("cluster_name") for row in named] == ["eu"] * len(unnamed)
    assert [row.keys() - {"cluster_name"} for row in named] == [row.keys() for row in unnamed]
    overview = fresh_api.client.get("/api/v1/overview", headers=VIEWER).json()
    assert overview["cluster_name"] == "eu"


def test_an_order_without_a_token_is_refused(api: Api) -> None:
    assert api.client.post("/api/v1/orders", json={}).status_code == 401


def test_health_needs_no_token_and_says_when_history_is_loading(api: Api) -> None:
    assert api.client.get("/api/v1/health").json() == {"ready": True}
    api.ready = False
    assert api.client.get("/api/v1/health").status_code == 503
    assert api.client.get("/api/v1/transactions", headers=VIEWER).json()["code"] == "unavailable"
    api.ready = True


def test_status_says_who_calls_and_counts(api: Api) -> None:
    status = api.client.get("/api/v1/status", headers=OPERATOR).json()
    assert (status["name"], status["role"], status["events"], status["quarantined"]) == ("anna", "operator", 9, 1)


def test_the_overview_counts_what_waits_and_what_hangs(api: Api) -> None:
    counts = api.client.get("/api/v1/overview", headers=VIEWER).json()["counts"]
    assert (counts["waiting_groups"], counts["hanging"]) == (1, 1)


def test_the_overview_counts_rows_every_2_s_however_often_it_is_asked(fresh_api: Api) -> None:
    counted, at_ms = cached_counts(fresh_api.store), T0 + 61_500
    fresh_api.store.flushed()
    first = counted.at(at_ms)
    assert (first.committed, first.aborted) == (0, 1)
    ends = (BrokerStatus.ONGOING, BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT)
    fresh_api.current.observe(
        [observed(20 + n, broker_record(s, 61_200, transaction="new")) for n, s in enumerate(ends)]
    )
    fresh_api.store.flushed()
    assert counted.at(at_ms + 1_999) is first
    assert counted.at(at_ms + 2_000).committed == 1
    assert counted.at(at_ms - 1) is not first, "the clock was set back"


def test_overview_puts_what_needs_a_hand_first(api: Api) -> None:
    answer = api.client.get("/api/v1/overview", headers=VIEWER).json()
    first = answer["incidents"][0]
    (part,) = first["parts"]
    assert (part["verdict"], part["pipeline"], part["batch"], part["rows"]) == ("commit it", PREFIX, 41, 100)
    assert "decided to commit batch 41" in first["headline"] == part["headline"]
    assert [(step["what"], step["remedy"], step["state"]) for step in first["steps"]] == [
        ("Commit batch 41", "commit", "to do"),
    ]
    (hanging,) = [part for one in answer["incidents"] for part in one["parts"] if part["verdict"] == "hanging"]
    assert hanging["keys"] == [row["key"] for row in api.rows("hanging")]
    assert "no coordinator will end" in hanging["headline"]
    assert [(one["group"], one["partitions"]) for one in hanging["waits"]] == [("readers", 1)]
    assert (answer["counts"]["open"], answer["counts"]["prepared"]) == (2, 1)
    assert answer["all_well_since_ms"] is None


def test_a_cut_overview_has_the_most_urgent_and_says_how_many_there_are(api: Api) -> None:
    whole = api.client.get("/api/v1/overview", headers=VIEWER).json()
    cut = api.client.get("/api/v1/overview?limit=1", headers=VIEWER).json()
    assert len(whole["incidents"]) == whole["incidents_total"] == whole["to_act"] == cut["incidents_total"] > 1
    assert [one["key"] for one in cut["incidents"]] == [whole["incidents"][0]["key"]]
    assert cut["counts"]["open"] == whole["counts"]["open"]
    assert api.client.get("/api/v1/overview?limit=-1", headers=VIEWER).status_code == 422


def test_incidents_are_found_by_what_they_are_about(api: Api) -> None:
    def found(**wanted: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = api.client.get("/api/v1/incidents", params=wanted, headers=VIEWER).json()["rows"]
        return rows

    whole = api.client.get("/api/v1/overview", headers=VIEWER).json()["incidents"]
    assert found() == whole
    first, last = whole[0], whole[-1]
    assert found(key=first["parts"][0]["keys"][0]) == [first]
    assert found(key=first["application"]) == [first]
    of_last = last["parts"][0]
    assert found(key=[of_last["target"] or of_last["keys"][0], first["parts"][0]["keys"][0]]) == [first, last]
    assert found(key="of nothing") == []
    cut = api.client.get("/api/v1/incidents?limit=1", headers=VIEWER).json()
    assert (cut["rows"], cut["more"]) == ([first], len(whole) - 1)
    assert api.client.get("/api/v1/incidents", params={"key": ["k"] * 101}, headers=VIEWER).status_code == 422


def test_all_is_well_since_nothing_needed_attention(fresh_api: Api) -> None:
    status = ObserverStatus(
        kind=ObserverKind.PARTITIONS,
        state=ObserverState.STARTING,
        delay_ms=None,
        since_ms=now_ms(),
        error="",
        records=0,
    )
    seen = [status]
    fresh_api.current = CurrentState(fresh_api.store)
    assessor = assessor_of(fresh_api.current, observers=lambda: seen)
    first = assessor.now()
    assert first.all_well_since_ms is None, "an observer that has not seen its source yet"
    seen[0] = replace(status, state=ObserverState.UP, delay_ms=0)
    fresh_api.current.changed()
    well = assessor.now()
    assert well.all_well_since_ms == well.now_ms
    assert assessor.now() is well, "judged once while nothing changes"
    seen[0] = replace(status, state=ObserverState.DOWN)
    fresh_api.current.changed()
    down = assessor.now()
    assert [part.key for one in down.incidents for part in one.parts] == ["observer:partitions"]
    assert down.all_well_since_ms is None


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("transactions/kafka:none:1:1", 404, "not_found"),
        ("nonsense", 404, "not_found"),
        ("transactions?limit=0", 422, "invalid"),
        ("aborts?since_ms=yesterday", 422, "invalid"),
    ],
)
def test_an_error_is_always_problem_details(api: Api, path: str, status: int, code: str) -> None:
    answer = api.client.get(f"/api/v1/{path}", headers=VIEWER)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json()) == {"type", "title", "status", "detail", "code"}
    assert answer.json()["status"] == status
    assert answer.json()["code"] == code
    assert answer.json()["detail"]


def test_state_is_the_same_after_a_restart(tmp_path: Path) -> None:
    before = Api(tmp_path)
    rows = before.rows("transactions?all=true")
    before.store.close()
    store = Store(tmp_path / "history.duckdb")
    again = CurrentState(store)
    again.load()
    assert again.counts() == (9, 1)
    assert {j.view.key: j.view.revision for j in again.transactions.judged(settled=True)} == {
        r["key"]: r["revision"] for r in rows
    }
    assert store.next_offsets("test") == {0: 10}
    assert store.next_offsets("decisions") == {0: 2}
    store.close()
