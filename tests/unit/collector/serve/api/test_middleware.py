"""Around every request: headers, limits, an answer whatever happens, and a log that holds no secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indoubt.collector.runtime.logs import REQUEST_ID
from indoubt.collector.serve.api.auth.rate_limits import RequestLimits
from indoubt.collector.serve.api.middleware import MAX_BODY_BYTES, SECURITY_HEADERS
from tests.unit.collector.serve.api.served_api import OPERATOR, VIEWER, Api

SECRET = "a-secret-of-somebody-who-mistook-the-place"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize("path", ["health", "status", "nonsense", "transactions?limit=0"])
def test_every_answer_has_the_headers_that_browsers_heed_and_an_id(api: Api, path: str) -> None:
    answers = [api.client.get(f"/api/v1/{path}", headers=VIEWER) for _ in range(2)]
    for answer in answers:
        assert {name: answer.headers[name] for name, _ in HEADERS} == dict(HEADERS)
        assert "server" not in answer.headers
        assert "strict-transport-security" not in answer.headers, "the test speaks plain HTTP"
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2


HEADERS = [(name.decode(), value.decode()) for name, value in SECURITY_HEADERS]


def test_https_has_strict_transport_security(api: Api) -> None:
    assert "max-age" in api.client.get("https://testserver/api/v1/health").headers["strict-transport-security"]


def test_a_body_that_is_too_long_is_refused_with_or_without_a_length(api: Api) -> None:
    most = MAX_BODY_BYTES
    told = api.client.post("/api/v1/orders", headers=OPERATOR, content=b" " * (most + 1))
    untold = api.client.post("/api/v1/orders", headers=OPERATOR, content=iter([b" " * most, b" "]))
    for answer in (told, untold):
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert str(most) in answer.json()["detail"]
    longest = api.client.post("/api/v1/orders", headers=OPERATOR, content=b" " * most)
    assert longest.status_code == 400, "no JSON, but short enough"


def test_a_method_that_a_route_does_not_have_names_those_that_it_has(api: Api) -> None:
    answer = api.client.delete("/api/v1/audit", headers=OPERATOR)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["code"] == "bad_request"


def test_an_unexpected_error_is_answered_and_logged_once_with_the_id(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(api.current, "counts", broken)
    ids: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        # A Kafka client that an earlier test left may say something at any moment.
        if record.name.startswith("indoubt.collector"):
            ids.append(REQUEST_ID.get())
        return True

    caplog.handler.addFilter(note)
    answer = api.client.get("/api/v1/status", headers=VIEWER)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert SECRET not in answer.text
    assert answer.headers["x-request-id"] in answer.json()["detail"]
    assert [r.levelname for r in caplog.records if r.exc_info] == ["ERROR"]
    assert set(ids) == {answer.headers["x-request-id"]}
    assert REQUEST_ID.get() == "-"


def test_too_many_requests_orders_and_failures_say_when_to_come_back(tmp_path: Path) -> None:
    api = Api(tmp_path)
    dependencies = api.client.app.state.dependencies
    object.__setattr__(dependencies, "limits", RequestLimits(orders_per_minute=1, failed_authentications_per_minute=2))
    first, second = (api.client.post("/api/v1/orders", headers=OPERATOR, json={}) for _ in range(2))
    assert (first.status_code, second.status_code, second.headers["retry-after"]) == (422, 429, "60")
    assert second.json()["code"] == "too_many_requests"
    assert api.client.get("/api/v1/status", headers=OPERATOR).status_code == 200
    wrong = {"Authorization": "Bearer nonsense"}
    assert [api.client.get("/api/v1/status", headers=wrong).status_code for _ in range(3)] == [401, 401, 429]
    assert api.client.get("/api/v1/status", headers=OPERATOR).status_code == 429, (
        "this token is short: it could be a guess"
    )
    assert api.client.get("/api/v1/health").status_code == 200
    api.store.close()


def test_a_request_is_logged_by_its_route_with_nothing_that_was_sent(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        api.client.get(f"/api/v1/transactions/{SECRET}?token={SECRET}", headers={"X-Api-Key": SECRET, **VIEWER})
        api.client.get("/api/v1/status", headers={"Authorization": f"Bearer {SECRET}"})
        api.client.get(f"/{SECRET}%0AERROR", headers=VIEWER)
        api.client.post("/api/v1/orders", headers=OPERATOR, json={"password": SECRET})
    requests = [
        r.getMessage().partition(" in ")[0]
        for r in caplog.records
        if r.name == "indoubt.collector.serve.api.middleware"
    ]
    assert requests == [
        "GET /api/v1/transactions/{key:transaction_key}: 404",
        "GET /api/v1/status: 401",
        "GET no route: 404",
        "POST /api/v1/orders: 422",
    ]
    assert SECRET not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("indoubt.collector"))
    assert "anna" in caplog.records[-1].getMessage() or "anna" in caplog.text
