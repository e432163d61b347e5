"""Persons for whom an app asks: what they may do, whom the audit names, and which tokens may speak for them."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import Person
from tests.unit.collector.serve.api.served_api import OPERATOR, PAGES, VIEWER, Api

CARLA = Person(name="carla@example.org", role=Role.OPERATOR).headers()
DORA = Person(name="dora@example.org", role=Role.VIEWER).headers()


def test_the_audit_names_the_person_and_the_app_that_asked(api: Api) -> None:
    key = next(row["key"] for row in api.rows("transactions") if row["transaction"] == "ip-count-0-1")
    answer = api.order(PAGES | CARLA, seen={key: "as it was before"})
    assert answer.status_code == 409, "her role let her order; what she saw has changed"
    assert api.rows("audit")[0]["who"] == "carla@example.org via pages"


def test_a_viewer_does_not_order_through_the_token_of_an_operator(api: Api) -> None:
    answer = api.order(PAGES | DORA)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    row = api.rows("audit")[0]
    assert (row["who"], row["outcome"]) == ("dora@example.org via pages", "refused")


def test_an_app_that_names_no_person_reads_and_does_not_order(api: Api) -> None:
    assert api.client.get("/api/v1/overview", headers=PAGES).status_code == 200
    assert api.order(PAGES).status_code == 403
    assert api.rows("audit")[0]["who"] == "pages"


@pytest.mark.parametrize("token", [OPERATOR, VIEWER])
def test_no_other_token_speaks_for_a_person(api: Api, token: dict[str, str]) -> None:
    before = api.rows("audit")
    answer = api.order(token | CARLA)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert "may not speak for persons" in answer.json()["detail"]
    assert api.rows("audit") == before


@pytest.mark.parametrize(
    "changes",
    [
        {"X-Indoubt-Role": "root"},
        {"X-Indoubt-Person": ""},
        {"X-Indoubt-Person": "carla%0Adora"},
    ],
)
def test_a_person_who_cannot_be_one_is_refused(api: Api, changes: dict[str, str]) -> None:
    answer = api.client.get("/api/v1/status", headers=PAGES | CARLA | changes)
    assert answer.status_code == 401
    assert "carla" not in answer.text


def test_the_status_says_who_the_person_is(api: Api) -> None:
    status = api.client.get("/api/v1/status", headers=PAGES | CARLA).json()
    assert (status["name"], status["role"]) == ("carla@example.org via pages", "operator")
