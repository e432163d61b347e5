"""Standing orders over HTTP, and their service without a broker: roles, the switch, what is held back, what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.history.store import StoreFailed
from indoubt.collector.observe.source import ObserverState, ObserverStatus
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.resource_managers.topics import decision_log_topic
from tests.unit.collector.observations import T0
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER
from tests.unit.collector.serve.api.test_alert_routes import AlertApi

pytestmark = pytest.mark.slow
SEES = [
    ObserverStatus(kind=kind, state=ObserverState.UP, delay_ms=5, since_ms=T0, error="", records=1)
    for kind in (ObserverKind.TRANSACTION_LOG, ObserverKind.DECISION_LOG)
]
"""Observers that leave no doubt. The story's decided transaction is past its timeout, so it is due."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[AlertApi]:
    made = AlertApi(tmp_path)
    yield made
    made.store.close()


def switch(api: AlertApi, headers: dict[str, str] = OPERATOR, **body: Any) -> Any:
    body = body or {"stopped": True, "reason": "a drill"}
    return api.client.post("/api/v1/standing-orders", headers=headers, json=body)


def row(api: AlertApi) -> dict[str, Any]:
    (found,) = api.rows("standing-orders")
    return found


def audit(api: AlertApi) -> list[tuple[str, str, str]]:
    return [(one["who"], one["action"], one["outcome"]) for one in reversed(api.rows("audit"))]


def test_until_the_audit_was_read_they_are_stopped(api: AlertApi) -> None:
    assert row(api)["state"] == "stopped"
    api.evaluate()
    assert row(api)["state"] == "held back"
    assert row(api)["why"] == "no observer sees the transaction coordinators"


def test_a_row_says_what_the_file_says(api: AlertApi) -> None:
    api.evaluate()
    found = row(api)
    del found["evaluated_at_ms"], found["state"], found["why"]
    assert found == {
        "name": "save",
        "act": "commit",
        "applications": ["ip-count"],
        "when": "less than 60 s left",
        "most_per_hour": 1,
        "acts": 0,
        "dry_runs": 0,
        "held": 1,
        "last_at_ms": None,
        "owner": "carla",
        "switched_by": "",
        "switched_at_ms": None,
    }


def test_an_operator_stops_and_starts_them_and_a_restart_remembers_it(api: AlertApi) -> None:
    api.evaluate()
    stopped = switch(api)
    assert (stopped.status_code, stopped.json()) == (200, {"stopped": True, "audit": 1})
    assert (row(api)["state"], row(api)["switched_by"]) == ("stopped", "anna")

    restarted = api.standing_orders()
    api.evaluate(restarted)
    assert restarted.report().switch.stopped
    assert restarted.report().switch.reason == "a drill"

    assert switch(api, stopped=False, reason="it is over").json() == {"stopped": False, "audit": 2}
    assert row(api)["state"] == "held back"
    restarted = api.standing_orders()
    api.evaluate(restarted)
    assert not restarted.report().switch.stopped
    assert audit(api) == [("anna", "stop standing orders", "accepted"), ("anna", "start standing orders", "accepted")]


def test_a_viewer_may_not_and_that_is_written_down(api: AlertApi) -> None:
    api.evaluate()
    refused = switch(api, VIEWER)
    assert refused.status_code == 403
    assert "(audit 1)" in refused.json()["detail"]
    assert audit(api) == [("ben", "stop standing orders", "refused")]
    assert row(api)["state"] == "held back"
    restarted = api.standing_orders()
    api.evaluate(restarted)
    assert not restarted.report().switch.stopped, "a refused stop stops nothing after a restart either"


@pytest.mark.parametrize(
    "body",
    [
        {"stopped": True},
        {"stopped": "yes", "reason": "why not"},
        {"stopped": 1, "reason": "why not"},
        {"stopped": True, "reason": " x "},
        {"stopped": True, "reason": 7},
        {"stopped": True, "reason": "because", "name": "save"},
    ],
)
def test_a_wrong_body_is_said(api: AlertApi, body: dict[str, Any]) -> None:
    assert switch(api, **body).status_code == 422
    assert audit(api) == []


def test_a_stop_that_cannot_be_written_down_stops_all_the_same(api: AlertApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.evaluate()

    def fails(row: Sequence[Any]) -> int:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(api.store, "append_audit", fails)
    assert switch(api, stopped=False, reason="it is over").status_code == 503
    assert row(api)["state"] == "held back"
    assert switch(api).status_code == 503
    assert row(api)["state"] == "stopped"


def test_a_refused_act_is_in_the_audit_and_uses_up_no_limit_after_a_restart(
    api: AlertApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_log_topic, "ANSWER_LIMIT_S", 0.5)
    api.observers = SEES
    api.evaluate()
    assert audit(api) == [("carla", "commit", "refused")], "the broker of these tests does not answer"
    (written,) = api.rows("audit")
    assert written["reason"].startswith("standing order save: 0 ms left before its timeout")
    assert written["evidence"][0] == {"standing_order": "save", "dry_run": False}
    (order,) = api.standing.report().orders
    assert (order.acted, order.failed) == (0, 1)
    assert [act.outcome for act in order.acts] == ["refused"]

    api.evaluate()
    assert "the last attempt was refused" in row(api)["why"]
    restarted = api.standing_orders()
    api.evaluate(restarted)
    assert audit(api) == [("carla", "commit", "refused")] * 2
    assert [act.outcome for act in restarted.report().orders[0].acts] == ["refused"] * 2
    api.evaluate(restarted)
    assert "the last attempt was refused" in restarted.report().orders[0].held[0].why
    assert len(audit(api)) == 2


def test_a_person_cannot_write_what_counts_as_a_standing_orders_act(api: AlertApi) -> None:
    api.order(reason='[{"standing_order": "save"}]', seen={})
    api.evaluate()
    assert api.standing.report().orders[0].acts == ()
    assert len(audit(api)) == 1


def test_a_read_only_collector_holds_all_back(tmp_path: Path) -> None:
    api = AlertApi(tmp_path, read_only=True)
    api.observers = SEES
    api.evaluate()
    assert row(api)["why"] == "the collector runs read-only"
    assert audit(api) == []
    assert switch(api).status_code == 200
    api.store.close()
