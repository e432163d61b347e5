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
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from tests.unit.collector.assessments import assessor_of
from tests.unit.collector.observations import PREFIX, T0, broker_record
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER, Api, observed

PATHS = [
    "status",
    "overview",
    "attention",
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
    assert (status["name"], status["role"], status["events"], status["quarantined"]) == ("anna", "operator", 9, 1)


def test_the_overview_counts_what_waits_and_what_hangs(api: Api) -> None:
    counts = api.client.get("/api/v1/overview", headers=VIEWER).json()["counts"]
    assert (counts["waiting_groups"], counts["hanging"]) == (1, 1)


def test_the_overview_counts_rows_every_2_s_however_often_it_is_asked(fresh_api: Api) -> None:
    counted, at_ms = cached_counts(fresh_api.current, fresh_api.store), T0 + 61_500
    fresh_api.store.flushed()
    first = counted.at(at_ms)
    assert (first.committed, first.aborted, first.checkpoints.total) == (0, 1, 1)
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
    first = answer["attention"][0]
    assert (first["verdict"], first["pipeline"], first["batch"], first["rows"]) == ("commit it", PREFIX, 41, 100)
    assert "commit it" in first["headline"]
    (hanging,) = [card for card in answer["attention"] if card["verdict"] == "hanging"]
    assert hanging["keys"] == [row["key"] for row in api.rows("hanging")]
    assert "no coordinator will end" in hanging["headline"]
    assert (answer["counts"]["open"], answer["counts"]["prepared"]) == (2, 1)


def test_overview_lists_whatever_needs_attention(api: Api) -> None:
    answer = api.client.get("/api/v1/overview", headers=VIEWER).json()
    (needed,) = [card for card in answer["attention"] if card["verdict"] == "commit it"]
    assert (needed["kind"], needed["remedy"], needed["pipeline"], needed["batch"]) == (
        "transactions", "commit", PREFIX, 41,
    )  # fmt: skip
    (hanging,) = [card for card in answer["attention"] if card["verdict"] == "hanging"]
    assert [(one["group"], one["partitions"]) for one in hanging["waits"]] == [("readers", 1)]
    assert answer["all_well_since_ms"] is None


def test_a_cut_overview_has_the_most_urgent_and_says_how_many_there_are(api: Api) -> None:
    whole = api.client.get("/api/v1/overview", headers=VIEWER).json()
    cut = api.client.get("/api/v1/overview?limit=1", headers=VIEWER).json()
    assert len(whole["attention"]) == whole["attention_total"] == cut["attention_total"] > 1
    assert [card["key"] for card in cut["attention"]] == [whole["attention"][0]["key"]]
    assert cut["counts"]["open"] == whole["counts"]["open"]
    assert api.client.get("/api/v1/overview?limit=-1", headers=VIEWER).status_code == 422


def test_cards_are_found_by_kind_and_by_what_they_are_about(api: Api) -> None:
    def found(**wanted: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = api.client.get("/api/v1/attention", params=wanted, headers=VIEWER).json()["rows"]
        return rows

    whole = api.client.get("/api/v1/overview", headers=VIEWER).json()["attention"]
    assert found() == whole
    for kind in {card["kind"] for card in whole}:
        assert found(kind=kind) == [card for card in whole if card["kind"] == kind]
    first, last = whole[0], whole[-1]
    assert found(key=first["keys"][0]) == [first]
    assert found(key=[last["target"] or last["keys"][0], first["keys"][0]]) == [first, last]
    assert found(key="of nothing") == []
    cut = api.client.get("/api/v1/attention?limit=1", headers=VIEWER).json()
    assert (cut["rows"], cut["more"]) == ([first], len(whole) - 1)
    assert api.client.get("/api/v1/attention", params={"key": ["k"] * 101}, headers=VIEWER).status_code == 422
    wrong = api.client.get("/api/v1/attention?kind=pipelines", headers=VIEWER)
    assert wrong.status_code == 422
    assert "'transactions', 'pipeline', 'alert', 'readers' or 'observer'" in wrong.text


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
    fresh_api.current = CurrentState(fresh_api.store, settled_kept=100, checkpoints_kept=100, limits=Limits())
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
    assert [card.key for card in down.attention] == ["observer:partitions"]
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
def test_an_error_is_always_the_same_envelope(api: Api, path: str, status: int, code: str) -> None:
    answer = api.client.get(f"/api/v1/{path}", headers=VIEWER)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]


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
